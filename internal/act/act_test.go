package act

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// writes counts calls, and fails those for which there is an error.
type writes struct {
	apply, status int
	fail          error
}

func (w *writes) client(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), v1beta1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&v1beta1.Controller{}).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			w.apply++
			if w.fail != nil {
				return w.fail
			}
			return c.Apply(ctx, o, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			w.status++
			if w.fail != nil {
				return w.fail
			}
			return c.SubResource(sub).Patch(ctx, o, p, options...)
		},
	}).Build()
}

func owner() *v1beta1.Controller {
	return &v1beta1.Controller{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindController},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "uid-c"},
	}
}

func configMap(data map[string]string) *corev1.ConfigMap {
	yes := true
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindController, Name: "c", UID: "uid-c", Controller: &yes, BlockOwnerDeletion: &yes}}},
		Data: data,
	}
}

func wantEvent(t *testing.T, r *events.FakeRecorder, text string) {
	t.Helper()
	got := ""
	select {
	case got = <-r.Events:
	default:
	}
	if !strings.Contains(got, text) || (text == "" && got != "") {
		t.Errorf("event %q, want %q", got, text)
	}
}

func TestApplyWritesOnlyWhatChanges(t *testing.T) {
	w, recorder := &writes{}, events.NewFakeRecorder(8)
	c := w.client(t)
	a := &Applier{Client: c, Recorder: recorder, FieldOwner: "us"}
	step := func(data map[string]string, applied int, event string) {
		t.Helper()
		if err := a.Apply(t.Context(), owner(), configMap(data)); err != nil {
			t.Fatal(err)
		}
		if w.apply != applied {
			t.Errorf("%d writes, want %d", w.apply, applied)
		}
		wantEvent(t, recorder, event)
	}
	step(map[string]string{"a": "1"}, 1, "Normal CreateSucceeded Created ConfigMap ns/m")
	step(map[string]string{"a": "1"}, 1, "")
	step(map[string]string{"a": "2"}, 2, "")
	step(map[string]string{"a": "2"}, 2, "")

	live := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(configMap(nil)), live); err != nil {
		t.Fatal(err)
	}
	live.Data["a"] = "somebody else's"
	if err := c.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	step(map[string]string{"a": "2"}, 3, "")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil || live.Data["a"] != "2" {
		t.Errorf("data is %v, %v", live.Data, err)
	}
}

func TestApplyTellsWhatFails(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "m", errors.New("no right"))
	for name, tc := range map[string]struct {
		objects []client.Object
		event   string
	}{
		"create": {nil, "Warning CreateFailed Can't create ConfigMap ns/m: "},
		"update": {[]client.Object{configMap(nil)}, "Warning PatchFailed Can't update ConfigMap ns/m: "},
	} {
		t.Run(name, func(t *testing.T) {
			w, recorder := &writes{fail: denied}, events.NewFakeRecorder(8)
			a := &Applier{Client: w.client(t, tc.objects...), Recorder: recorder, FieldOwner: "us"}
			err := a.Apply(t.Context(), owner(), configMap(map[string]string{"a": "1"}))
			if !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), "apply ConfigMap ns/m: ") {
				t.Errorf("got %v", err)
			}
			wantEvent(t, recorder, tc.event)
			w.fail = nil
			if err := a.Apply(t.Context(), owner(), configMap(map[string]string{"a": "1"})); err != nil {
				t.Errorf("a failure was remembered: %v", err)
			}
		})
	}
}

func TestApplyLeavesOthersAlone(t *testing.T) {
	foreign, ending := configMap(nil), configMap(nil)
	foreign.OwnerReferences = nil
	now := metav1.Now()
	ending.DeletionTimestamp, ending.Finalizers = &now, []string{"example.com/keep"}
	for name, tc := range map[string]struct {
		live *corev1.ConfigMap
		is   func(error) bool
	}{
		"somebody else's": {foreign, func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "an object of this name exists and doesn't belong to Controller c")
		}},
		"on its way out": {ending, func(err error) bool { return errors.Is(err, ErrDeleting) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writes{}
			a := &Applier{Client: w.client(t, tc.live), Recorder: events.NewFakeRecorder(8), FieldOwner: "us"}
			if err := a.Apply(t.Context(), owner(), configMap(map[string]string{"a": "1"})); !tc.is(err) || w.apply != 0 {
				t.Errorf("got %v after %d writes", err, w.apply)
			}
		})
	}
	t.Run("a namespace on its way out", func(t *testing.T) {
		ended := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "m", errors.New("terminating"))
		ended.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		recorder := events.NewFakeRecorder(8)
		a := &Applier{Client: (&writes{fail: ended}).client(t), Recorder: recorder, FieldOwner: "us"}
		if err := a.Apply(t.Context(), owner(), configMap(nil)); !errors.Is(err, ErrDeleting) {
			t.Errorf("got %v", err)
		}
		wantEvent(t, recorder, "")
	})
}

func TestPatchStatus(t *testing.T) {
	w := &writes{}
	c := w.client(t, owner())
	before := owner()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(before), before); err != nil {
		t.Fatal(err)
	}
	if err := PatchStatus(t.Context(), c, before, before.DeepCopy()); err != nil || w.status != 0 {
		t.Errorf("%d writes without a change, %v", w.status, err)
	}
	after := before.DeepCopy()
	SetCondition(&after.Status.Conditions, 3, "Ready", true, "Available", "it runs")
	if err := PatchStatus(t.Context(), c, before, after); err != nil || w.status != 1 {
		t.Fatalf("%d writes, %v", w.status, err)
	}
	live := &v1beta1.Controller{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(before), live); err != nil {
		t.Fatal(err)
	}
	if got := live.Status.Conditions; len(got) != 1 || got[0].ObservedGeneration != 3 || got[0].Message != "it runs" {
		t.Errorf("conditions are %+v", got)
	}
	other := before.DeepCopy()
	SetCondition(&other.Status.Conditions, 3, "Other", true, "Available", "")
	if err := PatchStatus(t.Context(), c, before, other); !errors.Is(err, ErrChanged) {
		t.Errorf("written over what was never seen: %v", err)
	}
	w.fail = apierrors.NewNotFound(schema.GroupResource{}, "c")
	if err := PatchStatus(t.Context(), c, before, after.DeepCopy()); err != nil {
		t.Errorf("an object that is gone is an error: %v", err)
	}
	w.fail = errors.New("no network")
	if err := PatchStatus(t.Context(), c, before, after.DeepCopy()); err == nil || !strings.Contains(err.Error(), "patch status of c: no network") {
		t.Errorf("got %v", err)
	}
}

func TestSetCondition(t *testing.T) {
	past := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	conditions := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "A", LastTransitionTime: past}}
	SetCondition(&conditions, 2, "Ready", true, "B", "still")
	if c := conditions[0]; c.Reason != "B" || c.ObservedGeneration != 2 || !c.LastTransitionTime.Equal(&past) {
		t.Errorf("got %+v", c)
	}
	SetCondition(&conditions, 2, "Ready", false, "C", "")
	if c := conditions[0]; c.Status != metav1.ConditionFalse || c.LastTransitionTime.Equal(&past) {
		t.Errorf("got %+v", c)
	}
	SetCondition(&conditions, 2, "Ready", false, "C", "x"+strings.Repeat("ü", 20000))
	if m := conditions[0].Message; len(m) > 32768 || !strings.HasSuffix(m, "ü") {
		t.Errorf("the message has %d bytes and ends with %q", len(m), m[len(m)-3:])
	}
}
