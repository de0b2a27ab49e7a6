package claims

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/device"
)

// fieldManager is the name of the bridge's writes.
const fieldManager = "slurm-bridge"

// nameOf returns the name of the claim for a pod's extended resources. It is always the
// same for a pod, so that one which was written before a crash is found.
func nameOf(pod *corev1.Pod) string {
	sum := sha256.Sum256([]byte(pod.UID))
	name := pod.Name
	const suffix = "-extended-resources-"
	if room := 253 - len(suffix) - 5; len(name) > room {
		name = name[:room]
	}
	return name + suffix + hex.EncodeToString(sum[:])[:5]
}

// extended writes the claim that stands for a pod's extended resources.
func (w *Writer) extended(ctx context.Context, pod *corev1.Pod, plan *device.Claim) (*resourcev1.ResourceClaim, error) {
	claims := w.Client.ResourceV1().ResourceClaims(pod.Namespace)
	yes := true
	want := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: nameOf(pod),
			Annotations: map[string]string{v1beta1.AnnotationExtendedResourceClaim: "true"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: plan.Requests}},
	}
	if err := w.free(ctx, pod, plan.Allocation, nil); err != nil {
		return nil, err
	}
	have, err := claims.Create(ctx, want, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		if have, err = claims.Get(ctx, want.Name, metav1.GetOptions{}); err == nil && (!metav1.IsControlledBy(have, pod) ||
			!equality.Semantic.DeepEqual(have.Spec, want.Spec)) {
			// Of an earlier job, or of another pod of the name: what a claim asks for can't change.
			if err = w.remove(ctx, have); err == nil {
				have, err = claims.Create(ctx, want, metav1.CreateOptions{FieldManager: fieldManager})
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("write ResourceClaim %s/%s of pod %s: %w", want.Namespace, want.Name, pod.Name, err)
	}
	out, err := w.assign(ctx, pod, have, plan.Allocation)
	if err != nil {
		if failed := w.remove(ctx, have); failed != nil {
			err = fmt.Errorf("%w; and %w", err, failed)
		}
		return nil, err
	}
	return out, nil
}

// assign writes what a claim has got, and for which pod.
func (w *Writer) assign(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim, a resourcev1.AllocationResult) (*resourcev1.ResourceClaim, error) {
	reserved := []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	if had := claim.Status.Allocation; had != nil && equality.Semantic.DeepEqual(had.Devices, a.Devices) &&
		equality.Semantic.DeepEqual(claim.Status.ReservedFor, reserved) {
		return claim, nil
	}
	now := metav1.NewTime(time.Now())
	a.AllocationTimestamp = &now
	claim = claim.DeepCopy()
	claim.Status.Allocation, claim.Status.ReservedFor = &a, reserved
	return w.writeStatus(ctx, claim)
}

// tell writes to the pod which container gets which request, for kubelet.
func (w *Writer) tell(ctx context.Context, pod *corev1.Pod, claim string, mappings []corev1.ContainerExtendedResourceRequest) error {
	want := &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim, RequestMappings: mappings}
	if equality.Semantic.DeepEqual(pod.Status.ExtendedResourceClaimStatus, want) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"extendedResourceClaimStatus": want},
	})
	if err != nil {
		return fmt.Errorf("claim of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	out, err := w.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err != nil {
		return fmt.Errorf("tell pod %s/%s of its ResourceClaim %s: %w", pod.Namespace, pod.Name, claim, err)
	}
	if out.Status.ExtendedResourceClaimStatus == nil {
		return fmt.Errorf("the API server doesn't keep the ResourceClaim of pod %s/%s: it needs the feature gate DRAExtendedResource",
			pod.Namespace, pod.Name)
	}
	return nil
}

// remove deletes a claim, and no other of its name.
func (w *Writer) remove(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := w.Client.ResourceV1().ResourceClaims(claim.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &claim.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// Release takes back what was written for a pod that isn't bound after all.
func (w *Writer) Release(ctx context.Context, pod *corev1.Pod) error {
	if !device.Asks(pod) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	now, err := w.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil // the claim goes with it
	case err != nil:
		return fmt.Errorf("read pod %s/%s: %w", pod.Namespace, pod.Name, err)
	case now.UID != pod.UID, now.Spec.NodeName != "":
		return nil // another pod, or it was bound although no answer said so
	}
	claim, err := w.Client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, nameOf(pod), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read ResourceClaim %s/%s: %w", pod.Namespace, nameOf(pod), err)
	}
	if !metav1.IsControlledBy(claim, pod) {
		return nil
	}
	return w.remove(ctx, claim)
}
