package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// These tests follow defects that users of other operators have reported. Sxxx are the numbers of the cases.

// S024: the same facts give the same bytes, however often and in whatever order.
func TestS024SameBytes(t *testing.T) {
	render := func() string {
		f := fullFacts()
		f.NodeSets = nil
		for i := range 5 {
			f.NodeSets = append(f.NodeSets, nodeSet(fmt.Sprintf("set%d", i), "State=UP MaxTime=1:00:00"))
		}
		f.Controller.Spec.Slurmctld = raw(`{"env":[{"name":"A","value":"1"},{"name":"B","value":"2"},{"name":"C","value":"3"},{"name":"D","value":"4"},{"name":"E","value":"5"},{"name":"F","value":"6"}]}`)
		for i := range 3 {
			files, scripts := fmt.Sprintf("files-%d", i), fmt.Sprintf("scripts-%d", i)
			f.Controller.Spec.ConfigFileRefs = append(f.Controller.Spec.ConfigFileRefs, corev1.LocalObjectReference{Name: files})
			f.Controller.Spec.PrologScriptRefs = append(f.Controller.Spec.PrologScriptRefs, corev1.LocalObjectReference{Name: scripts})
			f.ConfigMaps[files] = map[string]string{fmt.Sprintf("a%d.conf", i): "x", fmt.Sprintf("b%d.conf", i): "y"}
			f.ConfigMaps[scripts] = map[string]string{fmt.Sprintf("1%d.sh", i): "x", fmt.Sprintf("2%d.sh", i): "y"}
		}
		f.Controller.Spec.ExtraConf = "PartitionName=p1 Nodes=set0\nPartitionName=p2 Nodes=set1\nPartitionName=p3 Nodes=ALL\nPartitionName=p4 Nodes=set2,set3"
		var out strings.Builder
		for _, plan := range []Plan{Controller(f), RestApi(restFacts()), LoginSet(loginFacts()).Plan} {
			text, err := json.Marshal(plan)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(text)
		}
		return out.String()
	}
	first := render()
	for range 200 {
		if again := render(); again != first {
			t.Fatal(cmp.Diff(first, again))
		}
	}
}

// daemonsWith are the main containers of the cluster's daemons with a user's part laid over each of them.
func daemonsWith(t *testing.T, container, pod string) map[string]corev1.PodSpec {
	t.Helper()
	template := v1beta1.PodTemplate{PodSpec: raw(pod)}
	c, r, l := facts(), restFacts(), loginFacts()
	c.Controller.Spec.Slurmctld, c.Controller.Spec.Template = raw(container), template
	r.RestApi.Spec.Slurmrestd, r.RestApi.Spec.Template = raw(container), template
	l.LoginSet.Spec.Login, l.LoginSet.Spec.Template = raw(container), template
	a := AccountingFacts{Accounting: &v1beta1.Accounting{ObjectMeta: metav1.ObjectMeta{Name: "slurm", Namespace: "slurm"}},
		SlurmKey: []byte("k"), JwtKey: []byte("j"), Password: []byte("pw")}
	a.Accounting.Spec = v1beta1.AccountingSpec{SlurmKeyRef: key("a", "b"), JwtKeyRef: key("c", "d"), Slurmdbd: raw(container), Template: template,
		StorageConfig: &v1beta1.StorageConfig{Host: "db", PasswordKeyRef: *key("db", "password")}}
	return map[string]corev1.PodSpec{
		"slurmctld":  find[*appsv1.StatefulSet](t, Controller(c)).Spec.Template.Spec,
		"slurmrestd": find[*appsv1.Deployment](t, RestApi(r)).Spec.Template.Spec,
		"login":      find[*appsv1.Deployment](t, LoginSet(l).Plan).Spec.Template.Spec,
		"slurmdbd":   find[*appsv1.StatefulSet](t, Accounting(a)).Spec.Template.Spec,
	}
}

func handlers(p *corev1.Probe) string {
	var out []string
	for name, set := range map[string]bool{"exec": p.Exec != nil, "httpGet": p.HTTPGet != nil, "tcpSocket": p.TCPSocket != nil, "grpc": p.GRPC != nil} {
		if set {
			out = append(out, name)
		}
	}
	return strings.Join(out, " and ")
}

// S027: a probe has one handler, the user's if there is one, else the daemon's own.
func TestS027ProbesHaveOneHandler(t *testing.T) {
	own := daemonsWith(t, `{}`, `{}`)
	for user, want := range map[string]string{
		`{"readinessProbe":{"httpGet":{"port":1}}}`:          "httpGet",
		`{"readinessProbe":{"failureThreshold":9}}`:          "",
		`{"readinessProbe":{}}`:                              "",
		`{"readinessProbe":{"tcpSocket":{"port":1}}}`:        "tcpSocket",
		`{"readinessProbe":{"exec":{"command":["x"]}}}`:      "exec",
		`{"readinessProbe":{"grpc":{"port":1}}}`:             "grpc",
		`{"readinessProbe":{"exec":null,"periodSeconds":4}}`: "",
	} {
		for daemon, spec := range daemonsWith(t, user, `{}`) {
			want := want
			if want == "" {
				want = handlers(own[daemon].Containers[0].ReadinessProbe)
			}
			if got := handlers(spec.Containers[0].ReadinessProbe); got != want {
				t.Errorf("%s with %s: %s, want %s", daemon, user, got, want)
			}
		}
	}
}

// S028: an explicit false or 0 counts, and an empty list takes nothing away.
func TestS028ExplicitValuesCount(t *testing.T) {
	own := daemonsWith(t, `{}`, `{}`)
	for daemon, spec := range daemonsWith(t, `{"securityContext":{"privileged":false}}`,
		`{"terminationGracePeriodSeconds":0,"automountServiceAccountToken":false,"hostNetwork":false,"initContainers":[],"volumes":[],"tolerations":[]}`) {
		s := spec.Containers[0].SecurityContext
		if s == nil || s.Privileged == nil || *s.Privileged {
			t.Errorf("%s: privileged: false is lost", daemon)
		}
		if spec.TerminationGracePeriodSeconds == nil || *spec.TerminationGracePeriodSeconds != 0 {
			t.Errorf("%s: terminationGracePeriodSeconds: 0 is lost", daemon)
		}
		if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken || spec.HostNetwork {
			t.Errorf("%s: automountServiceAccountToken or hostNetwork isn't false", daemon)
		}
		if len(spec.InitContainers) != len(own[daemon].InitContainers) || len(spec.Volumes) != len(own[daemon].Volumes) {
			t.Errorf("%s: %d init containers and %d volumes, want %d and %d", daemon,
				len(spec.InitContainers), len(spec.Volumes), len(own[daemon].InitContainers), len(own[daemon].Volumes))
		}
	}
}

// S046: a NodeSet that no chart made is as good as one of the chart's, and each LoginSet has a Service of its own.
func TestS046ObjectsBesideTheChart(t *testing.T) {
	f := facts()
	a, b := nodeSet("a", "State=UP"), nodeSet("b", "State=UP")
	a.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "slurm-1.3.0"}
	f.NodeSets = []v1beta1.NodeSet{a, b}
	f.Controller.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	if text := find[*corev1.ConfigMap](t, Controller(f)).Data["slurm.conf"]; !strings.Contains(text, "PartitionName=a Nodes=a") || !strings.Contains(text, "PartitionName=b Nodes=b") {
		t.Errorf("slurm.conf:\n%s", text)
	}
	one, two := loginFacts(), loginFacts()
	two.LoginSet.Name = "second"
	x, y := find[*corev1.Service](t, LoginSet(one).Plan), find[*corev1.Service](t, LoginSet(two).Plan)
	if x.Name == y.Name || cmp.Equal(x.Spec.Selector, y.Spec.Selector) {
		t.Errorf("two LoginSets share Service %s and selector %v", x.Name, x.Spec.Selector)
	}
}

// S052: without accounting, which is yet to come, the cluster runs, and says so.
func TestS052AccountingThatIsYetToCome(t *testing.T) {
	f := facts()
	f.Controller.Spec.AccountingRef = &corev1.LocalObjectReference{Name: "slurm"}
	f.Controller.Spec.Slurmctld = raw(`{"image":"new"}`)
	plan := Controller(f)
	if got := find[*appsv1.StatefulSet](t, plan).Spec.Template.Spec.Containers[0].Image; got != "new" {
		t.Errorf("image %s: a change of something else waits for accounting", got)
	}
	if text := find[*corev1.ConfigMap](t, plan).Data["slurm.conf"]; !strings.Contains(text, "AccountingStorageType=accounting_storage/none") {
		t.Errorf("slurm.conf:\n%s", text)
	}
	if len(plan.Problems) != 1 || plan.Problems[0].Reason != v1beta1.ReasonReferenceNotFound {
		t.Errorf("problems %v", plan.Problems)
	}
	f.Accounting = &v1beta1.Accounting{ObjectMeta: metav1.ObjectMeta{Name: "slurm", Namespace: "slurm"}}
	plan = Controller(f)
	// S190: what is written is a name that every pod of the namespace can look up, never localhost.
	if text := find[*corev1.ConfigMap](t, plan).Data["slurm.conf"]; !strings.Contains(text, "AccountingStorageHost=slurm-accounting\n") || strings.Contains(text, "localhost") || len(plan.Problems) > 0 {
		t.Errorf("problems %v, slurm.conf:\n%s", plan.Problems, text)
	}
}

// S193: the kubelet never changes a file that is mounted by subPath: what slurmctld, slurmrestd
// and slurmdbd read is mounted as a folder. Login pods are replaced when such a file changes.
func TestS193ConfigurationIsMountedAsAFolder(t *testing.T) {
	for daemon, spec := range daemonsWith(t, `{}`, `{}`) {
		if daemon == "login" {
			continue
		}
		for _, c := range append(spec.InitContainers, spec.Containers...) {
			for _, m := range c.VolumeMounts {
				if m.SubPath != "" || m.SubPathExpr != "" {
					t.Errorf("%s, container %s: %s is mounted by subPath", daemon, c.Name, m.MountPath)
				}
			}
		}
	}
}
