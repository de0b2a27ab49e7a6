package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

func find[T Object](t *testing.T, p Plan) T {
	t.Helper()
	i := slices.IndexFunc(p.Objects, func(o Object) bool { _, ok := o.(T); return ok })
	if i < 0 {
		t.Fatalf("no %T among %q; problems %v", *new(T), kinds(p), p.Problems)
	}
	return p.Objects[i].(T)
}

func restFacts() RestApiFacts {
	return RestApiFacts{
		RestApi:    &v1beta1.RestApi{ObjectMeta: metav1.ObjectMeta{Name: "slurm", Namespace: "slurm"}},
		Controller: controller(), SlurmKey: []byte("k"), Keys: map[string][]byte{"slurm.key": []byte("k")}, Config: map[string]string{"slurm.conf": "a"},
	}
}

func TestCheck20SlurmrestdArguments(t *testing.T) {
	f := restFacts()
	args := func() []string { return find[*appsv1.Deployment](t, RestApi(f)).Spec.Template.Spec.Containers[0].Args }
	if diff := cmp.Diff([]string{"-s", "openapi/slurmctld", "0.0.0.0:6820"}, args()); diff != "" {
		t.Errorf("without accounting: %s", diff)
	}
	f.RestApi.Spec.Slurmrestd = raw(`{"args":["-v"]}`)
	if diff := cmp.Diff([]string{"-s", "openapi/slurmctld", "-v", "0.0.0.0:6820"}, args()); diff != "" {
		t.Errorf("with a user's: %s", diff)
	}
	f.RestApi.Spec.Slurmrestd = v1beta1.ContainerWrapper{}
	f.Controller.Spec.AccountingRef = &corev1.LocalObjectReference{Name: "slurm"}
	if diff := cmp.Diff([]string{"0.0.0.0:6820"}, args()); diff != "" {
		t.Errorf("with accounting: %s", diff)
	}
}

func TestSlurmrestdFollowsItsInputs(t *testing.T) {
	annotations := func(f RestApiFacts) map[string]string {
		return find[*appsv1.Deployment](t, RestApi(f)).Spec.Template.Annotations
	}
	before := annotations(restFacts())
	for name, change := range map[string]func(*RestApiFacts){
		"slurm.conf": func(f *RestApiFacts) { f.Config = map[string]string{"slurm.conf": "b"} },
		"slurm.key":  func(f *RestApiFacts) { f.Keys = map[string][]byte{"slurm.key": []byte("new")} },
	} {
		f := restFacts()
		change(&f)
		if cmp.Equal(before, annotations(f)) {
			t.Errorf("a change of %s doesn't replace the pods", name)
		}
	}
}

// Every file that slurmctld reads replaces its pod, or is read in place.
func TestCheck13AllInputsCount(t *testing.T) {
	hash := func(change func(*ControllerFacts)) map[string]string {
		f := fullFacts()
		f.Controller.Spec.InplaceReconfigure = false
		change(&f)
		return find[*appsv1.StatefulSet](t, Controller(f)).Spec.Template.Annotations
	}
	before := hash(func(*ControllerFacts) {})
	for name, change := range map[string]func(*ControllerFacts){
		"a script":             func(f *ControllerFacts) { f.ConfigMaps["slurm-prolog"]["10-a.sh"] = "changed" },
		"a configuration file": func(f *ControllerFacts) { f.ConfigMaps["slurm-files"]["cgroup.conf"] = "changed" },
		"contents swapped": func(f *ControllerFacts) {
			m := f.ConfigMaps["slurm-prolog"]
			m["10-a.sh"], m["20-b.sh"] = m["20-b.sh"], m["10-a.sh"]
		},
		"JWKS":        func(f *ControllerFacts) { f.ConfigMaps["idp"]["keys"] = "changed" },
		"the JWT key": func(f *ControllerFacts) { f.JwtKey = []byte("changed") },
		"the keys":    func(f *ControllerFacts) { f.Keys = map[string][]byte{"slurm.key": []byte("changed")} },
		"check 12: a partition": func(f *ControllerFacts) {
			f.NodeSets = []v1beta1.NodeSet{nodeSet("gpu", "MaxTime=1"), nodeSet("cpu", "State=UP Default=YES")}
		},
	} {
		if cmp.Equal(before, hash(change)) {
			t.Errorf("a change of %s does nothing", name)
		}
	}
}

func TestCheck17ExternalController(t *testing.T) {
	f := facts()
	f.Controller.Spec.External = true
	f.Controller.Spec.ExternalConfig = &v1beta1.ExternalConfig{Host: "head.example.com", Port: 7000}
	p := Controller(f)
	text := find[*corev1.ConfigMap](t, p).Data["slurm.conf"]
	if !strings.Contains(text, "SlurmctldHost=head.example.com\nSlurmctldPort=7000\n") || strings.Contains(text, "StateSaveLocation") {
		t.Errorf("slurm.conf:\n%s", text)
	}
	if k := kinds(p); strings.Contains(k, "StatefulSet") || len(p.Problems) > 0 {
		t.Errorf("objects %q, problems %v", k, p.Problems)
	}
}

func TestCheck18ExternalAccounting(t *testing.T) {
	f := fullFacts()
	f.Accounting.Spec.External = true
	f.Accounting.Spec.ExternalConfig = &v1beta1.ExternalConfig{Host: "dbd.example.com", Port: 7001}
	text := find[*corev1.ConfigMap](t, Controller(f)).Data["slurm.conf"]
	if !strings.Contains(text, "AccountingStorageHost=dbd.example.com\nAccountingStoragePort=7001\n") {
		t.Errorf("slurm.conf:\n%s", text)
	}
}

// The password stands in a Secret, and a change of it replaces slurmdbd.
func TestCheck23SlurmdbdConf(t *testing.T) {
	f := AccountingFacts{Accounting: &v1beta1.Accounting{ObjectMeta: metav1.ObjectMeta{Name: "slurm", Namespace: "slurm"}},
		SlurmKey: []byte("k"), JwtKey: []byte("j"), Password: []byte("pw")}
	f.Accounting.Spec.SlurmKeyRef, f.Accounting.Spec.JwtKeyRef = key("a", "b"), key("c", "d")
	f.Accounting.Spec.StorageConfig = &v1beta1.StorageConfig{Host: "db", Port: 3306, Database: "x", Username: "slurm", PasswordKeyRef: *key("db", "password")}
	p := Accounting(f)
	if k := kinds(p); strings.Contains(k, "ConfigMap") {
		t.Errorf("objects %q", k)
	}
	before := find[*appsv1.StatefulSet](t, p).Spec.Template.Annotations[v1beta1.AnnotationSlurmdbdConfHash]
	for name, change := range map[string]func(){
		"extraConf":    func() { f.Accounting.Spec.ExtraConf = "CommitDelay=1" },
		"the password": func() { f.Password = []byte("rotated") },
	} {
		change()
		p := Accounting(f)
		after := find[*appsv1.StatefulSet](t, p).Spec.Template.Annotations[v1beta1.AnnotationSlurmdbdConfHash]
		if after == before || !strings.Contains(string(find[*corev1.Secret](t, p).Data["slurmdbd.conf"]), "StoragePass="+string(f.Password)) {
			t.Errorf("a change of %s doesn't reach slurmdbd", name)
		}
		before = after
	}
}
