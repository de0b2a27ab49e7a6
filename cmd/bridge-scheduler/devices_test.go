package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/device/devicetest"
	"github.com/slinky-hpc/slinky/slurm"
)

const (
	cpuResource = "deviceclass.resource.kubernetes.io/dra.cpu"
	gpuResource = "deviceclass.resource.kubernetes.io/gpu.example.com"
)

// machine adds a node with what its drivers publish, and waits until Slurm has it.
func (w *world) machine(t *testing.T, m *devicetest.Machine) {
	t.Helper()
	ctx, nodes := t.Context(), w.kube.CoreV1().Nodes()
	// Slices first: the node is registered once, with all that it has.
	for _, s := range m.Slices {
		if _, err := w.kube.ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	name := m.Node.Name
	if _, err := nodes.Create(ctx, m.Node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "node "+name+" is ready", func() error {
		n, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Spec.Taints = nil
		if n, err = nodes.Update(ctx, n, metav1.UpdateOptions{}); err != nil {
			return err
		}
		n.Status = m.Node.Status
		_, err = nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err
	})
	w.eventually(t, "Slurm has node "+name, func() error {
		now, err := w.slurm.Node(ctx, name)
		if err == nil && (now.Extra == "" || now.CPUs == 0) {
			err = fmt.Errorf("%w: %+v", errWait, now)
		}
		return err
	})
}

// classOnce creates a DeviceClass where there is none of the name.
func (w *world) classOnce(t *testing.T, name string) {
	t.Helper()
	if _, err := w.kube.ResourceV1().DeviceClasses().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		w.class(t, name)
	}
}

func (w *world) class(t *testing.T, name string) {
	t.Helper()
	_, err := w.kube.ResourceV1().DeviceClasses().Create(t.Context(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", name)}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// devicePod creates a pod that shares its node and asks its one container for extended resources.
func (w *world) devicePod(name string, want map[corev1.ResourceName]string) *corev1.Pod {
	return w.pod(name, func(p *corev1.Pod) {
		p.Annotations[v1beta1.AnnotationExclusive] = "false"
		r := &p.Spec.Containers[0].Resources
		delete(r.Requests, corev1.ResourceCPU)
		r.Limits = corev1.ResourceList{}
		for resourceName, n := range want {
			r.Requests[resourceName], r.Limits[resourceName] = resource.MustParse(n), resource.MustParse(n)
		}
	})
}

// claimOf returns the claim that a pod's status names.
func (w *world) claimOf(t *testing.T, pod *corev1.Pod) *resourcev1.ResourceClaim {
	t.Helper()
	if pod.Status.ExtendedResourceClaimStatus == nil {
		t.Fatalf("pod %s has no claim for its extended resources", pod.Name)
	}
	c, err := w.kube.ResourceV1().ResourceClaims(namespace).Get(t.Context(), pod.Status.ExtendedResourceClaimStatus.ResourceClaimName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// given lists the devices of a claim, as request:device.
func given(c *resourcev1.ResourceClaim) []string {
	var out []string
	for _, r := range c.Status.Allocation.Devices.Results {
		out = append(out, r.Request+":"+r.Device)
	}
	return out
}

func (w *world) devicesAreGiven(t *testing.T) {
	w.classOnce(t, "dra.cpu")
	w.classOnce(t, "gpu.example.com")
	m := devicetest.New("d1", 8).Individual(devicetest.Even(2, 2, 2)).
		Publish("gpu.example.com", 1, devicetest.GPU(0, 0), devicetest.GPU(2, 1))
	w.machine(t, m)
	n, err := w.slurm.Node(t.Context(), "d1")
	if err != nil || n.Sockets != 2 || n.Cores != 2 || n.Threads != 2 || n.GRES != "gpu:gpu.example.com:2(S:0-1)" {
		t.Errorf("Slurm has d1 as %dx%dx%d with %q (%v)", n.Sockets, n.Cores, n.Threads, n.GRES, err)
	}
	both := map[corev1.ResourceName]string{cpuResource: "2", gpuResource: "1"}
	w.devicePod("dev-a", both)
	a := w.bound(t, "dev-a")
	claim := w.claimOf(t, a)
	// Socket 0 has CPUs 0, 1 and their siblings 4, 5; Even publishes CPU i as device i.
	if d := cmp.Diff([]string{"gpu:gpu-0", "cpu:cpudev000", "cpu:cpudev004"}, given(claim)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]corev1.ContainerExtendedResourceRequest{
		{ContainerName: "main", ResourceName: cpuResource, RequestName: "cpu"},
		{ContainerName: "main", ResourceName: gpuResource, RequestName: "gpu"},
	}, a.Status.ExtendedResourceClaimStatus.RequestMappings); d != "" {
		t.Error(d)
	}
	if !metav1.IsControlledBy(claim, a) || claim.Annotations[v1beta1.AnnotationExtendedResourceClaim] != "true" ||
		!strings.HasPrefix(claim.Name, "dev-a-extended-resources-") {
		t.Errorf("the claim is %s with %v of %v", claim.Name, claim.Annotations, claim.OwnerReferences)
	}
	if d := cmp.Diff([]resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "dev-a", UID: a.UID}}, claim.Status.ReservedFor); d != "" {
		t.Error(d)
	}
	terms := claim.Status.Allocation.NodeSelector.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchFields) != 1 || terms[0].MatchFields[0].Values[0] != "d1" {
		t.Errorf("the claim is for %+v", terms)
	}

	// Somebody else's claim has what Slurm gives the next pod: it waits and says so.
	w.foreignClaim(t, "theirs", "gpu-2")
	w.devicePod("dev-b", both)
	w.eventually(t, "the second pod says who has its device", func() error {
		pod, err := w.get("dev-b")
		if err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "device gpu-2 is held by ResourceClaim default/theirs") {
				return nil
			}
		}
		return fmt.Errorf("%w: %+v", errWait, pod.Status.Conditions)
	})
	if err := w.kube.ResourceV1().ResourceClaims(namespace).Delete(t.Context(), "theirs", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b := w.bound(t, "dev-b")
	if d := cmp.Diff([]string{"gpu:gpu-2", "cpu:cpudev002", "cpu:cpudev006"}, given(w.claimOf(t, b))); d != "" {
		t.Error(d)
	}

	// The devices of a pod that has ended are free.
	w.kubelet(t, "dev-a", corev1.PodSucceeded)
	w.eventually(t, "the claim of a pod that has ended is removed", func() error {
		_, err := w.kube.ResourceV1().ResourceClaims(namespace).Get(t.Context(), claim.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%w: %w", errWait, err)
	})
	w.devicePod("dev-c", both)
	if d := cmp.Diff([]string{"gpu:gpu-0", "cpu:cpudev000", "cpu:cpudev004"}, given(w.claimOf(t, w.bound(t, "dev-c")))); d != "" {
		t.Error(d)
	}
	w.kubelet(t, "dev-b", corev1.PodSucceeded)
	w.kubelet(t, "dev-c", corev1.PodSucceeded)
	w.stays(t, "d1")
}

// foreignClaim allocates a device of d1 as another scheduler would.
func (w *world) foreignClaim(t *testing.T, name, device string) {
	t.Helper()
	claims := w.kube.ResourceV1().ResourceClaims(namespace)
	c, err := claims.Create(t.Context(), &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"},
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "one", Driver: "gpu.example.com", Pool: "d1", Device: device},
	}}}
	if _, err := claims.UpdateStatus(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// stays checks that a node is not registered anew however often it is looked at: a
// comment in Slurm would be lost.
func (w *world) stays(t *testing.T, name string) {
	t.Helper()
	comment := "the same"
	if err := w.slurm.UpdateNode(t.Context(), name, slurm.NodeUpdate{Comment: &comment}); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, i)
		if _, err := w.kube.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// A cordon that comes after the touches shows that they have been dealt with.
	cordon := func(yes bool) {
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, yes)
		if _, err := w.kube.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		w.eventually(t, fmt.Sprintf("node %s is drained: %t", name, yes), func() error {
			n, err := w.slurm.Node(t.Context(), name)
			if err == nil && n.States.Has(slurm.NodeDrain) != yes {
				err = fmt.Errorf("%w: %s", errWait, n.States)
			}
			return err
		})
	}
	cordon(true)
	cordon(false)
	if n, err := w.slurm.Node(t.Context(), name); err != nil || n.Comment != comment {
		t.Errorf("the node was registered anew: its comment is %q (%v)", n.Comment, err)
	}
}
