package cluster

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

var update = flag.Bool("update", false, "write the golden files")

func key(secret, key string) *corev1.SecretKeySelector {
	return &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key}
}

func raw(s string) v1beta1.RawObject { return v1beta1.RawObject{JSON: []byte(s)} }

func controller() *v1beta1.Controller {
	return &v1beta1.Controller{
		ObjectMeta: metav1.ObjectMeta{Name: "slurm", Namespace: "slurm", UID: "uid-1"},
		Spec: v1beta1.ControllerSpec{
			SlurmKeyRef: key("slurm-auth-slurm", "slurm.key"), JwtKeyRef: key("slurm-auth-jwt", "jwt_hs256.key"),
		},
	}
}

func nodeSet(name, partition string) v1beta1.NodeSet {
	n := v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "slurm"}}
	n.Spec.Partition = v1beta1.NodeSetPartition{Enabled: partition != "", Config: partition}
	return n
}

func facts() ControllerFacts {
	return ControllerFacts{
		Controller: controller(), SlurmKey: []byte("k"), Keys: map[string][]byte{"slurm.key": []byte("k")}, JwtKey: []byte("j"),
		Images: ImagesOf("registry.example.com/slinky", "26.05"),
	}
}

func fullFacts() ControllerFacts {
	f := facts()
	yes := true
	c := f.Controller
	c.Labels = map[string]string{"team": "hpc"}
	c.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
	c.Spec.ClusterName = "physics"
	c.Spec.AccountingRef = &corev1.LocalObjectReference{Name: "slurm"}
	c.Spec.ConfigFileRefs = []corev1.LocalObjectReference{{Name: "slurm-files"}}
	c.Spec.PrologScriptRefs = []corev1.LocalObjectReference{{Name: "slurm-prolog"}}
	c.Spec.JwksKeyRef = &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "idp"}, Key: "keys"}
	c.Spec.InplaceReconfigure = true
	c.Spec.Persistence = &v1beta1.ControllerPersistence{Enabled: &yes}
	c.Spec.Service = v1beta1.ServiceSpec{Port: 7817, ServiceSpec: raw(`{"type":"LoadBalancer"}`)}
	c.Spec.Slurmctld = raw(`{"image":"mine","resources":{"requests":{"cpu":"100m"}}}`)
	c.Spec.Template = v1beta1.PodTemplate{Metadata: v1beta1.Metadata{Annotations: map[string]string{"note": "x"}}, PodSpec: raw(`{"priorityClassName":"high"}`)}
	c.Spec.ExtraConf = "SlurmctldParameters=idle_on_node_suspend"
	f.Accounting = &v1beta1.Accounting{ObjectMeta: metav1.ObjectMeta{Name: "slurm", Namespace: "slurm"}}
	f.ConfigMaps = map[string]map[string]string{
		"slurm-files": {"cgroup.conf": "CgroupPlugin=autodetect\n"}, "slurm-prolog": {"20-b.sh": "b", "10-a.sh": "a"}, "idp": {"keys": "{}"},
	}
	f.NodeSets = []v1beta1.NodeSet{nodeSet("gpu", ""), nodeSet("cpu", "State=UP Default=YES")}
	return f
}

// scriptFacts has scripts of all four kinds, two ConfigMaps of two files for each, in the
// wrong order, with metrics and keys of an identity provider.
func scriptFacts() ControllerFacts {
	f := facts()
	s := &f.Controller.Spec
	s.Metrics.Enabled = true
	s.JwksKeyRef = &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "idp"}, Key: "keys"}
	f.ConfigMaps = map[string]map[string]string{"idp": {"keys": "{}"}}
	for kind, refs := range map[string]*[]corev1.LocalObjectReference{
		"prolog": &s.PrologScriptRefs, "epilog": &s.EpilogScriptRefs,
		"prologctld": &s.PrologSlurmctldScriptRefs, "epilogctld": &s.EpilogSlurmctldScriptRefs,
	} {
		*refs = []corev1.LocalObjectReference{{Name: kind + "-2"}, {Name: kind + "-1"}}
		f.ConfigMaps[kind+"-2"] = map[string]string{"15-" + kind + "-c.sh": "c", "05-" + kind + "-d.sh": "d"}
		f.ConfigMaps[kind+"-1"] = map[string]string{"20-" + kind + "-b.sh": "b", "10-" + kind + "-a.sh": "a"}
	}
	return f
}

func TestCheck10ControllerGolden(t *testing.T) {
	external := facts()
	external.Controller.Spec.External = true
	external.Controller.Spec.ExternalConfig = &v1beta1.ExternalConfig{Host: "head.example.com", Port: 6817}
	for name, f := range map[string]ControllerFacts{"controller-minimal": facts(), "controller-full": fullFacts(), "controller-external": external, "controller-scripts": scriptFacts()} {
		t.Run(name, func(t *testing.T) { golden(t, name, Controller(f)) })
	}
}

func TestRestApiGolden(t *testing.T) {
	f := RestApiFacts{
		RestApi:    &v1beta1.RestApi{ObjectMeta: metav1.ObjectMeta{Name: "slurm", Namespace: "slurm", UID: "uid-2"}},
		Controller: controller(), SlurmKey: []byte("k"), Keys: map[string][]byte{"slurm.key": []byte("k")}, Config: map[string]string{"slurm.conf": "ClusterName=x\n"},
		Images: ImagesOf("registry.example.com/slinky", "26.05"),
	}
	f.RestApi.Spec.Slurmrestd = raw(`{"args":["-v"]}`)
	golden(t, "restapi", RestApi(f))
}

func TestAccountingGolden(t *testing.T) {
	f := AccountingFacts{
		Accounting: &v1beta1.Accounting{
			ObjectMeta: metav1.ObjectMeta{Name: "slurm", Namespace: "slurm", UID: "uid-3"},
			Spec: v1beta1.AccountingSpec{
				SlurmKeyRef: key("slurm-auth-slurm", "slurm.key"), JwtKeyRef: key("slurm-auth-jwt", "jwt_hs256.key"),
				StorageConfig: &v1beta1.StorageConfig{Host: "mariadb", Port: 3306, Database: "slurm_acct_db", Username: "slurm", PasswordKeyRef: *key("mariadb", "password")},
			},
		},
		SlurmKey: []byte("k"), JwtKey: []byte("j"), Password: []byte("pw"),
		Images: ImagesOf("registry.example.com/slinky", "26.05"),
	}
	golden(t, "accounting", Accounting(f))
	f.Accounting.Spec.External = true
	if p := Accounting(f); len(p.Objects)+len(p.Problems) != 0 {
		t.Errorf("an external slurmdbd got %+v", p)
	}
}

func golden(t *testing.T, name string, plan Plan) {
	t.Helper()
	for _, p := range plan.Problems {
		t.Errorf("problem %s: %s", p.Reason, p.Message)
	}
	var docs []string
	for _, o := range plan.Objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(text))
	}
	got := strings.Join(docs, "---\n")
	file := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestCheck11OrderOfNodeSetsDoesNotMatter(t *testing.T) {
	a, b := fullFacts(), fullFacts()
	b.NodeSets[0], b.NodeSets[1] = b.NodeSets[1], b.NodeSets[0]
	if diff := cmp.Diff(Controller(a), Controller(b)); diff != "" {
		t.Error(diff)
	}
}

func kinds(p Plan) string {
	var out []string
	for _, o := range p.Objects {
		out = append(out, o.GetObjectKind().GroupVersionKind().Kind)
	}
	return strings.Join(out, " ")
}

func TestControllerProblems(t *testing.T) {
	const base = "Service PodDisruptionBudget Secret Service Service ConfigMap"
	const all = base + " StatefulSet"
	cases := map[string]struct {
		change func(*ControllerFacts)
		kinds  string
		want   []string
	}{
		"no slurm key": {func(f *ControllerFacts) { f.SlurmKey, f.Keys = nil, nil }, "Service PodDisruptionBudget Service Service ConfigMap",
			[]string{`spec.slurmKeyRef: there is no key "slurm.key" in a Secret "slurm-auth-slurm" of namespace slurm: create it`}},
		"no accounting": {func(f *ControllerFacts) { f.Controller.Spec.AccountingRef = &corev1.LocalObjectReference{Name: "x"} }, all,
			[]string{`spec.accountingRef: there is no Accounting "x" in namespace slurm; the cluster runs without accounting until it exists`}},
		"no config map": {func(f *ControllerFacts) {
			f.Controller.Spec.ConfigFileRefs = []corev1.LocalObjectReference{{Name: "x"}}
		}, base,
			[]string{`there is no ConfigMap "x" in namespace slurm, which spec refers to: create it`}},
		"bad node set": {func(f *ControllerFacts) {
			f.NodeSets = []v1beta1.NodeSet{nodeSet("a", "State=UP"), nodeSet("b", "MaxTime=1\nSlurmUser=root")}
		}, all,
			[]string{`NodeSet b is left out of slurm.conf: partition options of NodeSet b: has a line break`}},
		"two node sets of one name": {func(f *ControllerFacts) {
			f.NodeSets = []v1beta1.NodeSet{nodeSet("a", ""), nodeSet("b", "")}
			f.NodeSets[1].Spec.Template.PodSpec = raw(`{"hostname":"a-"}`)
		}, all,
			[]string{`NodeSet b is left out of slurm.conf: its name in Slurm, "a", is already that of NodeSet a: change spec.template.spec.hostname`}},
		"bad extraConf": {func(f *ControllerFacts) { f.Controller.Spec.ExtraConf = "KillWait=3\\" }, "",
			[]string{`slurm.conf can't be written and stays as it was: extraConf: the last line ends with a backslash and would swallow the line after it: remove the backslash`}},
		"unknown option": {func(f *ControllerFacts) { f.Controller.Spec.ExtraConf = "KillWait=3\nKillWiat=3" }, "",
			[]string{`slurm.conf can't be written and stays as it was: extraConf, line 2: "KillWiat" is no option of Slurm 26.05; did you mean KillWait?; slurmctld would not start`}},
		"two files of one name (S031)": {func(f *ControllerFacts) {
			s := &f.Controller.Spec
			s.PrologScriptRefs = []corev1.LocalObjectReference{{Name: "p3"}, {Name: "p1"}, {Name: "p2"}}
			s.EpilogScriptRefs = []corev1.LocalObjectReference{{Name: "p1"}}
			f.ConfigMaps = map[string]map[string]string{"p1": {"10-a.sh": "1", "20-b.sh": "1"}, "p2": {"15-c.sh": "2"}, "p3": {"10-a.sh": "3"}}
		}, all,
			[]string{`ConfigMaps p1, p3 of namespace slurm, which spec refers to, all have a file "10-a.sh": only that of p3 is used; rename the others`}},
		"bad container": {func(f *ControllerFacts) { f.Controller.Spec.Slurmctld = raw(`{"image":1}`) }, base,
			[]string{`spec.slurmctld: is no valid v1.Container: json: cannot unmarshal number into Go struct field Container.image of type string`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := facts()
			tc.change(&f)
			plan := Controller(f)
			var got []string
			for _, p := range plan.Problems {
				got = append(got, p.Message)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if k := kinds(plan); k != tc.kinds {
				t.Errorf("objects %q, want %q", k, tc.kinds)
			}
		})
	}
}

func TestConfigChangeReplacesThePod(t *testing.T) {
	hash := func(change func(*ControllerFacts)) string {
		f := facts()
		f.Controller.Spec.ConfigFileRefs = []corev1.LocalObjectReference{{Name: "files"}}
		f.ConfigMaps = map[string]map[string]string{"files": {"gres.conf": "a"}}
		change(&f)
		out, err := f.slurmctldPod(map[string]string{"slurm.conf": "x"})
		if err != nil {
			t.Fatal(err)
		}
		return out.Annotations[v1beta1.AnnotationSlurmConfigHash]
	}
	before := hash(func(*ControllerFacts) {})
	if after := hash(func(f *ControllerFacts) { f.ConfigMaps["files"]["gres.conf"] = "b" }); after == before {
		t.Error("a change of a referenced ConfigMap doesn't change the pod")
	}
	if after := hash(func(f *ControllerFacts) { f.Controller.Spec.InplaceReconfigure = true }); after != "" {
		t.Error("with inplaceReconfigure the pod depends on its configuration")
	}
}
