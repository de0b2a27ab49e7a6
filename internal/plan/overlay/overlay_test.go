package overlay

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

func raw(s string) v1beta1.RawObject { return v1beta1.RawObject{JSON: []byte(s)} }

func base() corev1.Container {
	yes := true
	return corev1.Container{
		Name: "slurmd", Image: "base", Args: []string{"-Z"},
		Env:             []corev1.EnvVar{{Name: "A", Value: "1"}},
		SecurityContext: &corev1.SecurityContext{Privileged: &yes},
		LivenessProbe: &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 6,
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/livez", Port: intstr.FromString("slurmd")}}},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
	}
}

func TestContainer(t *testing.T) {
	cases := map[string]struct {
		user  string
		check func(corev1.Container) (got, want any)
	}{
		"nothing":            {`{}`, func(c corev1.Container) (any, any) { return c, base() }},
		"explicit false":     {`{"securityContext":{"privileged":false}}`, func(c corev1.Container) (any, any) { return *c.SecurityContext.Privileged, false }},
		"empty list":         {`{"env":[],"command":[]}`, func(c corev1.Container) (any, any) { return c.Env, base().Env }},
		"empty string":       {`{"image":""}`, func(c corev1.Container) (any, any) { return c.Image, "base" }},
		"args are added":     {`{"args":["-v"]}`, func(c corev1.Container) (any, any) { return c.Args, []string{"-Z", "-v"} }},
		"name is kept":       {`{"name":"other"}`, func(c corev1.Container) (any, any) { return c.Name, "slurmd" }},
		"env value is empty": {`{"env":[{"name":"A","value":""}]}`, func(c corev1.Container) (any, any) { return len(c.Env), 1 }},
		"other probe handler": {`{"livenessProbe":{"exec":{"command":["x"]}}}`, func(c corev1.Container) (any, any) {
			return c.LivenessProbe, &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 6,
				ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
		}},
		"probe without handler": {`{"livenessProbe":{"periodSeconds":3}}`, func(c corev1.Container) (any, any) {
			return c.LivenessProbe.HTTPGet.Path + string('0'+c.LivenessProbe.PeriodSeconds), "/livez3"
		}},
		"other hook": {`{"lifecycle":{"preStop":{"sleep":{"seconds":1}}}}`, func(c corev1.Container) (any, any) {
			return c.Lifecycle.PreStop, &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := base()
			c, err := Container(b, raw(tc.user))
			if err != nil {
				t.Fatal(err)
			}
			got, want := tc.check(c)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(base(), b); diff != "" {
				t.Errorf("base was changed:\n%s", diff)
			}
		})
	}
}

func TestContainerRefusesWrongTypes(t *testing.T) {
	for _, user := range []string{`{"image":7}`, `{"args":[1]}`, `{"env":"x"}`, `{"ports":[{"containerPort":"a"}]}`} {
		if _, err := Container(base(), raw(user)); err == nil {
			t.Errorf("%s was accepted", user)
		}
	}
}

func TestPodSpecKeepsOurs(t *testing.T) {
	ours := corev1.PodSpec{
		Containers:  []corev1.Container{{Name: "slurmd"}},
		Tolerations: []corev1.Toleration{{Key: "ours"}},
		DNSConfig:   &corev1.PodDNSConfig{Searches: []string{"workers"}},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "ours"}}}},
	}
	got, err := PodSpec(ours, raw(`{
		"containers":[{"name":"side"}], "initContainers":[], "hostNetwork":false, "terminationGracePeriodSeconds":0,
		"tolerations":[{"key":"theirs"}], "dnsConfig":{"searches":["example.com"]},
		"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"theirs"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	zero := int64(0)
	want := corev1.PodSpec{
		Containers:                    []corev1.Container{{Name: "slurmd"}, {Name: "side"}},
		Tolerations:                   []corev1.Toleration{{Key: "theirs"}, {Key: "ours"}},
		DNSConfig:                     &corev1.PodDNSConfig{Searches: []string{"example.com", "workers"}},
		TerminationGracePeriodSeconds: &zero,
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "theirs"}, {TopologyKey: "ours"}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestServiceSpec(t *testing.T) {
	port := corev1.ServicePort{Name: "slurmctld", Port: 6817}
	got, err := ServiceSpec(v1beta1.ServiceSpec{ServiceSpec: raw(`{"type":"NodePort","externalIPs":["1.2.3.4"],"selector":{"a":"b"}}`)}, map[string]string{"c": "d"}, port)
	if err != nil {
		t.Fatal(err)
	}
	want := corev1.ServiceSpec{Type: "NodePort", Selector: map[string]string{"a": "b", "c": "d"}, Ports: []corev1.ServicePort{port}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = ServiceSpec(v1beta1.ServiceSpec{ServiceSpec: raw(`{"ports":[{"name":"x","port":6817}]}`)}, nil, port)
	if err == nil || !strings.Contains(err.Error(), "clashes") {
		t.Errorf("got error %v", err)
	}
}

func TestMetadata(t *testing.T) {
	owner := &metav1.ObjectMeta{
		Labels:      map[string]string{"a": "owner", "b": "owner", "c": "owner"},
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "1"},
	}
	labels, annotations := Metadata(owner, v1beta1.Metadata{Labels: map[string]string{"b": "user", "c": "user"}}, map[string]string{"c": "operator"}, nil)
	if diff := cmp.Diff(map[string]string{"a": "owner", "b": "user", "c": "operator"}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"note": "1"}, annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
