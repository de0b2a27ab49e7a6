// Package act carries plans out: it applies objects, patches status and tells users about it.
package act

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// ErrDeleting: the object is on its way out, and can be made anew once it is gone.
var ErrDeleting = errors.New("is being deleted")

// Applier applies objects server-side. It remembers what it applied and what came of it,
// and calls the API server only where either has changed since. It is safe for concurrent use.
type Applier struct {
	Client   client.Client
	Recorder events.EventRecorder
	// FieldOwner owns the fields that are applied.
	FieldOwner string

	mu      sync.Mutex
	applied map[string][2]string
}

// Apply makes the live object what desired says, for owner, which must control it.
func (a *Applier) Apply(ctx context.Context, owner, desired client.Object) error {
	id := describe(desired)
	content, err := plain(desired)
	if err != nil {
		return fmt.Errorf("apply %s: %w", id, err)
	}
	live, err := a.live(ctx, desired)
	if err != nil {
		return fmt.Errorf("read %s: %w", id, err)
	}
	if live != nil {
		if err := mayChange(owner, live); err != nil {
			return fmt.Errorf("apply %s: %w", id, err)
		}
		now := [2]string{hash(content), fingerprint(live)}
		if a.remembered(id) == now {
			return nil
		}
	}
	want := hash(content)
	u := &unstructured.Unstructured{Object: content}
	if err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(a.FieldOwner), client.ForceOwnership); err != nil {
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return fmt.Errorf("apply %s: its namespace %w", id, ErrDeleting)
		}
		if live == nil {
			a.Recorder.Eventf(owner, nil, corev1.EventTypeWarning, v1beta1.EventCreateFailed, "Create", "Can't create %s: %v", id, err)
		} else {
			a.Recorder.Eventf(owner, nil, corev1.EventTypeWarning, v1beta1.EventPatchFailed, "Update", "Can't update %s: %v", id, err)
		}
		return fmt.Errorf("apply %s: %w", id, err)
	}
	if live == nil {
		a.Recorder.Eventf(owner, nil, corev1.EventTypeNormal, v1beta1.EventCreateSucceeded, "Create", "Created %s", id)
	}
	// The answer is read into the same type as the next look at the live object is: the
	// two are compared.
	now, err := a.typed(u.GroupVersionKind())
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, now)
	}
	if err != nil {
		return fmt.Errorf("read %s as it was applied: %w", id, err)
	}
	a.remember(id, [2]string{want, fingerprint(now)})
	return nil
}

// live returns the object as it is, nil where there is none.
func (a *Applier) live(ctx context.Context, desired client.Object) (client.Object, error) {
	live, err := a.typed(desired.GetObjectKind().GroupVersionKind())
	if err != nil {
		return nil, err
	}
	err = a.Client.Get(ctx, client.ObjectKeyFromObject(desired), live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, err
}

// typed returns an empty object of a kind.
func (a *Applier) typed(kind schema.GroupVersionKind) (client.Object, error) {
	empty, err := a.Client.Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	o, ok := empty.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", empty)
	}
	return o, nil
}

// mayChange keeps from overwriting what somebody else made under the same name.
func mayChange(owner, live client.Object) error {
	if !metav1.IsControlledBy(live, owner) {
		return fmt.Errorf("an object of this name exists and doesn't belong to %s %s: delete or rename one of them", owner.GetObjectKind().GroupVersionKind().Kind, owner.GetName())
	}
	if live.GetDeletionTimestamp() != nil {
		return ErrDeleting
	}
	return nil
}

func (a *Applier) remembered(id string) [2]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.applied[id]
}

func (a *Applier) remember(id string, state [2]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.applied == nil {
		a.applied = map[string][2]string{}
	}
	a.applied[id] = state
}

func describe(o client.Object) string {
	return fmt.Sprintf("%s %s/%s", o.GetObjectKind().GroupVersionKind().Kind, o.GetNamespace(), o.GetName())
}

// plain is an object without the fields that others own.
func plain(o client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	dropEmpty(content)
	return content, nil
}

// dropEmpty removes nulls and status fields that only come from Go's zero values.
func dropEmpty(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == nil {
				delete(v, key)
				continue
			}
			if m, ok := value.(map[string]any); ok && len(m) == 0 && key == "status" {
				delete(v, key)
				continue
			}
			dropEmpty(value)
		}
	case []any:
		for _, item := range v {
			dropEmpty(item)
		}
	}
}

// fingerprint covers what anybody may have changed, but not what controllers report.
func fingerprint(o client.Object) string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return ""
	}
	reduced := map[string]any{
		"labels": o.GetLabels(), "annotations": o.GetAnnotations(), "owners": o.GetOwnerReferences(), "uid": o.GetUID(),
	}
	dropNestedTypes(content)
	for key, value := range content {
		if key != "status" && key != "metadata" && key != "kind" && key != "apiVersion" {
			reduced[key] = value
		}
	}
	dropEmpty(reduced)
	return hash(reduced)
}

// dropNestedTypes removes the types of claim templates: they are there or not, depending on
// the encoding by which an object was read.
func dropNestedTypes(content map[string]any) {
	templates, _, _ := unstructured.NestedSlice(content, "spec", "volumeClaimTemplates")
	if templates == nil {
		return
	}
	for _, item := range templates {
		if m, ok := item.(map[string]any); ok {
			delete(m, "kind")
			delete(m, "apiVersion")
		}
	}
	// It is the place that it was read from.
	_ = unstructured.SetNestedSlice(content, templates, "spec", "volumeClaimTemplates")
}

func hash(content map[string]any) string {
	text, err := json.Marshal(content)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}
