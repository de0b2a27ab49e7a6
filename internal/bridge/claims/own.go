package claims

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/slinky-hpc/slinky/internal/plan/device"
)

// own returns the claims that a pod names, or why they can't be served yet.
func (w *Writer) own(pod *corev1.Pod) (claims []*resourcev1.ResourceClaim, missing string) {
	for i := range pod.Spec.ResourceClaims {
		ref := &pod.Spec.ResourceClaims[i]
		name, check, err := resourceclaim.Name(pod, ref)
		switch {
		case err != nil && ref.ResourceClaimTemplateName != nil:
			return nil, fmt.Sprintf("ResourceClaim %s of pod %s isn't made yet from ResourceClaimTemplate %s", ref.Name, pod.Name, *ref.ResourceClaimTemplateName)
		case err != nil:
			return nil, fmt.Sprintf("ResourceClaim %s of pod %s: %v", ref.Name, pod.Name, err)
		case name == nil:
			continue // none is needed
		}
		obj, exists, err := w.claims.GetByKey(pod.Namespace + "/" + *name)
		if err != nil || !exists {
			return nil, fmt.Sprintf("ResourceClaim %s, which pod %s names, doesn't exist in namespace %s", *name, pod.Name, pod.Namespace)
		}
		c := obj.(*resourcev1.ResourceClaim)
		if c.DeletionTimestamp != nil {
			return nil, fmt.Sprintf("ResourceClaim %s, which pod %s names, is being deleted", *name, pod.Name)
		}
		if check {
			if err := resourceclaim.IsForPod(pod, c, true); err != nil {
				return nil, err.Error()
			}
		}
		if missing := w.classless(c); missing != "" {
			return nil, missing
		}
		claims = append(claims, c)
	}
	return claims, ""
}

// classless tells of a request of a claim whose class doesn't exist, "" if all do.
func (w *Writer) classless(c *resourcev1.ResourceClaim) string {
	lacks := func(request, class string) string {
		if _, err := w.classes.Get(class); apierrors.IsNotFound(err) {
			return fmt.Sprintf("DeviceClass %s, which request %s of ResourceClaim %s is for, doesn't exist", class, request, c.Name)
		}
		return ""
	}
	for _, r := range c.Spec.Devices.Requests {
		why := ""
		if r.Exactly != nil {
			why = lacks(r.Name, r.Exactly.DeviceClassName)
		}
		for _, sub := range r.FirstAvailable {
			if why == "" {
				why = lacks(r.Name+"/"+sub.Name, sub.DeviceClassName)
			}
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// loose tells whether an allocated claim is allocated for pods of the bridge alone that run
// nowhere yet: it can be allocated anew.
func (w *Writer) loose(c *resourcev1.ResourceClaim) bool {
	if len(c.Status.ReservedFor) == 0 {
		return false
	}
	for _, r := range c.Status.ReservedFor {
		pod, err := w.pods.Pods(c.Namespace).Get(r.Name)
		if err != nil || r.Resource != "pods" || pod.UID != r.UID || pod.Spec.NodeName != "" || pod.Spec.SchedulerName != w.SchedulerName {
			return false
		}
	}
	return true
}

// reaches tells whether an allocated claim can be used on a node.
func reaches(c *resourcev1.ResourceClaim, node *corev1.Node) bool {
	if c.Status.Allocation.NodeSelector == nil {
		return true
	}
	s, err := nodeaffinity.NewNodeSelector(c.Status.Allocation.NodeSelector)
	return err == nil && s.Match(node)
}

func reservedFor(c *resourcev1.ResourceClaim, pod *corev1.Pod) bool {
	return slices.ContainsFunc(c.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
}

// served returns the device classes of a pod's extended resources, where the allocator
// chooses the devices; nil where they are planned from Slurm's numbers alone, or there are none.
func (w *Writer) served(pod *corev1.Pod) map[corev1.ResourceName]string {
	return device.Served(pod, w.Drivers, func(name corev1.ResourceName) string {
		if c := w.extendedNames.GetDeviceClass(name); c != nil {
			return c.Name
		}
		return ""
	})
}

// Served tells whether a device class serves an extended resource of a pod on nodes that
// don't offer it themselves.
func (w *Writer) Served(pod *corev1.Pod, name corev1.ResourceName) bool {
	_, ok := w.served(pod)[name]
	return ok
}

// standIn returns the claim that stands for a pod's extended resources on a node, nil where
// nothing is left for one.
func (w *Writer) standIn(pod *corev1.Pod, node *corev1.Node, served map[corev1.ResourceName]string) (*resourcev1.ResourceClaim, []corev1.ContainerExtendedResourceRequest) {
	requests, mappings := device.Requests(pod, node, served)
	if len(requests) == 0 {
		return nil, nil
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: nameOf(pod)},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}},
	}, mappings
}

// taken are the devices that the claims which a pod names have: its extended resources are others.
func (w *Writer) taken(pod *corev1.Pod) map[device.ID]bool {
	claims, _ := w.own(pod)
	out := map[device.ID]bool{}
	for _, c := range claims {
		if c.Status.Allocation != nil {
			device.Take(*c.Status.Allocation, out)
		}
	}
	return out
}
