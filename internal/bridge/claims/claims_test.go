package claims

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/device/devicetest"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/slurm"
)

// view is Slurm's nodes.
type view map[string]slurm.Node

func (v view) Node(name string) (slurm.Node, bool) {
	n, ok := v[name]
	return n, ok
}

func testPod() *corev1.Pod {
	asks := corev1.ResourceList{corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "gpu.nvidia.com"): resource.MustParse("1")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid-p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: asks}}}},
	}
}

var grant = placement.Grant{Node: "gpus", SlurmNode: "gpus", Cores: []int{0}, GRES: []slurm.GRESAllocation{{Name: "gpu", Type: "gpu.nvidia.com", Count: 1, Indexes: []int{1}}}}

func newWriter(t *testing.T, v view, objects ...runtime.Object) (*Writer, *fake.Clientset) {
	t.Helper()
	m := devicetest.Machines()["gpus"]
	objects = append(objects, m.Node, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.nvidia.com"}})
	for _, s := range m.Slices {
		objects = append(objects, s)
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	w, err := New(factory, Config{Client: client, Drivers: device.Known(), View: v})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	for kind, ok := range factory.WaitForCacheSync(t.Context().Done()) {
		if !ok {
			t.Fatalf("no informer of %v", kind)
		}
	}
	return w, client
}

// writes counts the calls that change something.
func writes(c *fake.Clientset) (n int) {
	for _, a := range c.Actions() {
		if v := a.GetVerb(); v != "get" && v != "list" && v != "watch" {
			n++
		}
	}
	return n
}

// What was written before a crash is found and completed; what is right isn't written again.
func TestWriteIsRepeatable(t *testing.T) {
	pod := testPod()
	w, client := newWriter(t, nil, pod)
	if err := w.Write(t.Context(), pod, grant); err != nil {
		t.Fatal(err)
	}
	claim, err := client.ResourceV1().ResourceClaims("ns").Get(t.Context(), nameOf(pod), metav1.GetOptions{})
	if err != nil || claim.Status.Allocation == nil || claim.Status.Allocation.Devices.Results[0].Device != "gpu-2" {
		t.Fatalf("claim %+v (%v)", claim, err)
	}
	now, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || now.Status.ExtendedResourceClaimStatus == nil {
		t.Fatalf("the pod doesn't know its claim: %v", err)
	}
	before := writes(client)
	if err := w.Write(t.Context(), now, grant); err != nil {
		t.Fatal(err)
	}
	if n := writes(client) - before; n != 1 { // to create what exists is how it is found
		t.Errorf("a repeated write made %d calls", n)
	}
	// Another job gives another device: a claim's requests can't change, so it is made anew.
	other := grant
	other.GRES = []slurm.GRESAllocation{{Name: "gpu", Type: "gpu.nvidia.com", Count: 1, Indexes: []int{5}}}
	if err := w.Write(t.Context(), now, other); err != nil {
		t.Fatal(err)
	}
	claim, err = client.ResourceV1().ResourceClaims("ns").Get(t.Context(), nameOf(pod), metav1.GetOptions{})
	if err != nil || claim.Status.Allocation.Devices.Results[0].Device != "gpu-7" {
		t.Errorf("claim %+v (%v)", claim, err)
	}
}

// Nothing is left of a claim that couldn't be completed.
func TestWriteRollsBack(t *testing.T) {
	for _, failing := range []struct{ verb, resource, subresource string }{
		{"update", "resourceclaims", "status"}, {"patch", "pods", "status"},
	} {
		pod := testPod()
		w, client := newWriter(t, nil, pod)
		client.PrependReactor(failing.verb, failing.resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
			return a.GetSubresource() == failing.subresource, nil, errors.New("no space left")
		})
		if err := w.Write(t.Context(), pod, grant); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%v: error %v", failing, err)
		}
		if _, err := client.ResourceV1().ResourceClaims("ns").Get(t.Context(), nameOf(pod), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%v: the claim is left (%v)", failing, err)
		}
	}
}

func TestRelease(t *testing.T) {
	for name, c := range map[string]struct {
		node string
		gone bool
	}{"not bound": {"", true}, "bound after all": {"gpus", false}} {
		pod := testPod()
		w, client := newWriter(t, nil, pod)
		if err := w.Write(t.Context(), pod, grant); err != nil {
			t.Fatal(err)
		}
		now := pod.DeepCopy()
		now.Spec.NodeName = c.node
		if _, err := client.CoreV1().Pods("ns").Update(t.Context(), now, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := w.Release(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		_, err := client.ResourceV1().ResourceClaims("ns").Get(t.Context(), nameOf(pod), metav1.GetOptions{})
		if apierrors.IsNotFound(err) != c.gone {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func held(device, owner string) *resourcev1.ResourceClaim {
	yes := true
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other", UID: "uid-c"}}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "r", Driver: "gpu.nvidia.com", Pool: "gpus", Device: device},
	}}}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "q"}}
	if owner != "" {
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: owner, UID: "uid-q", Controller: &yes}}
	}
	return c
}

func TestConflicts(t *testing.T) {
	pod := testPod()
	ended := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q", UID: "uid-q"}, Status: corev1.PodStatus{Phase: corev1.PodFailed}}
	runs := ended.DeepCopy()
	runs.Status.Phase = corev1.PodRunning
	for name, c := range map[string]struct {
		objects []runtime.Object
		want    string
		left    bool
	}{
		"another device":        {[]runtime.Object{held("gpu-3", "")}, "", true},
		"somebody else's":       {[]runtime.Object{held("gpu-2", "")}, "device gpu-2 is held by ResourceClaim ns/other of pods q", true},
		"of a pod that runs":    {[]runtime.Object{held("gpu-2", "q"), runs}, "device gpu-2 is held by ResourceClaim ns/other of pods q", true},
		"of a pod that ended":   {[]runtime.Object{held("gpu-2", "q"), ended}, "is held by", false},
		"of a pod that is gone": {[]runtime.Object{held("gpu-2", "q")}, "is held by", false},
	} {
		w, client := newWriter(t, nil, append(c.objects, pod)...)
		err := w.Write(t.Context(), pod, grant)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrWait) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := client.ResourceV1().ResourceClaims("ns").Get(t.Context(), "other", metav1.GetOptions{}); apierrors.IsNotFound(err) == c.left {
			t.Errorf("%s: the other claim: %v", name, err)
		}
	}
}

func TestStale(t *testing.T) {
	m := devicetest.Machines()["gpus"]
	now := device.Of(m.Node, m.Slices, device.Known()).Fingerprint()
	extra := func(devices, drivers string) view {
		return view{"gpus": {Extra: `{"slinky.slurm.net/v1":{"cluster":"c","node":"gpus","devices":"` + devices + `","drivers":[` + drivers + `]}}`}}
	}
	for name, c := range map[string]struct {
		view  view
		stale bool
		write bool
	}{
		"as registered":           {extra(now, `"dra.cpu"`), false, true},
		"by the published bridge": {view{"gpus": {}}, false, true},
		"changed since":           {extra("0123", `"dra.cpu"`), true, false},
		"a driver is away":        {extra("0123", `"dra.net"`), false, false},
	} {
		pod := testPod()
		w, _ := newWriter(t, c.view, pod)
		if why := w.Stale(pod, grant); (why != "") != c.stale {
			t.Errorf("%s: stale: %q", name, why)
		}
		if err := w.Write(t.Context(), pod, grant); (err == nil) != c.write || err != nil && !errors.Is(err, ErrWait) {
			t.Errorf("%s: write: %v", name, err)
		}
	}
}
