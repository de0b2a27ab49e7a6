package mirror

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/slurm"
)

const markText = `{"slinky.slurm.net/v1":{"cluster":"c1","features":["p"],"shape":"1x3x1"}}`

var ourTaint = corev1.Taint{Key: "slinky.slurm.net/managed-node", Value: "us", Effect: corev1.TaintEffectNoExecute}

var testPolicy = Policy{Cluster: "c1", SchedulerName: "us", TaintEffect: corev1.TaintEffectNoExecute, Shared: SharedInPartition, Partition: "p"}

func kube(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "k1", Labels: map[string]string{"scheduler.slinky.slurm.net/external-node": ""},
			Annotations: map[string]string{"scheduler.slinky.slurm.net/external-node-partitions": " p ,,p"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{ourTaint}},
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
		Name: "k1", Address: "10.0.0.1", CPUs: 3, EffectiveCPUs: 3, Sockets: 1, Cores: 3, Threads: 1, RealMemory: 8000, Features: []string{"p"}, Partitions: []string{"p"},
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
	slurmd := func(n *slurm.Node) { n.States = slurm.StatesOf(slurm.NodeIdle) }
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
	away := Plan{Condition: &corev1.NodeCondition{
		Type: "slinky.slurm.net/SlurmUnavailable", Status: corev1.ConditionTrue, Reason: "DrainedInSlurm", Message: "the node is drained in Slurm: disk"}}
	told := func(n *corev1.Node) { n.Status.Conditions = append(n.Status.Conditions, *away.Condition) }
	for name, c := range map[string]struct {
		kube  *corev1.Node
		slurm *slurm.Node
		want  Plan
	}{
		"new":                        {kube(untainted), nil, Plan{Create: create, Taints: []corev1.Taint{ourTaint}, SetTaints: true}},
		"new, not ready":             {kube(untainted, notReady), nil, Plan{}},
		"new, without an address":    {kube(untainted, func(n *corev1.Node) { n.Status.Addresses = nil }), nil, Plan{Notes: []string{"the node has no InternalIP, without which Slurm would look its name up at each job start"}}},
		"as it should be":            {kube(), inSlurm(), Plan{}},
		"busy, as it should be":      {kube(), inSlurm(states(slurm.NodeAllocated)), Plan{}},
		"not ours":                   {kube(unlabelled, untainted), nil, Plan{}},
		"cordoned":                   {kube(cordoned), inSlurm(), drain("it is cordoned in Kubernetes")},
		"cordoned and drained":       {kube(cordoned), inSlurm(states(slurm.NodeIdle, slurm.NodeDrain), reason("slurm-bridge: it is cordoned in Kubernetes")), Plan{}},
		"cordoned, drained by admin": {kube(cordoned), inSlurm(states(slurm.NodeIdle, slurm.NodeDrain), reason("disk")), away},
		"uncordoned":                 {kube(), inSlurm(states(slurm.NodeIdle, slurm.NodeDrain), reason("slurm-bridge: it is cordoned in Kubernetes")), Plan{Update: &slurm.NodeUpdate{State: "UNDRAIN"}}},
		"drained by admin":           {kube(), inSlurm(states(slurm.NodeIdle, slurm.NodeDrain), reason("disk")), away},
		"drained by admin, known":    {kube(told), inSlurm(states(slurm.NodeIdle, slurm.NodeDrain), reason("disk")), Plan{}},
		"resumed by admin": {kube(told), inSlurm(), Plan{Condition: &corev1.NodeCondition{
			Type: "slinky.slurm.net/SlurmUnavailable", Status: corev1.ConditionFalse, Reason: "InService", Message: "Slurm gives the node jobs"}}},
		"kubelet gone": {kube(notReady), inSlurm(states(slurm.NodeMixed)), drain("its kubelet is not ready")},
		"shape changed": {kube(cpus("8")), inSlurm(), anew("its CPUs changed from 3 to 8", with(create, func(c *slurm.NodeCreate) {
			c.CPUs, c.CoresPerSocket = 8, 8
			c.Extra = strings.Replace(markText, "1x3x1", "1x8x1", 1)
		}))},
		"shape changed, drained by admin": {kube(cpus("8")), inSlurm(states(slurm.NodeIdle, slurm.NodeDrain), reason("disk")), Plan{Condition: &corev1.NodeCondition{
			Type: "slinky.slurm.net/SlurmUnavailable", Status: corev1.ConditionTrue, Reason: "DrainedInSlurm", Message: "the node is drained in Slurm: disk"}}},
		"shape changed, busy":  {kube(cpus("8")), inSlurm(states(slurm.NodeMixed)), drain("its CPUs changed from 3 to 8; it is registered anew once no job runs on it")},
		"memory a little more": {kube(), inSlurm(func(n *slurm.Node) { n.RealMemory = 7900 }), Plan{}},
		"memory less":          {kube(), inSlurm(func(n *slurm.Node) { n.RealMemory = 8001 }), anew("its memory changed from 8001 to 8000 MiB", create)},
		"not responding":       {kube(), inSlurm(states(slurm.NodeIdle, slurm.NodeNotResponding)), anew("Slurm takes it for not responding, from which an external node doesn't recover", create)},
		"partition changed": {kube(partitions("q")), inSlurm(), anew("its partitions changed", with(create, func(c *slurm.NodeCreate) {
			c.Features = []string{"q"}
			c.Extra = strings.Replace(markText, `["p"]`, `["q"]`, 1)
		}))},
		"partition changed, busy":    {kube(partitions("q")), inSlurm(states(slurm.NodeMixed)), Plan{Update: &slurm.NodeUpdate{Features: []string{"q"}, State: "DRAIN", Reason: "slurm-bridge: its partitions changed; it is registered anew once no job runs on it"}}},
		"partition that Slurm lacks": {kube(), inSlurm(func(n *slurm.Node) { n.Partitions = nil }), Plan{Notes: []string{"Slurm has the node, but not in partition p: slurm.conf needs NodeSet=p Feature=p and PartitionName=p Nodes=p"}}},
		"address changed":            {kube(), inSlurm(func(n *slurm.Node) { n.Address = "k1" }), Plan{Update: &slurm.NodeUpdate{Address: "10.0.0.1"}}},
		"made by the published one":  {kube(), inSlurm(func(n *slurm.Node) { n.Extra = "" }), Plan{Update: &slurm.NodeUpdate{Extra: &create.Extra}}},
		"label removed":              {kube(unlabelled), inSlurm(), Plan{Delete: true, SetTaints: true}},
		"label removed, busy":        {kube(unlabelled), inSlurm(states(slurm.NodeMixed)), drain("it is no longer an external node; it is removed once no job runs on it")},
		"node deleted":               {nil, inSlurm(), Plan{Delete: true}},
		"of another cluster":         {nil, inSlurm(func(n *slurm.Node) { n.Extra = `{"slinky.slurm.net/v1":{"cluster":"c2","node":"k1"}}` }), Plan{}},
		"external, nobody's":         {nil, inSlurm(func(n *slurm.Node) { n.Extra = "" }), Plan{}},
		"a slurmd's":                 {kube(), inSlurm(slurmd), Plan{}},
		// A worker of DaemonSet mode bears the name of a node that nobody gave to the bridge.
		"a slurmd's, not for pods": {kube(unlabelled, untainted), inSlurm(slurmd, func(n *slurm.Node) { n.Partitions = []string{"cpu"} }), Plan{}},
		"the same, tainted before": {kube(unlabelled), inSlurm(slurmd, func(n *slurm.Node) { n.Partitions = []string{"cpu"} }), Plan{SetTaints: true}},
		"the same, drained before": {kube(unlabelled, untainted, cordoned), inSlurm(slurmd, states(slurm.NodeIdle, slurm.NodeDrain), func(n *slurm.Node) {
			n.States, n.Partitions, n.Reason = slurm.StatesOf(slurm.NodeIdle, slurm.NodeDrain), nil, "slurm-bridge: it is cordoned in Kubernetes"
		}), Plan{Update: &slurm.NodeUpdate{State: "UNDRAIN"}}},
		"a slurmd's, in the bridge's partition": {kube(unlabelled, untainted), inSlurm(slurmd), Plan{Taints: []corev1.Taint{ourTaint}, SetTaints: true}},
		"another bridge's taint":                {kube(func(n *corev1.Node) { n.Spec.Taints[0].Value = "them" }), inSlurm(), Plan{Taints: []corev1.Taint{{Key: ourTaint.Key, Value: "them", Effect: ourTaint.Effect}, ourTaint}, SetTaints: true}},
		"another effect before":                 {kube(func(n *corev1.Node) { n.Spec.Taints[0].Effect = corev1.TaintEffectNoSchedule }), inSlurm(), Plan{Taints: []corev1.Taint{ourTaint}, SetTaints: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Make(Facts{Kube: c.kube, Slurm: c.slurm, Policy: testPolicy})
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func anew(why string, c *slurm.NodeCreate) Plan { return Plan{Delete: true, Create: c, Anew: why} }

func with(c *slurm.NodeCreate, change func(*slurm.NodeCreate)) *slurm.NodeCreate {
	out := *c
	change(&out)
	return &out
}

func TestNoTaint(t *testing.T) {
	got := Make(Facts{Kube: kube(), Slurm: inSlurm(), Policy: Policy{Cluster: "c1", SchedulerName: "us"}})
	if d := cmp.Diff(Plan{SetTaints: true}, got); d != "" {
		t.Error(d)
	}
}
