package scheduler

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
)

func testPod(node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-a"}}
	if node != "" {
		p.Annotations = map[string]string{v1beta1.AnnotationNode: node}
	}
	return p
}

// nodeInfo is a node as far as the plugin looks at one.
type nodeInfo struct {
	fwk.NodeInfo
	name string
}

func (n nodeInfo) Node() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
}

// statuses is what the filters said.
type statuses struct {
	fwk.NodeToStatusReader
	said map[string]*fwk.Status
}

func (s statuses) Get(node string) *fwk.Status { return s.said[node] }

func TestPluginWithoutAllocation(t *testing.T) {
	ctx, table := t.Context(), NewTable()
	p := New(table, nil)
	table.Hold("uid-a", "the cluster is full")
	pod := testPod("n1")
	_, preFilter := p.PreFilter(ctx, nil, pod, nil)
	_, postFilter := p.PostFilter(ctx, nil, pod, statuses{})
	for name, s := range map[string]*fwk.Status{
		"PreEnqueue": p.PreEnqueue(ctx, pod), "PreFilter": preFilter, "Filter": p.Filter(ctx, nil, pod, nodeInfo{name: "n1"}),
		"PostFilter": postFilter, "Reserve": p.Reserve(ctx, nil, pod, "n1"), "PreBind": p.PreBind(ctx, nil, pod, "n1"),
	} {
		if s.Code() != fwk.UnschedulableAndUnresolvable || s.Message() != "the cluster is full" {
			t.Errorf("%s: %v %q", name, s.Code(), s.Message())
		}
	}
}

func TestPluginWithAllocation(t *testing.T) {
	ctx, table := t.Context(), NewTable()
	p := New(table, nil)
	table.Put("uid-a", Allocation{Grant: placement.Grant{Node: "n1"}, JobID: 7})
	if s := p.PreEnqueue(ctx, testPod("")); s.IsSuccess() || !strings.Contains(s.Message(), "is being written to the pod") {
		t.Errorf("PreEnqueue before the pod is patched: %v %q", s.Code(), s.Message())
	}
	pod := testPod("n1")
	if s := p.PreEnqueue(ctx, pod); !s.IsSuccess() {
		t.Errorf("PreEnqueue: %q", s.Message())
	}
	result, s := p.PreFilter(ctx, nil, pod, nil)
	if !s.IsSuccess() || result.NodeNames.Len() != 1 || !result.NodeNames.Has("n1") {
		t.Errorf("PreFilter: %v %q", result, s.Message())
	}
	if s := p.Filter(ctx, nil, pod, nodeInfo{name: "n1"}); !s.IsSuccess() {
		t.Errorf("Filter n1: %q", s.Message())
	}
	if s := p.Filter(ctx, nil, pod, nodeInfo{name: "n2"}); s.IsSuccess() {
		t.Error("Filter passes n2")
	}
	_, s = p.PostFilter(ctx, nil, pod, statuses{said: map[string]*fwk.Status{"n1": fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu")}})
	if want := "Slurm job 7 gives node n1, which Kubernetes can't use for the pod now: Insufficient cpu"; s.Message() != want {
		t.Errorf("PostFilter: %q", s.Message())
	}
	if s := p.Reserve(ctx, nil, pod, "n2"); s.IsSuccess() {
		t.Error("Reserve passes n2")
	}
	if s := p.PreBind(ctx, nil, pod, "n1"); !s.IsSuccess() {
		t.Errorf("PreBind: %q", s.Message())
	}
	p.PostBind(ctx, nil, pod, "n1")
	if _, ok := table.Get("uid-a"); ok {
		t.Error("the table still has a pod that is bound")
	}
}

func TestPluginWakesForTheOwnPatch(t *testing.T) {
	table := NewTable()
	p := New(table, nil)
	events, err := p.EventsToRegister(t.Context())
	own := slices.IndexFunc(events, func(e fwk.ClusterEventWithHint) bool { return e.Event.Resource == fwk.TargetPod })
	if err != nil || own < 0 {
		t.Fatalf("events %v, %v", events, err)
	}
	hint := func(changed *corev1.Pod) fwk.QueueingHint {
		h, err := events[own].QueueingHintFn(klog.Background(), testPod(""), nil, changed)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if hint(testPod("n1")) != fwk.QueueSkip {
		t.Error("a pod without an allocation is queued")
	}
	table.Put("uid-a", Allocation{Grant: placement.Grant{Node: "n1"}})
	if hint(testPod("n1")) != fwk.Queue {
		t.Error("a patched pod isn't queued")
	}
	other := testPod("n1")
	other.UID = "uid-b"
	if hint(other) != fwk.QueueSkip {
		t.Error("another pod wakes this one")
	}
}

// TestPluginCannotCall keeps remote calls out of the scheduling cycle: the plugin
// has the table, which has no way out, and what writes devices, which only PreBind and
// Unreserve use. That neither imports a client is checked with the other import rules.
func TestPluginCannotCall(t *testing.T) {
	plugin := reflect.TypeFor[Plugin]()
	for i := range plugin.NumField() {
		switch plugin.Field(i).Type {
		case reflect.TypeFor[*Table](), reflect.TypeFor[Devices]():
		default:
			t.Errorf("field %s of the plugin is a %v", plugin.Field(i).Name, plugin.Field(i).Type)
		}
	}
	typ := reflect.TypeFor[Table]()
	for i := range typ.NumField() {
		switch typ.Field(i).Type {
		case reflect.TypeFor[sync.RWMutex](), reflect.TypeFor[map[types.UID]entry](), reflect.TypeFor[chan Refusal]():
		default:
			t.Errorf("field %s of the table is a %v", typ.Field(i).Name, typ.Field(i).Type)
		}
	}
}

func BenchmarkPreEnqueueHeld(b *testing.B) {
	p, pod := New(NewTable(), nil), testPod("")
	for b.Loop() {
		p.PreEnqueue(b.Context(), pod)
	}
}
