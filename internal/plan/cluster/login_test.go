package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

func loginFacts() LoginSetFacts {
	l := &v1beta1.LoginSet{ObjectMeta: metav1.ObjectMeta{Name: "login", Namespace: "slurm", UID: "uid-2"}}
	l.Spec.ControllerRef.Name = "slurm"
	l.Spec.SssdConfRef = *key("slurm-sssd-conf", "sssd.conf")
	l.Spec.Replicas = ptr[int32](1)
	f := LoginSetFacts{
		LoginSet: l, Controller: controller(), SlurmKey: []byte("k"), Keys: map[string][]byte{"slurm.key": []byte("k")}, SssdConf: []byte("[sssd]\n"), ClusterDomain: "cluster.local",
		Images: ImagesOf("registry.example.com/slinky", "26.05"),
	}
	keys := map[string][]byte{}
	for _, kind := range []string{"rsa", "ed25519", "ecdsa"} {
		keys["ssh_host_"+kind+"_key"], keys["ssh_host_"+kind+"_key.pub"] = []byte(kind), []byte(kind+".pub")
	}
	f.HostKeys = f.HostKeysSecret(keys)
	return f
}

func TestLoginSetGolden(t *testing.T) {
	full := loginFacts()
	l := full.LoginSet
	l.Labels = map[string]string{"team": "hpc"}
	l.Spec.Replicas = ptr[int32](2)
	l.Spec.RootSshAuthorizedKeys = "ssh-ed25519 AAAA admin\n"
	l.Spec.ExtraSshdConfig = "Port 2222\nLoginGraceTime 60"
	l.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	l.Spec.Login = raw(`{"image":"mine","env":[{"name":"SACKD_OPTIONS","value":"-vv"}],"ports":[{"name":"login","containerPort":2222}],"securityContext":{"privileged":false}}`)
	l.Spec.InitConf = raw(`{"resources":{"requests":{"cpu":"10m"}}}`)
	l.Spec.Template = v1beta1.PodTemplate{Metadata: v1beta1.Metadata{Labels: map[string]string{"tier": "front"}},
		PodSpec: raw(`{"volumes":[{"name":"home","hostPath":{"path":"/home"}}],"dnsConfig":{"searches":["example.com"]}}`)}
	l.Spec.Service = v1beta1.ServiceSpec{Port: 2200, NodePort: 30022, ServiceSpec: raw(`{"type":"LoadBalancer","externalIPs":["192.0.2.1"]}`)}
	for name, f := range map[string]LoginSetFacts{"login-minimal": loginFacts(), "login-full": full} {
		t.Run(name, func(t *testing.T) { golden(t, name, LoginSet(f).Plan) })
	}
}

func TestLoginSetWaitsForWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*LoginSetFacts)
		objects string
		problem string
		keys    bool
	}{
		"nothing missing": {func(*LoginSetFacts) {}, "Service ConfigMap Deployment", "", false},
		"host keys":       {func(f *LoginSetFacts) { f.HostKeys = nil }, "Service ConfigMap", "", true},
		"sssd.conf": {func(f *LoginSetFacts) { f.SssdConf = nil }, "Service ConfigMap",
			`spec.sssdConfRef: there is no key "sssd.conf" in a Secret "slurm-sssd-conf" of namespace slurm: create it`, false},
		"slurm.key": {func(f *LoginSetFacts) { f.SlurmKey, f.Keys = nil, nil }, "Service ConfigMap",
			`slurmKeyRef of Controller slurm: there is no key "slurm.key" in a Secret "slurm-auth-slurm" of namespace slurm: create it`, false},
		"Controller": {func(f *LoginSetFacts) { f.Controller = nil }, "Service ConfigMap",
			`spec.controllerRef: there is no Controller "slurm" in namespace slurm: create it`, false},
		"slurmKeyRef": {func(f *LoginSetFacts) { f.Controller.Spec.SlurmKeyRef, f.SlurmKey, f.Keys = nil, nil, nil }, "Service ConfigMap",
			"Controller slurm has no slurmKeyRef: login pods need the key to reach slurmctld", false},
		"a good container": {func(f *LoginSetFacts) { f.LoginSet.Spec.Login = raw(`{"ports":7}`) }, "Service ConfigMap",
			"spec.login", false},
		"a free port": {func(f *LoginSetFacts) {
			f.LoginSet.Spec.Service.ServiceSpec = raw(`{"ports":[{"name":"x","port":22}]}`)
		}, "ConfigMap Deployment",
			`spec.service.spec.ports: port "x" 22 clashes with the operator's "login" 22`, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := loginFacts()
			c.change(&f)
			plan := LoginSet(f)
			if got := kinds(plan.Plan); got != c.objects || plan.MakeHostKeys != c.keys {
				t.Errorf("plan has %q, makes keys: %v; want %q, %v", got, plan.MakeHostKeys, c.objects, c.keys)
			}
			var messages []string
			for _, p := range plan.Problems {
				messages = append(messages, p.Message)
			}
			if got := strings.Join(messages, "\n"); (got == "") != (c.problem == "") || !strings.Contains(got, c.problem) {
				t.Errorf("problems are %q, want %q", got, c.problem)
			}
		})
	}
}

func TestHostKeysOfOthers(t *testing.T) {
	own := loginFacts()
	own.HostKeys.OwnerReferences = nil
	own.HostKeys.Data = map[string][]byte{"ssh_host_ed25519_key": []byte("x"), "ssh_host_rsa_key.pub": []byte("y"), "note": nil}
	plan := LoginSet(own)
	if got := kinds(plan.Plan); got != "Service ConfigMap Deployment" || len(plan.Problems) > 0 {
		t.Fatalf("a user's own Secret: %s, %v", got, plan.Problems)
	}
	var files []string
	for _, m := range plan.Objects[2].(*appsv1.Deployment).Spec.Template.Spec.Containers[0].VolumeMounts {
		if m.Name == volumeHostKeys {
			files = append(files, m.MountPath)
		}
	}
	if diff := cmp.Diff([]string{"/etc/ssh/ssh_host_ed25519_key"}, files); diff != "" {
		t.Errorf("mounted host keys (-want +got):\n%s", diff)
	}

	foreign := loginFacts()
	foreign.HostKeys.OwnerReferences[0].UID, foreign.HostKeys.OwnerReferences[0].Name = "uid-3", "other"
	empty := loginFacts()
	empty.HostKeys.Data = map[string][]byte{"note": nil}
	for want, f := range map[string]LoginSetFacts{"belongs to LoginSet other: rename one of them": foreign, "has no ssh host key": empty} {
		plan := LoginSet(f)
		if len(plan.Problems) != 1 || !strings.Contains(plan.Problems[0].Message, want) || plan.MakeHostKeys || kinds(plan.Plan) != "Service ConfigMap" {
			t.Errorf("plan has %s and problems %v, want %q", kinds(plan.Plan), plan.Problems, want)
		}
	}
}

// Each input that running pods can't follow replaces them; root's keys are read at each login.
func TestLoginSetRolls(t *testing.T) {
	before := LoginSet(loginFacts()).Objects[2].(*appsv1.Deployment)
	for because, change := range map[string]func(*LoginSetFacts){
		"":                          func(f *LoginSetFacts) { f.LoginSet.Spec.RootSshAuthorizedKeys = "ssh-ed25519 AAAA" },
		"slurm.key changed":         func(f *LoginSetFacts) { f.Keys = map[string][]byte{"slurm.key": []byte("new")} },
		"sssd.conf changed":         func(f *LoginSetFacts) { f.SssdConf = []byte("new") },
		"sshd_config changed":       func(f *LoginSetFacts) { f.LoginSet.Spec.ExtraSshdConfig = "MaxSessions 3" },
		"the ssh host keys changed": func(f *LoginSetFacts) { f.HostKeys.Data["ssh_host_rsa_key"] = []byte("new") },
	} {
		f := loginFacts()
		f.Live = before
		change(&f)
		plan := LoginSet(f)
		after := plan.Objects[2].(*appsv1.Deployment)
		if same := cmp.Equal(before.Spec.Template, after.Spec.Template); same != (because == "") || plan.Because != because {
			t.Errorf("the template is the same: %v; because %q, want %q", same, plan.Because, because)
		}
	}
}

func TestSackdOptions(t *testing.T) {
	const server = "--conf-server slurm-controller.slurm:6817"
	for in, want := range map[string]string{
		`{}`: server,
		`{"env":[{"name":"SACKD_OPTIONS","value":"-v"}]}`:                                           server + " -v",
		`{"env":[{"name":"SACKD_OPTIONS","value":"--conf-server other:1 -v"}]}`:                     "--conf-server other:1 -v",
		`{"env":[{"name":"SACKD_OPTIONS","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}`: "",
	} {
		f := loginFacts()
		f.LoginSet.Spec.Login = raw(in)
		c, err := f.login()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, c.Env[0].Value); diff != "" || len(c.Env) != 1 {
			t.Errorf("%s: env %v, want %q", in, c.Env, want)
		}
	}
}
