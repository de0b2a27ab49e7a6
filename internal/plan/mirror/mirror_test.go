package mirror

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/slurm"
)

const markText = `{"slinky.slurm.net/v1":{"cluster":"c1","node":"k1","features":["p"]}}`

var managed = corev1.Taint{Key: "slinky.slurm.net/managed-node", Value: "us", Effect: corev1.TaintEffectNoExecute}

func kube(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "k1", Labels: map[string]string{"scheduler.slinky.slurm.net/external-node": ""},
			Annotations: map[string]string{"scheduler.slinky.slurm.net/external-node-partitions": " p ,,p"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{managed}},
		Status: corev1.NodeStatus{
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "k1"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("3900m"), "memory": resource.MustParse("8000Mi")},
		},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func inSlurm(change ...func(*slurm.Node)) *slurm.Node {
	n := &slurm.Node{
		Name: "k1", Address: "10.0.0.1", CPUs: 3, RealMemory: 8000, Features: []string{"p"}, Partitions: []string{"p"},
		States: slurm.StatesOf(slurm.NodeIdle, slurm.NodeExternal, slurm.NodeDynamicNorm), Extra: markText,
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func TestMake(t *testing.T) {
	create := &slurm.NodeCreate{
		Name: "k1", Address: "10.0.0.1", CPUs: 3, Sockets: 1, CoresPerSocket: 3, ThreadsPerCore: 1, RealMemory: 8000,
		Features: []string{"p"}, Extra: markText, External: true,
	}
	states := func(words ...string) func(*slurm.Node) {
		return func(n *slurm.Node) { n.States = slurm.StatesOf(append(words, slurm.NodeExternal)...) }
	}
	reason := func(r string) func(*slurm.Node) { return func(n *slurm.Node) { n.Reason = r } }
	unlabelled := func(n *corev1.Node) { n.Labels = nil }
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	notReady := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	untainted := func(n *corev1.Node) { n.Spec.Taints = nil }
	partitions := func(s string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations["scheduler.slinky.slurm.net/external-node-partitions"] = s }
	}
	cpus := func(s string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse(s) }
	}
	drain := func(why string) Plan {
		return Plan{Update: &slurm.NodeUpdate{State: "DRAIN", Reason: "slurm-bridge: " + why}}
	}
	for name, c := range map[string]struct {
		kube  *corev1.Node
		slurm *slurm.Node
		want  Plan
	}{
		"new":                        {kube(untainted), nil, Plan{Create: create, Taints: []corev1.Taint{managed}, SetTaints: true}},
		"new, not ready":             {kube(untainted, notReady), nil, Plan{}},
		"new, without an address":    {kube(untainted, func(n *corev1.Node) { n.Status.Addresses = nil }), nil, Plan{Notes: []string{"the node has no InternalIP, without which Slurm would look its name up at each job start"}}},
		"as it should be":            {kube(), inSlurm(), Plan{}},
		"busy, as it should be":      {kube(), inSlurm(states(slurm.NodeAllocated)), Plan{}},
		"not ours":                   {kube(unlabelled, untainted), nil, Plan{}},
		"cordoned":                   {kube(cordoned), inSlurm(), drain("it is cordoned in Kubernetes")},
		"cordoned and drained":       {kube(cordoned), inSlurm(states(slurm.NodeIdle, slurm.NodeDrain), reason("slurm-bridge: it is cordoned in Kubernetes")), Plan{}},
		"cordoned, drained by admin": {kube(cordoned), inSlurm(states(slurm.NodeIdle, slurm.NodeDrain), reason("disk")), Plan{}},
		"uncordoned":                 {kube(), inSlurm(states(slurm.NodeIdle, slurm.NodeDrain), reason("slurm-bridge: it is cordoned in Kubernetes")), Plan{Update: &slurm.NodeUpdate{State: "UNDRAIN"}}},
		"drained by admin":           {kube(), inSlurm(states(slurm.NodeIdle, slurm.NodeDrain), reason("disk")), Plan{}},
		"kubelet gone":               {kube(notReady), inSlurm(states(slurm.NodeMixed)), drain("its kubelet is not ready")},
		"shape changed":              {kube(cpus("8")), inSlurm(), Plan{Delete: true, Create: with(create, func(c *slurm.NodeCreate) { c.CPUs, c.CoresPerSocket = 8, 8 })}},
		"shape changed, busy":        {kube(cpus("8")), inSlurm(states(slurm.NodeMixed)), drain("its CPUs changed from 3 to 8; it is registered anew once no job runs on it")},
		"memory a little more":       {kube(), inSlurm(func(n *slurm.Node) { n.RealMemory = 7900 }), Plan{}},
		"memory less":                {kube(), inSlurm(func(n *slurm.Node) { n.RealMemory = 8001 }), Plan{Delete: true, Create: create}},
		"not responding":             {kube(), inSlurm(states(slurm.NodeIdle, slurm.NodeNotResponding)), Plan{Delete: true, Create: create}},
		"partition changed": {kube(partitions("q")), inSlurm(), Plan{Delete: true, Create: with(create, func(c *slurm.NodeCreate) {
			c.Features = []string{"q"}
			c.Extra = `{"slinky.slurm.net/v1":{"cluster":"c1","node":"k1","features":["q"]}}`
		})}},
		"partition changed, busy":    {kube(partitions("q")), inSlurm(states(slurm.NodeMixed)), Plan{Update: &slurm.NodeUpdate{Features: []string{"q"}, State: "DRAIN", Reason: "slurm-bridge: its partitions changed; it is registered anew once no job runs on it"}}},
		"partition that Slurm lacks": {kube(), inSlurm(func(n *slurm.Node) { n.Partitions = nil }), Plan{Notes: []string{"Slurm has the node, but not in partition p: slurm.conf needs NodeSet=p Feature=p and PartitionName=p Nodes=p"}}},
		"address changed":            {kube(), inSlurm(func(n *slurm.Node) { n.Address = "k1" }), Plan{Update: &slurm.NodeUpdate{Address: "10.0.0.1"}}},
		"made by the published one":  {kube(), inSlurm(func(n *slurm.Node) { n.Extra = "" }), Plan{Update: &slurm.NodeUpdate{Extra: &create.Extra}}},
		"label removed":              {kube(unlabelled), inSlurm(), Plan{Delete: true, SetTaints: true}},
		"label removed, busy":        {kube(unlabelled), inSlurm(states(slurm.NodeMixed)), drain("it is no longer an external node; it is removed once no job runs on it")},
		"node deleted":               {nil, inSlurm(), Plan{Delete: true}},
		"of another cluster":         {nil, inSlurm(func(n *slurm.Node) { n.Extra = `{"slinky.slurm.net/v1":{"cluster":"c2","node":"k1"}}` }), Plan{}},
		"external, nobody's":         {nil, inSlurm(func(n *slurm.Node) { n.Extra = "" }), Plan{}},
		"a slurmd's":                 {kube(), inSlurm(func(n *slurm.Node) { n.States = slurm.StatesOf(slurm.NodeIdle) }), Plan{}},
		"another bridge's taint":     {kube(func(n *corev1.Node) { n.Spec.Taints[0].Value = "them" }), inSlurm(), Plan{Taints: []corev1.Taint{{Key: managed.Key, Value: "them", Effect: managed.Effect}, managed}, SetTaints: true}},
		"another effect before":      {kube(func(n *corev1.Node) { n.Spec.Taints[0].Effect = corev1.TaintEffectNoSchedule }), inSlurm(), Plan{Taints: []corev1.Taint{managed}, SetTaints: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Make(Facts{Kube: c.kube, Slurm: c.slurm, Cluster: "c1", SchedulerName: "us", TaintEffect: corev1.TaintEffectNoExecute})
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func with(c *slurm.NodeCreate, change func(*slurm.NodeCreate)) *slurm.NodeCreate {
	out := *c
	change(&out)
	return &out
}

func TestNoTaint(t *testing.T) {
	got := Make(Facts{Kube: kube(), Slurm: inSlurm(), Cluster: "c1", SchedulerName: "us"})
	if d := cmp.Diff(Plan{SetTaints: true}, got); d != "" {
		t.Error(d)
	}
}
