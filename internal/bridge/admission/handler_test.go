package admission

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/policies"
)

func handlerOf(t *testing.T, c config.Config) handler {
	t.Helper()
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: map[string]string{"slurm": "yes"}}})
	factory := informers.NewSharedInformerFactory(client, 0)
	rules := policies.New(c, "slinky", factory.Core().V1().Namespaces(), client)
	managed, err := managedBy(c)
	if err != nil {
		t.Fatal(err)
	}
	return handler{config: c, rules: rules, managed: managed, bridge: "bridge"}
}

func create(namespace, pod string) webhook.Request {
	return webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: namespace, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(pod)}}}
}

// TestUnknownFieldsStay: an API server may be newer than this program.
func TestUnknownFieldsStay(t *testing.T) {
	h := handlerOf(t, config.Config{SchedulerName: "us", ManagedNamespaces: []string{"team"}, Environment: "threads"})
	out := h.mutatePod(t.Context(), create("team", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"newField":{"a":1},"containers":[{"name":"c","newer":true,"resources":{"limits":{"cpu":"2"}}}]}}`))
	if !out.Allowed || len(out.Patches) == 0 {
		t.Fatalf("%+v", out)
	}
	for _, op := range out.Patches {
		if op.Operation == "remove" || strings.Contains(op.Path, "new") {
			t.Errorf("it takes something away: %s", op.Json())
		}
	}
	if !has(out, "/spec/schedulerName") || !has(out, "/spec/containers/0/env") {
		t.Errorf("%v", out.Patches)
	}
}

func has(out webhook.Response, path string) bool {
	for _, op := range out.Patches {
		if op.Path == path {
			return true
		}
	}
	return false
}

// TestManaged: the selector replaces the list.
func TestManaged(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"slurm": "yes"}}
	for name, c := range map[string]struct {
		config    config.Config
		namespace string
		want      bool
	}{
		"in the list":             {config.Config{ManagedNamespaces: []string{"team"}}, "team", true},
		"not in the list":         {config.Config{ManagedNamespaces: []string{"team"}}, "other", false},
		"no list":                 {config.Config{}, "team", false},
		"selected":                {config.Config{ManagedNamespaceSelector: selector}, "team", true},
		"in the list, unselected": {config.Config{ManagedNamespaces: []string{"other"}, ManagedNamespaceSelector: selector}, "other", false},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.SchedulerName = "us"
			out := handlerOf(t, c.config).mutatePod(t.Context(), create(c.namespace, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}`))
			if got := has(out, "/spec/schedulerName"); !out.Allowed || got != c.want {
				t.Errorf("adopted: %v, %+v", got, out.Result)
			}
		})
	}
}

// TestBadInput: what can't be read is refused, and nothing else happens.
func TestBadInput(t *testing.T) {
	h := handlerOf(t, config.Config{SchedulerName: "us"})
	for _, text := range []string{"", "null", "[]", `{"spec":{"containers":"x"}}`, `{"metadata":{"annotations":[1]}}`} {
		req := create("team", text)
		for _, f := range []webhook.HandlerFunc{h.mutatePod, h.validatePod, h.validateOwner} {
			if out := f(t.Context(), req); out.Allowed && text != "null" && len(out.Patches) > 0 {
				t.Errorf("%q was changed: %v", text, out.Patches)
			}
		}
		update := req
		update.Operation = admissionv1.Update
		for _, f := range []webhook.HandlerFunc{h.mutatePod, h.validatePod, h.validateOwner} {
			f(t.Context(), update)
		}
	}
}

// FuzzOwner: objects of any shape come from the API server, and none may end the program.
func FuzzOwner(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"Job","spec":{"activeDeadlineSeconds":1,"template":{"spec":{"containers":[{}]}}}}`,
		`{"kind":"JobSet","spec":{"replicatedJobs":[{"template":{"spec":{"template":{"spec":{"containers":[]}}}}}]}}`,
		`{"kind":"Job","spec":{"activeDeadlineSeconds":"x","template":{"spec":{"containers":5}}}}`, `{"spec":[[[]]]}`, `{"metadata":{"ownerReferences":[{"controller":true}]}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if o, err := ownerOf([]byte(text)); err == nil {
			if _, err := json.Marshal(o); err != nil {
				t.Error(err)
			}
		}
	})
}
