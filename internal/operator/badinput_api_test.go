package operator

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// testBadInput gives a working cluster what gets past the API server where no webhook runs:
// it stays as it was, and says which field is wrong.
func (s *suite) testBadInput(t *testing.T, all map[string]reconcile.Reconciler) {
	kinds := map[string]struct {
		name string
		get  func() (client.Object, *[]metav1.Condition)
	}{
		"Controller": {"slurm", func() (client.Object, *[]metav1.Condition) {
			c := &v1beta1.Controller{}
			return c, &c.Status.Conditions
		}},
		"RestApi": {"slurm", func() (client.Object, *[]metav1.Condition) {
			r := &v1beta1.RestApi{}
			return r, &r.Status.Conditions
		}},
		"Accounting": {"slurm", func() (client.Object, *[]metav1.Condition) {
			a := &v1beta1.Accounting{}
			return a, &a.Status.Conditions
		}},
		"NodeSet": {"cpu", func() (client.Object, *[]metav1.Condition) {
			n := &v1beta1.NodeSet{}
			return n, &n.Status.Conditions
		}},
	}
	cases := map[string]struct{ kind, bad, good, want string }{
		"an option that Slurm doesn't know": {"Controller", `{"extraConf":"KillWiat=30"}`, `{"extraConf":"KillWait=30"}`, `extraConf, line 1: "KillWiat" is no option of Slurm 26.05; did you mean KillWait?`},
		"a number that is none":             {"Controller", `{"extraConf":"KillWait=30s"}`, `{"extraConf":"KillWait=30"}`, `"KillWait=30s" needs a number from 0 to 65535`},
		"a last line that goes on":          {"Controller", `{"extraConf":"KillWait=30\\"}`, `{"extraConf":"KillWait=30"}`, "extraConf: the last line ends with a backslash"},
		"a container of the wrong form":     {"Controller", `{"slurmctld":{"image":1}}`, `{"slurmctld":{"image":null}}`, "spec.slurmctld"},
		"a pod of the wrong form":           {"Controller", `{"template":{"spec":{"tolerations":"all"}}}`, `{"template":{"spec":{"tolerations":null}}}`, "spec.template.spec"},
		"a port that is taken":              {"Controller", `{"service":{"spec":{"ports":[{"name":"x","port":6817}]}}}`, `{"service":null}`, "spec.service"},
		"files that are missing":            {"Controller", `{"prologScriptRefs":[{"name":"none"}]}`, `{"prologScriptRefs":null}`, `there is no ConfigMap "none"`},
		"slurmrestd of the wrong form":      {"RestApi", `{"slurmrestd":{"image":1}}`, `{"slurmrestd":{"image":null}}`, "spec.slurmrestd"},
		"slurmd of the wrong form":          {"NodeSet", `{"slurmd":{"env":1}}`, `{"slurmd":{"env":null}}`, "spec.slurmd: "},
		"a worker's pod of the wrong form":  {"NodeSet", `{"template":{"spec":{"hostNetwork":"yes"}}}`, `{"template":{"spec":{"hostNetwork":null}}}`, "spec.template.spec: "},
		"slurmdbd's last line":              {"Accounting", `{"extraConf":"CommitDelay=1\\"}`, `{"extraConf":null}`, "extraConf: the last line ends with a backslash"},
	}
	// Start from what is right, and from configurations that nobody changes below.
	s.patchSpec(t, "Controller", "slurm", `{"extraConf":"KillWait=30"}`)
	round(t, all)
	round(t, all)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kind := kinds[tc.kind]
			before, updates := s.generated(t), s.slurm.count()
			s.patchSpec(t, tc.kind, kind.name, tc.bad)
			round(t, all)
			o, conditions := kind.get()
			s.get(t, "slurm", kind.name, o)
			s.wantCondition(t, *conditions, v1beta1.ConditionDegraded, "True", tc.want)
			if diff := cmp.Diff(before, s.generated(t)); diff != "" {
				t.Errorf("the working cluster was changed (-before +after):\n%s", diff)
			}
			if n := s.slurm.count() - updates; n != 0 {
				t.Errorf("%d changes of nodes in Slurm", n)
			}
			s.patchSpec(t, tc.kind, kind.name, tc.good)
			round(t, all)
			s.get(t, "slurm", kind.name, o)
			if c := meta.FindStatusCondition(*conditions, v1beta1.ConditionDegraded); c == nil || strings.Contains(c.Message, tc.want) {
				t.Errorf("it is put right, and still says %+v", c)
			}
		})
	}
}

func (s *suite) patchSpec(t *testing.T, kind, name, spec string) {
	t.Helper()
	u := object(t, kind, name, `{}`)
	u.SetNamespace("slurm")
	if err := s.admin.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"spec":`+spec+`}`))); err != nil {
		t.Fatalf("patch %s %s with %s: %v", kind, name, spec, err)
	}
}

// generated is what the operator made. Of pods it is only that they are there: their conditions follow Slurm.
func (s *suite) generated(t *testing.T) map[string]string {
	t.Helper()
	all := s.snapshot(t)
	maps.DeleteFunc(all, func(name, _ string) bool { return strings.HasPrefix(name, "v1beta1.") })
	for name := range all {
		if strings.HasPrefix(name, "v1.Pod ") {
			all[name] = "there"
		}
	}
	return all
}

// testUnknownFields: a reference into another namespace is a field that doesn't exist.
func (s *suite) testUnknownFields(t *testing.T) {
	strict := client.WithFieldValidation(s.admin, metav1.FieldValidationStrict)
	for kind, spec := range map[string]string{
		"NodeSet":    `{"controllerRef":{"name":"c","namespace":"other"}}`,
		"RestApi":    `{"controllerRef":{"name":"c","namespace":"other"}}`,
		"LoginSet":   `{"controllerRef":{"name":"c","namespace":"other"},"sssdConfRef":{"name":"s","key":"k"}}`,
		"Token":      `{"username":"u","jwtKeyRef":{"name":"j","key":"k","namespace":"other"}}`,
		"Controller": `{` + keys + `,"accountingRef":{"name":"a","namespace":"other"}}`,
		"Accounting": `{` + keys + `,"storageconfig":{}}`,
	} {
		err := strict.Create(t.Context(), object(t, kind, "strict", spec))
		if err == nil || !strings.Contains(err.Error(), "unknown field \"spec.") {
			t.Errorf("%s: got %v", kind, err)
		}
	}
}
