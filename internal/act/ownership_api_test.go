package act

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/internal/apitest"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// ownership is an object with several managers.
type ownership struct {
	admin  client.Client
	a      *Applier
	owner  *corev1.ConfigMap
	writes atomic.Int64
}

// TestAPIServerOwnership: what others add to our objects stays, what is ours comes back, and
// nobody fights.
func TestAPIServerOwnership(t *testing.T) {
	server := apitest.Start(t)
	o := &ownership{}
	config := rest.CopyConfig(server.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				o.writes.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	var err error
	if o.admin, err = client.New(server.Config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	ours, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	o.a = &Applier{Client: ours, Recorder: events.NewFakeRecorder(100), FieldOwner: "slurm-operator"}
	// Any object can be an owner; a ConfigMap needs no custom resource.
	o.owner = &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "owner"}}
	if err := o.admin.Create(t.Context(), o.owner); err != nil {
		t.Fatal(err)
	}
	o.owner.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	o.apply(t, 1, "new")
	o.apply(t, 0, "unchanged")
	t.Run("kubectl apply", o.testApply)
	t.Run("kubectl edit", o.testEdit)
	t.Run("kubectl scale", o.testScale)
	t.Run("what we drop", o.testDrop)
}

func (o *ownership) desired() *appsv1.Deployment {
	yes, two := true, int32(2)
	labels := map[string]string{"app": "d"}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d", Labels: map[string]string{"ours": "1", "app": "d"}, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: o.owner.Name, UID: o.owner.UID, Controller: &yes, BlockOwnerDeletion: &yes}}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "c", Image: "i:1", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}}}}},
		},
	}
}

// apply lets us apply twice, and wants as many writes by the first and none by the second.
func (o *ownership) apply(t *testing.T, writes int64, when string, change ...func(*appsv1.Deployment)) {
	t.Helper()
	for _, want := range []int64{writes, 0} {
		d := o.desired()
		for _, f := range change {
			f(d)
		}
		before := o.writes.Load()
		if err := o.a.Apply(t.Context(), o.owner, d); err != nil {
			t.Fatal(err)
		}
		if got := o.writes.Load() - before; got != want {
			t.Errorf("%s: %d writes, want %d", when, got, want)
		}
	}
}

func (o *ownership) live(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := o.admin.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "d"}, d); err != nil {
		t.Fatal(err)
	}
	return d
}

func (o *ownership) testApply(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"namespace": "default", "name": "d", "annotations": map[string]any{"theirs": "1"}},
		"spec": map[string]any{"progressDeadlineSeconds": int64(7), "template": map[string]any{"spec": map[string]any{
			"nodeSelector": map[string]any{"a": "b"},
			"containers":   []any{map[string]any{"name": "c", "env": []any{map[string]any{"name": "B", "value": "2"}}}, map[string]any{"name": "theirs", "image": "x"}}}}},
	}}
	if err := o.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.FieldOwner("kubectl")); err != nil {
		t.Fatalf("a user's own fields conflict with ours: %v", err)
	}
	o.apply(t, 1, "after a user's apply")
	d := o.live(t)
	spec := d.Spec.Template.Spec
	if d.Annotations["theirs"] != "1" || *d.Spec.ProgressDeadlineSeconds != 7 || spec.NodeSelector["a"] != "b" || len(spec.Containers) != 2 {
		t.Errorf("what the user added is gone: %+v", spec)
	}
	if diff := cmp.Diff([]corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}, spec.Containers[0].Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	// The user doesn't fight, either: the same manifest again changes nothing.
	generation := d.Generation
	if err := o.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
	o.apply(t, 0, "after the same apply again")
	if got := o.live(t).Generation; got != generation {
		t.Errorf("generation went from %d to %d", generation, got)
	}
}

func (o *ownership) testEdit(t *testing.T) {
	d := o.live(t)
	d.Spec.Template.Spec.Containers[0].Image = "edited"
	d.Labels["ours"] = "edited"
	d.Labels["edit"] = "1"
	d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
	if err := o.admin.Update(t.Context(), d, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	o.apply(t, 1, "after an edit")
	d = o.live(t)
	if d.Spec.Template.Spec.Containers[0].Image != "i:1" || d.Labels["ours"] != "1" {
		t.Errorf("ours didn't come back: %s, %v", d.Spec.Template.Spec.Containers[0].Image, d.Labels)
	}
	if d.Labels["edit"] != "1" || d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] != "now" {
		t.Errorf("theirs is gone: %v, %v", d.Labels, d.Spec.Template.Annotations)
	}
}

func (o *ownership) testScale(t *testing.T) {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5}}`))
	if err := o.admin.Patch(t.Context(), o.live(t), patch, client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
	o.apply(t, 1, "after somebody scaled our workload")
	if got := *o.live(t).Spec.Replicas; got != 2 {
		t.Errorf("replicas is %d", got)
	}
}

// testDrop: a field that we no longer want goes, unless somebody else wants it, too.
func (o *ownership) testDrop(t *testing.T) {
	shared := func(d *appsv1.Deployment) { d.Labels["shared"], d.Labels["dropped"] = "1", "1" }
	o.apply(t, 1, "with more labels", shared)
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"namespace": "default", "name": "d", "labels": map[string]any{"shared": "1"}}}}
	if err := o.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("argocd")); err != nil {
		t.Fatalf("the same value conflicts: %v", err)
	}
	o.apply(t, 1, "without them")
	if l := o.live(t).Labels; l["shared"] != "1" || l["dropped"] != "" {
		t.Errorf("labels are %v", l)
	}
}
