package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/admission"
)

// binding gives a worker the topology of its Kubernetes node in the moment in which it gets
// that node: before its slurmd starts. It sees the bindings of all pods, so it never stands
// in the way of one: what it can't do is said in a warning, and the operator does it later.
type binding struct {
	kube    client.Client
	decoder webhookadmission.Decoder
}

// Handle implements admission.Handler.
func (b *binding) Handle(ctx context.Context, req webhookadmission.Request) webhookadmission.Response {
	allowed := webhookadmission.Allowed("")
	if req.DryRun != nil && *req.DryRun {
		return allowed
	}
	var bind corev1.Binding
	if err := b.decoder.Decode(req, &bind); err != nil {
		return allowed.WithWarnings(fmt.Sprintf("topology of pod %s/%s is not set: %v", req.Namespace, req.Name, err))
	}
	if err := b.annotate(ctx, types.NamespacedName{Namespace: req.Namespace, Name: req.Name}, bind.Target.Name); err != nil {
		return allowed.WithWarnings(fmt.Sprintf("topology of pod %s/%s is not set: %v", req.Namespace, req.Name, err))
	}
	return allowed
}

func (b *binding) annotate(ctx context.Context, name types.NamespacedName, nodeName string) error {
	r := reader{b.kube}
	pod := &corev1.Pod{}
	found, err := r.get(ctx, name.Namespace, name.Name, pod)
	if err != nil || !found || pod.Labels[v1beta1.LabelName] != v1beta1.NameSlurmd {
		return err
	}
	node := &corev1.Node{}
	found, err = r.get(ctx, "", nodeName, node)
	if err != nil {
		return err
	}
	if !found {
		node = nil
	}
	value, set := admission.Topology(pod, node)
	if !set {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]string{v1beta1.AnnotationTopology: value}}})
	if err != nil {
		return err
	}
	if err := b.kube.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotate it: %w", err)
	}
	return nil
}
