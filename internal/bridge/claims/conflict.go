package claims

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/device"
)

// free checks that no other claim has what an allocation takes. A claim of the bridge
// that is left behind is removed.
func (w *Writer) free(ctx context.Context, pod *corev1.Pod, a resourcev1.AllocationResult, own map[types.UID]bool) error {
	var holders []device.Holder
	claims := map[types.UID]*resourcev1.ResourceClaim{}
	for _, pool := range poolsOf(a) {
		objs, err := w.claims.ByIndex(indexPool, pool)
		if err != nil {
			return fmt.Errorf("find the ResourceClaims of pool %s: %w", pool, err)
		}
		for _, obj := range objs {
			c := obj.(*resourcev1.ResourceClaim)
			if h, ok := device.HolderOf(c); ok && claims[c.UID] == nil && !own[c.UID] && !metav1.IsControlledBy(c, pod) {
				claims[c.UID] = c
				holders = append(holders, h)
			}
		}
	}
	h, what, taken := device.Conflict(a, holders)
	if !taken {
		return nil
	}
	claim := claims[h.UID]
	left, err := w.leftBehind(ctx, claim)
	if err == nil && left {
		err = w.remove(ctx, claim)
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s is held by ResourceClaim %s/%s%s", ErrWait, what, h.Namespace, h.Name, userOf(claim))
}

func userOf(c *resourcev1.ResourceClaim) string {
	for _, r := range c.Status.ReservedFor {
		return fmt.Sprintf(" of %s %s", r.Resource, r.Name)
	}
	return ", which nothing uses"
}

// leftBehind tells whether a claim is one of the bridge's own kind whose pod has ended or is gone.
func (w *Writer) leftBehind(ctx context.Context, c *resourcev1.ResourceClaim) (bool, error) {
	owner := metav1.GetControllerOf(c)
	if c.Annotations[v1beta1.AnnotationExtendedResourceClaim] != "true" || owner == nil || owner.Kind != "Pod" {
		return false, nil
	}
	// The informer may be behind: a claim in use must not go.
	pod, err := w.Client.CoreV1().Pods(c.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read pod %s/%s: %w", c.Namespace, owner.Name, err)
	}
	return pod.UID != owner.UID || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed, nil
}
