package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/device/devicetest"
)

const gpuClass = "gpu.example.com"

// exactly asks for a number of devices of a class, with CEL selectors.
func exactly(name, class string, count int64, selectors ...string) resourcev1.DeviceRequest {
	r := resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, Count: count}}
	for _, s := range selectors {
		r.Exactly.Selectors = append(r.Exactly.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: s}})
	}
	return r
}

// claim creates a ResourceClaim.
func (w *world) claim(t *testing.T, name string, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	t.Helper()
	c, err := w.kube.ResourceV1().ResourceClaims(namespace).Create(t.Context(), &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) dropClaim(t *testing.T, name string) {
	t.Helper()
	claims := w.kube.ResourceV1().ResourceClaims(namespace)
	c, err := claims.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Kubernetes' own controller takes it away once no pod uses the claim.
	c.Status.Allocation, c.Status.ReservedFor = nil, nil
	if c, err = claims.UpdateStatus(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Finalizers = nil
	if _, err = claims.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := claims.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// claims makes a pod share its node and its one container use claims.
func claims(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations[v1beta1.AnnotationExclusive] = "false"
		for _, name := range names {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
			p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: name})
		}
	}
}

// has returns the devices of a claim, as request:device.
func (w *world) has(t *testing.T, name string) []string {
	t.Helper()
	c, err := w.kube.ResourceV1().ResourceClaims(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Status.Allocation == nil {
		return nil
	}
	return given(c)
}

// claimMachine adds a node with CPUs, GPUs of two models, network cards beside them, and
// devices of which Slurm is told nothing.
func (w *world) claimMachine(t *testing.T, name string) {
	t.Helper()
	gpu := func(i, numa int, model string) resourcev1.Device {
		d := devicetest.GPU(i, numa)
		d.Attributes["model"] = resourcev1.DeviceAttribute{StringValue: &model}
		return d
	}
	w.machine(t, devicetest.New(name, 8).Individual(devicetest.Even(2, 2, 2)).
		Publish(gpuClass, 1, gpu(0, 0, "a"), gpu(1, 0, "a"), gpu(2, 1, "b")).
		Publish("fpga.example.com", 1, devicetest.GPU(0, 0)))
}

// podsOwnClaims: a pod's own claims become part of its job, and get the devices that Slurm chose.
func (w *world) podsOwnClaims(t *testing.T) {
	w.classOnce(t, gpuClass)
	w.classOnce(t, "fpga.example.com")
	w.claimMachine(t, "c1")

	// Two GPUs by one claim, and another pod's by another.
	w.claim(t, "two", exactly("gpus", gpuClass, 2))
	w.pod("claim-a", claims("two"))
	a := w.bound(t, "claim-a")
	job := w.job(t, a)
	if granted, err := w.slurm.Allocation(t.Context(), job.ID); err != nil || len(granted.Nodes) != 1 || len(granted.Nodes[0].GRES) != 1 || granted.Nodes[0].GRES[0].Count != 2 {
		t.Errorf("Slurm gave %+v (%v)", granted, err)
	}
	if d := cmp.Diff([]string{"gpus:gpu-0", "gpus:gpu-1"}, w.has(t, "two")); d != "" {
		t.Error(d)
	}
	c, err := w.kube.ResourceV1().ResourceClaims(namespace).Get(t.Context(), "two", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "claim-a", UID: a.UID}}, c.Status.ReservedFor); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{resourcev1.Finalizer}, c.Finalizers); d != "" {
		t.Error(d)
	}

	// A pod that shares the claim goes to the same node, and takes no more devices.
	w.pod("claim-shares", claims("two"))
	if pod := w.bound(t, "claim-shares"); pod.Spec.NodeName != "c1" {
		t.Errorf("a pod with the same claim is bound to %s", pod.Spec.NodeName)
	}

	// What is left is asked for by the next alternative, with a device that Slurm knows nothing of.
	w.claim(t, "either", resourcev1.DeviceRequest{Name: "gpu", FirstAvailable: []resourcev1.DeviceSubRequest{
		{Name: "many", DeviceClassName: gpuClass, Count: 8}, {Name: "one", DeviceClassName: gpuClass, Count: 1},
	}}, exactly("fpga", "fpga.example.com", 1))
	w.pod("claim-b", claims("either"))
	w.bound(t, "claim-b")
	if d := cmp.Diff([]string{"gpu/one:gpu-2", "fpga:gpu-0"}, w.has(t, "either")); d != "" {
		t.Error(d)
	}

	// All are taken: the next pod waits in Slurm.
	w.claim(t, "more", exactly("gpu", gpuClass, 1))
	w.pod("claim-c", claims("more"))
	w.held(t, "claim-c", "QueuedInSlurm")
	w.kubelet(t, "claim-b", corev1.PodSucceeded)
	w.dropClaim(t, "either")
	w.bound(t, "claim-c")
	if d := cmp.Diff([]string{"gpu:gpu-2"}, w.has(t, "more")); d != "" {
		t.Error(d)
	}

	w.badClaims(t)
	for _, name := range []string{"claim-a", "claim-shares", "claim-c"} {
		w.kubelet(t, name, corev1.PodSucceeded)
	}
	w.dropClaim(t, "two")
	w.dropClaim(t, "more")
	w.gangWithClaims(t)
	w.extendedNames(t)
	w.claimModes(t)
}

// extendedNames: a device class may bear the name of an extended resource, and select among devices.
func (w *world) extendedNames(t *testing.T) {
	name := "example.com/model-b"
	_, err := w.kube.ResourceV1().DeviceClasses().Create(t.Context(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "model-b"},
		Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &name, Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "b"`}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A whole node: Slurm gives all GPUs, and the class tells which one.
	w.pod("by-name-alone", func(p *corev1.Pod) {
		r := &p.Spec.Containers[0].Resources
		r.Requests[corev1.ResourceName(name)] = resource.MustParse("1")
		r.Limits = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("1")}
	})
	b := w.bound(t, "by-name-alone")
	if d := cmp.Diff([]string{"device:gpu-2"}, given(w.claimOf(t, b))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]corev1.ContainerExtendedResourceRequest{
		{ContainerName: "main", ResourceName: name, RequestName: "device"},
	}, b.Status.ExtendedResourceClaimStatus.RequestMappings); d != "" {
		t.Error(d)
	}
	w.kubelet(t, "by-name-alone", corev1.PodSucceeded)
}

// gangWithClaims: pods of a gang on one node, with a claim of their own each by a template
// and one that they share. The test plays the controller that makes claims of templates.
func (w *world) gangWithClaims(t *testing.T) {
	w.gang(t, "claimers", 2, v1beta1.AnnotationExclusive, "false")
	w.claim(t, "common", exactly("gpu", gpuClass, 1, `device.attributes["gpu.example.com"].model == "a"`))
	template := "each"
	var pods []*corev1.Pod
	for _, name := range []string{"claimers-0", "claimers-1"} {
		pods = append(pods, w.pod(name, func(p *corev1.Pod) {
			claims("common")(p)
			member("claimers")(p)
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "own", ResourceClaimTemplateName: &template})
			p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: "own"})
		}))
	}
	if text := w.held(t, "claimers-0", "WaitingForClaims"); !strings.Contains(text, "isn't made yet from ResourceClaimTemplate each") {
		t.Errorf("the pod says %q", text)
	}
	given := map[string]bool{}
	for _, pod := range pods {
		w.madeOf(t, pod, "own", exactly("gpu", gpuClass, 1))
	}
	for _, pod := range pods {
		if b := w.bound(t, pod.Name); b.Spec.NodeName != "c1" {
			t.Errorf("%s is bound to %s", pod.Name, b.Spec.NodeName)
		}
		given[strings.Join(w.has(t, pod.Name+"-own"), ",")] = true
	}
	common := w.has(t, "common")
	if len(common) != 1 || common[0] == "gpu:gpu-2" {
		t.Errorf("the common claim has %v", common)
	}
	if given[common[0]] = true; len(given) != 3 {
		t.Errorf("three claims have %v", given)
	}
	c, err := w.kube.ResourceV1().ResourceClaims(namespace).Get(t.Context(), "common", metav1.GetOptions{})
	if err != nil || len(c.Status.ReservedFor) != 2 {
		t.Errorf("the common claim is reserved for %v (%v)", c.Status.ReservedFor, err)
	}
	for _, pod := range pods {
		w.kubelet(t, pod.Name, corev1.PodSucceeded)
		w.dropClaim(t, pod.Name+"-own")
	}
	w.dropClaim(t, "common")
}

// madeOf makes the claim of a template for a pod.
func (w *world) madeOf(t *testing.T, pod *corev1.Pod, ref string, requests ...resourcev1.DeviceRequest) {
	t.Helper()
	yes := true
	c, err := w.kube.ResourceV1().ResourceClaims(namespace).Create(t.Context(), &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name + "-" + ref, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &yes},
		}},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := fmt.Appendf(nil, `{"status":{"resourceClaimStatuses":[{"name":%q,"resourceClaimName":%q}]}}`, ref, c.Name)
	if _, err := w.kube.CoreV1().Pods(namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// badClaims are told on the pods.
func (w *world) badClaims(t *testing.T) {
	t.Helper()
	w.claim(t, "classless", exactly("x", "nobody.example.com", 1))
	w.claim(t, "absurd", exactly("x", gpuClass, 1000))
	w.claim(t, "impossible", exactly("x", gpuClass, 1, `device.attributes["gpu.example.com"].model == "z"`))
	for claim, want := range map[string][2]string{
		"nowhere":    {"WaitingForClaims", "ResourceClaim nowhere, which pod bad-nowhere names, doesn't exist in namespace default"},
		"classless":  {"WaitingForClaims", "DeviceClass nobody.example.com, which request x of ResourceClaim classless is for, doesn't exist"},
		"absurd":     {"NoUsableNode", "claim 1, request x: adding 1000 devices exceeds the claim limit of 32"},
		"impossible": {"NoUsableNode", "devices that its claims would take"},
	} {
		w.pod("bad-"+claim, claims(claim))
		if text := w.held(t, "bad-"+claim, want[0]); !strings.Contains(text, want[1]) {
			t.Errorf("a pod with claim %s says %q", claim, text)
		}
	}
	w.pod("bad-gres", func(p *corev1.Pod) {
		w.claim(t, "contradicted", exactly("x", gpuClass, 1))
		claims("contradicted")(p)
		p.Annotations[v1beta1.AnnotationGRES] = "gpu:1"
	})
	if text := w.held(t, "bad-gres", "InvalidJob"); !strings.Contains(text, "contradicts the claims of pod bad-gres") {
		t.Errorf("the pod says %q", text)
	}
	for _, name := range []string{"bad-nowhere", "bad-classless", "bad-absurd", "bad-impossible", "bad-gres"} {
		w.remove(t, name)
	}
}
