package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/device/devicetest"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

const (
	netClass  = "net.example.com"
	migClass  = "mig.example.com"
	bandwidth = resourcev1.QualifiedName("bandwidth")
)

// claimsOfAllKinds: what else a claim may ask for, on a machine that publishes it all.
func (w *world) claimsOfAllKinds(t *testing.T) {
	for _, class := range []string{gpuClass, "dra.cpu", netClass} {
		w.classOnce(t, class)
	}
	m := devicetest.New("k1", 8).Individual(devicetest.Even(2, 2, 2)).
		Publish(gpuClass, 1, devicetest.GPU(0, 0), devicetest.GPU(1, 1)).
		Publish(netClass, 1, card(10))
	devicetest.Divisible(m, 1)
	m.Node.Annotations[v1beta1.AnnotationDeviceParts] = "mig-1g.5gb=2,mig-2g.10gb=1"
	w.machine(t, m)
	for _, story := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"CPUs", w.claimedCPUs},
		{"CPUs of two claims", w.twiceCPUs},
		{"CPUs out of groups", w.groupedCPUs},
		{"a part of a capacity", w.claimedCapacity},
		{"devices to look at", w.adminClaim},
		{"parts of a device", w.claimedParts},
		{"a node that is given back", w.claimGivenBack},
		{"a claim of a PodGroup", w.claimOfGroup},
	} {
		t.Run(story.name, func(t *testing.T) { story.run(t); w.empty(t) })
	}
}

// onK1 makes a pod use claims on the machine.
func onK1(names ...string) func(*corev1.Pod) { return all(claims(names...), on("k1")) }

// card is a network card whose bandwidth is divided among many.
func card(gbits int64) resourcev1.Device {
	many := true
	q := *resource.NewQuantity(gbits, resource.DecimalSI)
	return resourcev1.Device{Name: "eth0", AllowMultipleAllocations: &many, Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
		bandwidth: {Value: q, RequestPolicy: &resourcev1.CapacityRequestPolicy{Default: resource.NewQuantity(1, resource.DecimalSI),
			ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: resource.NewQuantity(1, resource.DecimalSI)}}},
	}}
}

// pinned returns the CPUs that a pod has by its claims: those of its cores.
func (w *world) pinned(t *testing.T, pod *corev1.Pod, claims ...string) []string {
	t.Helper()
	var cpus []string
	for _, name := range claims {
		for _, d := range w.has(t, name) {
			_, d, _ = strings.Cut(d, ":")
			cpus = append(cpus, d)
		}
	}
	if pod.Status.ExtendedResourceClaimStatus != nil {
		for _, d := range given(w.claimOf(t, pod)) {
			_, d, _ = strings.Cut(d, ":")
			cpus = append(cpus, d)
		}
	}
	slices.Sort(cpus)
	var want []string
	cores, err := tres.ParseIndexes(pod.Annotations[v1beta1.AnnotationCores])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cores {
		// Even publishes the first threads of all cores, then the second ones.
		want = append(want, fmt.Sprintf("cpudev%03d", c), fmt.Sprintf("cpudev%03d", c+4))
	}
	slices.Sort(want)
	if d := cmp.Diff(want, cpus); d != "" {
		t.Errorf("pod %s has other CPUs by its claims than by the cores that Slurm gave: %s", pod.Name, d)
	}
	return cpus
}

// claimedCPUs: a claim for CPUs gets those of the cores that Slurm gave its pod, which are no other pod's.
func (w *world) claimedCPUs(t *testing.T) {
	var all []string
	for _, name := range []string{"cpus-a", "cpus-b"} {
		w.claim(t, name, exactly("cpus", "dra.cpu", 4))
		w.pod(name, onK1(name))
		all = append(all, w.pinned(t, w.bound(t, name), name)...)
	}
	if slices.Sort(all); len(slices.Compact(all)) != 8 {
		t.Errorf("two pods have %v", all)
	}
	w.claim(t, "cpus-c", exactly("cpus", "dra.cpu", 1))
	w.pod("cpus-c", onK1("cpus-c"))
	w.held(t, "cpus-c", "QueuedInSlurm")
	w.remove(t, "cpus-c")
	for _, name := range []string{"cpus-a", "cpus-b"} {
		w.over(t, name, name)
	}
	w.dropClaim(t, "cpus-c")
}

// twiceCPUs: one container has CPUs by a claim of its own, another by the extended resource. No CPU is in both.
func (w *world) twiceCPUs(t *testing.T) {
	w.claim(t, "own", exactly("cpus", "dra.cpu", 2))
	w.pod("twice", all(onK1("own"), func(p *corev1.Pod) {
		q := corev1.ResourceList{cpuResource: resource.MustParse("4")}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "side", Image: "none", Resources: corev1.ResourceRequirements{Requests: q, Limits: q}})
	}))
	pod := w.bound(t, "twice")
	if cpus := w.pinned(t, pod, "own"); len(cpus) != 6 {
		t.Errorf("the pod has the CPUs %v", cpus)
	}
	if j := w.job(t, pod); j.CPUs != slurm.NumberOf(6) {
		t.Errorf("the job has %v CPUs", j.CPUs)
	}
	w.over(t, "twice", "own")
}

// groupedCPUs: a claim for CPUs out of a group is told which ones: those of the cores that Slurm gave. What would choose
// them in another way is refused, what says how they are used stays.
func (w *world) groupedCPUs(t *testing.T) {
	w.machine(t, devicetest.New("k2", 8).Publish("dra.cpu", 1,
		devicetest.Group("cpudevnuma000", 4, map[string]any{"dra.cpu/socketID": 0, "dra.cpu/numaNodeID": 0, "dra.cpu/smtEnabled": true, "dra.cpu/cpuIDs": "0-1,4-5"}),
		devicetest.Group("cpudevnuma001", 4, map[string]any{"dra.cpu/socketID": 1, "dra.cpu/numaNodeID": 1, "dra.cpu/smtEnabled": true, "dra.cpu/cpuIDs": "2-3,6-7"})).
		Publish(gpuClass, 1, devicetest.GPU(0, 1)))
	for name, c := range map[string]struct{ config, refused string }{
		"group-shared": {config: `{"sharing":"pod","near":"devices"}`},
		"group-spread": {config: `{"spread":"core"}`, refused: "spreads its CPUs over each core; Slurm chooses the cores: leave cpuConfig.spread out"},
		"group-named":  {config: `{"cpuset":"0-1"}`, refused: "names its CPUs; Slurm chooses them: leave cpuConfig.cpuset out"},
	} {
		r := exactly("cpus", "dra.cpu", 1)
		r.Exactly.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{device.CapacityCPU: resource.MustParse("2")}}
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{r, exactly("gpu", gpuClass, 1)},
			Config: []resourcev1.DeviceClaimConfiguration{{Requests: []string{"cpus"}, DeviceConfiguration: resourcev1.DeviceConfiguration{
				Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: "dra.cpu", Parameters: runtime.RawExtension{
					Raw: []byte(`{"apiVersion":"v1alpha1","cpuConfig":` + c.config + `}`)}}}}},
		}}}
		if _, err := w.kube.ResourceV1().ResourceClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pod(name, all(claims(name), on("k2")))
		if c.refused != "" {
			w.says(t, name, "NoUsableNode", c.refused)
			continue
		}
		pod := w.bound(t, name)
		now, err := w.kube.ResourceV1().ResourceClaims(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// Slurm gave a core of the GPU's socket.
		want := map[string]string{"2": `{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"2,6","sharing":"pod"}}`, "3": `{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"3,7","sharing":"pod"}}`}
		config := now.Status.Allocation.Devices.Config
		if len(config) != 1 || string(config[0].Opaque.Parameters.Raw) != want[pod.Annotations[v1beta1.AnnotationCores]] {
			t.Errorf("on cores %s the configuration is %+v", pod.Annotations[v1beta1.AnnotationCores], config)
		}
		w.over(t, name, name)
	}
	for _, name := range []string{"group-spread", "group-named"} {
		w.remove(t, name)
		w.dropClaim(t, name)
	}
}

// claimGivenBack: a claim that was allocated on a node which Kubernetes then refuses is allocated anew where its pod goes.
func (w *world) claimGivenBack(t *testing.T) {
	taint := corev1.Taint{Key: "node.kubernetes.io/test", Effect: corev1.TaintEffectNoSchedule}
	w.taints(t, "k1", func(have []corev1.Taint) []corev1.Taint { return append(have, taint) })
	defer w.taints(t, "k1", func(have []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(have, func(h corev1.Taint) bool { return h.Key == taint.Key })
	})
	others := []string{"k2", "c1", "d1"}
	w.drains(t, "DRAIN", others...)
	w.claim(t, "back", exactly("gpu", gpuClass, 1))
	w.pod("back", claims("back"))
	w.eventually(t, "the claim is allocated on the node with the taint", func() error {
		if w.pool(t, "back") != "k1" {
			return errWait
		}
		return nil
	})
	w.drains(t, "UNDRAIN", others...)
	pod := w.bound(t, "back")
	if pod.Spec.NodeName == "k1" || w.pool(t, "back") != pod.Spec.NodeName {
		t.Errorf("the pod is on %s, and its claim on %s", pod.Spec.NodeName, w.pool(t, "back"))
	}
	w.over(t, "back", "back")
}

// claimOfGroup: a PodGroup has a claim by a template, which its pods share on one node. The test plays the controller that makes it.
func (w *world) claimOfGroup(t *testing.T) {
	template := "each"
	group, err := w.kube.SchedulingV1beta1().PodGroups(namespace).Create(t.Context(), &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "sharers", Annotations: map[string]string{v1beta1.AnnotationExclusive: "false"}},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}},
			ResourceClaims:   []schedulingv1beta1.PodGroupResourceClaim{{Name: "ours", ResourceClaimTemplateName: &template}},
		},
	}, metav1.CreateOptions{})
	if err != nil || len(group.Spec.ResourceClaims) != 1 {
		t.Fatalf("the PodGroup has %+v (%v)", group.Spec.ResourceClaims, err)
	}
	names := []string{"sharers-0", "sharers-1"}
	for _, name := range names {
		w.pod(name, all(member("sharers"), on("k1"), func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "ours", ResourceClaimTemplateName: &template}}
			p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "ours"}}
		}))
	}
	w.held(t, names[0], "WaitingForClaims")
	yes := true
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "sharers-ours", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "scheduling.k8s.io/v1beta1", Kind: "PodGroup", Name: group.Name, UID: group.UID, Controller: &yes},
	}}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{exactly("gpu", gpuClass, 2)}}}}
	if _, err := w.kube.ResourceV1().ResourceClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		patch := []byte(`{"status":{"resourceClaimStatuses":[{"name":"ours","resourceClaimName":"sharers-ours"}]}}`)
		if _, err := w.kube.CoreV1().Pods(namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	var jobs []uint32
	for _, name := range names {
		jobs = append(jobs, w.job(t, w.bound(t, name)).ID)
	}
	if got := w.has(t, "sharers-ours"); len(got) != 2 || jobs[0] != jobs[1] {
		t.Errorf("the claim has %v, the pods have the jobs %v", got, jobs)
	}
	for _, name := range names {
		w.kubelet(t, name, corev1.PodSucceeded)
	}
	w.jobEnds(t, jobs[0])
	w.dropClaim(t, "sharers-ours")
}

// pool returns the pool of the first device of a claim, "" where it has none.
func (w *world) pool(t *testing.T, claim string) string {
	t.Helper()
	c, err := w.kube.ResourceV1().ResourceClaims(namespace).Get(t.Context(), claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Status.Allocation == nil {
		return ""
	}
	return c.Status.Allocation.Devices.Results[0].Pool
}

// drains sets the state of those of some nodes that there are.
func (w *world) drains(t *testing.T, state string, nodes ...string) {
	t.Helper()
	for _, name := range nodes {
		err := w.slurm.UpdateNode(t.Context(), name, slurm.NodeUpdate{State: state, Reason: "for a test"})
		if err != nil && !errors.Is(err, slurm.ErrNotFound) && !errors.Is(err, slurm.ErrInvalid) {
			t.Fatal(err)
		}
	}
}

// claimedCapacity: claims divide a card of which Slurm knows nothing, and who finds too little left waits.
func (w *world) claimedCapacity(t *testing.T) {
	ask := func(gbits int64) resourcev1.DeviceRequest {
		r := exactly("net", netClass, 1)
		r.Exactly.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{bandwidth: *resource.NewQuantity(gbits, resource.DecimalSI)}}
		return r
	}
	for name, gbits := range map[string]int64{"net-a": 4, "net-b": 5} {
		w.claim(t, name, ask(gbits))
		w.pod(name, onK1(name))
		w.bound(t, name)
		c, err := w.kube.ResourceV1().ResourceClaims(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := c.Status.Allocation.Devices.Results[0]
		if q := r.ConsumedCapacity[bandwidth]; r.ShareID == nil || q.Value() != gbits {
			t.Errorf("%s has %+v", name, r)
		}
	}
	w.claim(t, "net-c", ask(2))
	w.pod("net-c", onK1("net-c"))
	if text := w.held(t, "net-c", "DevicesNotAllocated"); !strings.Contains(text, "can't be allocated from what Slurm gave of node k1") {
		t.Errorf("the pod says %q", text)
	}
	w.over(t, "net-a", "net-a")
	w.bound(t, "net-c")
	// More than there is anywhere is never asked for.
	w.claim(t, "net-d", ask(11))
	w.pod("net-d", onK1("net-d"))
	if text := w.held(t, "net-d", "NoUsableNode"); !strings.Contains(text, "devices that its claims would take") {
		t.Errorf("the pod says %q", text)
	}
	w.remove(t, "net-d")
	for _, name := range []string{"net-b", "net-c"} {
		w.over(t, name, name)
	}
	w.dropClaim(t, "net-d")
}

// adminClaim: a claim with admin access has all devices beside those that use them, and takes nothing of Slurm's.
func (w *world) adminClaim(t *testing.T) {
	w.claim(t, "uses", exactly("gpu", gpuClass, 2))
	w.pod("uses", onK1("uses"))
	w.bound(t, "uses")
	w.labelNamespace(t, `{"resource.kubernetes.io/admin-access":"true"}`)
	defer w.labelNamespace(t, `{"resource.kubernetes.io/admin-access":null}`)
	yes := true
	r := exactly("watch", gpuClass, 0)
	r.Exactly.AllocationMode, r.Exactly.AdminAccess = resourcev1.DeviceAllocationModeAll, &yes
	w.claim(t, "looks", r)
	w.pod("looks", onK1("looks"))
	pod := w.bound(t, "looks")
	got := w.has(t, "looks")
	slices.Sort(got)
	if d := cmp.Diff([]string{"watch:gpu-0", "watch:gpu-1"}, got); d != "" {
		t.Error(d)
	}
	if j := w.job(t, pod); strings.Contains(j.TRESAllocated, "gres") {
		t.Errorf("the job has %s", j.TRESAllocated)
	}
	w.over(t, "looks", "looks")
	w.over(t, "uses", "uses")
}

func (w *world) labelNamespace(t *testing.T, labels string) {
	t.Helper()
	patch := []byte(`{"metadata":{"labels":` + labels + `}}`)
	if _, err := w.kube.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// claimedParts: a driver publishes all parts of a device, and Slurm counts those that there are.
func (w *world) claimedParts(t *testing.T) {
	_, err := w.kube.ResourceV1().DeviceClasses().Create(t.Context(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: migClass},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf(`device.driver == %q && device.attributes[%q].type == "mig"`, device.DriverNVIDIA, device.DriverNVIDIA)}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	profile := func(p string) string {
		return fmt.Sprintf(`device.attributes[%q].profile == %q`, device.DriverNVIDIA, p)
	}
	n, err := w.slurm.Node(t.Context(), "k1")
	if err != nil || !strings.Contains(n.GRES, "gpu:mig-1g.5gb:2") || !strings.Contains(n.GRES, "gpu:mig-2g.10gb:1") {
		t.Errorf("Slurm has k1 with %q (%v)", n.GRES, err)
	}
	w.claim(t, "small-a", exactly("part", migClass, 1, profile("1g.5gb")))
	w.claim(t, "small-b", exactly("part", migClass, 1, profile("1g.5gb")))
	w.claim(t, "large", exactly("part", migClass, 1, profile("2g.10gb")))
	w.claim(t, "small-c", exactly("part", migClass, 1, profile("1g.5gb")))
	parts := map[string]bool{}
	for _, name := range []string{"small-a", "small-b", "large"} {
		w.pod(name, onK1(name))
		w.bound(t, name)
		parts[strings.Join(w.has(t, name), ",")] = true
	}
	if len(parts) != 3 {
		t.Errorf("three claims have %v", parts)
	}
	// A fourth would overlap with what the others have.
	w.pod("small-c", onK1("small-c"))
	w.held(t, "small-c", "QueuedInSlurm")
	w.over(t, "small-b", "small-b")
	w.bound(t, "small-c")
	for _, name := range []string{"small-a", "large", "small-c"} {
		w.over(t, name, name)
	}
}
