package admission

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/slinky-hpc/slinky/internal/plan/adopt"
)

func join(sentences []string) string { return strings.Join(sentences, "; ") }

func (h handler) validateOwner(ctx context.Context, req webhook.Request) webhook.Response {
	if req.SubResource != "" || (req.Operation != admissionv1.Create && req.Operation != admissionv1.Update) {
		return webhook.Allowed("")
	}
	now, err := ownerOf(req.Object.Raw)
	if err != nil {
		return webhook.Errored(http.StatusBadRequest, err)
	}
	f, err := h.facts(ctx, req.Namespace)
	if err != nil {
		return unavailable(req, err)
	}
	if req.Operation == admissionv1.Create {
		return answer(adopt.NewOwner(now, f))
	}
	old, err := ownerOf(req.OldObject.Raw)
	if err != nil {
		return webhook.Errored(http.StatusBadRequest, err)
	}
	return answer(adopt.OwnerChanged(old, now, f))
}

// ownerOf reads an object of any kind that speaks for pods.
func ownerOf(raw []byte) (adopt.Owner, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return adopt.Owner{}, fmt.Errorf("read the object: %w", err)
	}
	o := adopt.Owner{
		Kind: u.GetKind(), Name: u.GetName(), Annotations: u.GetAnnotations(),
		Owned: metav1.GetControllerOf(u) != nil,
	}
	if o.Kind == "Job" {
		o.Deadline, _, _ = unstructured.NestedInt64(u.Object, "spec", "activeDeadlineSeconds")
	}
	return o, templates(u.Object["spec"], &o.Templates)
}

// templates collects the pod templates below a value: whatever has a spec with containers.
func templates(v any, out *[]corev1.PodTemplateSpec) error {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if err := templates(item, out); err != nil {
				return err
			}
		}
	case map[string]any:
		if spec, ok := v["spec"].(map[string]any); ok && spec["containers"] != nil {
			var t corev1.PodTemplateSpec
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(v, &t); err != nil {
				return fmt.Errorf("read a pod template: %w", err)
			}
			*out = append(*out, t)
			return nil
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := templates(v[key], out); err != nil {
				return err
			}
		}
	}
	return nil
}
