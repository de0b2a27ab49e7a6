// Package scene makes clusters to look at: a full one, an empty one, a broken one and a very
// large one. They are facts of package view, for tests of the command line and the web page,
// and for the pictures in docs.
package scene

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// Now is the moment of all scenes.
var Now = time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)

const (
	scheduler      = "slurm-bridge-scheduler"
	sockets, cores = 2, 16
)

// Still is a cluster in which nothing changes: a source of facts for the web page.
type Still view.Facts

// Facts implements web.Source.
func (s Still) Facts() view.Facts { return view.Facts(s) }

// maker puts a scene together. used and gpus count what is given on each node.
type maker struct {
	view.Facts
	used, gpus map[string]int
	next       uint32
}

func newMaker() *maker {
	m := &maker{used: map[string]int{}, gpus: map[string]int{}, next: 4700}
	m.Taken, m.SchedulerName = Now, scheduler
	m.Kubernetes = view.Kubernetes{Source: view.Source{Known: true, Read: Now}, Version: "v1.37.2"}
	m.Slurm = view.Slurm{Source: view.Source{Known: true, Read: Now}, URL: "http://slurm-restapi.slurm:6820"}
	m.Slurm.Controllers = []slurm.Ping{{Hostname: "slurm-controller-0", Mode: "primary", Primary: true, Responding: true}, {Hostname: "slurm-controller-1", Mode: "backup1", Responding: true}}
	m.Kubernetes.Controllers = []view.Controller{{Namespace: "slurm", Name: "slurm", Conditions: []metav1.Condition{{Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue}}}}
	return m
}

// nodes adds Kubernetes nodes that Slurm gives to pods and, on each second one, a worker of Slurm.
func (m *maker) nodes(n, perRack int) {
	for i := range n {
		name := fmt.Sprintf("gpu-%03d", i+1)
		rack := fmt.Sprintf("topo-switch:rack-%02d", i/perRack+1)
		m.Kubernetes.Nodes = append(m.Kubernetes.Nodes, kubeNode(name))
		s := slurmNode(name, rack)
		s.States, s.GRES = slurm.StatesOf("IDLE", "EXTERNAL", "DYNAMIC_NORM"), "gpu:h100:4(S:0-1)"
		s.Partitions = []string{"slurm-bridge"}
		m.Slurm.Nodes = append(m.Slurm.Nodes, s)
		if i%2 == 1 {
			w := slurmNode(fmt.Sprintf("cpu-%d", i/2), rack)
			w.States, w.Partitions = slurm.StatesOf("IDLE", "DYNAMIC_NORM"), []string{"batch"}
			w.Comment = fmt.Sprintf(`{"namespace":"slurm","podName":"cpu-%d","node":%q,"nodeSetName":"cpu"}`, i/2, name)
			m.Slurm.Nodes = append(m.Slurm.Nodes, w)
		}
	}
	m.Slurm.Partitions = []slurm.Partition{{Name: "slurm-bridge"}, {Name: "batch", Default: true}}
	workers := int32(n / 2)
	m.Kubernetes.NodeSets = []view.NodeSet{{Namespace: "slurm", Name: "cpu", Controller: "slurm", Desired: workers, Ready: workers}}
}

func kubeNode(name string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), CreationTimestamp: metav1.Time{Time: Now.Add(-90 * 24 * time.Hour)}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("512Gi"), "nvidia.com/gpu": resource.MustParse("4")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func slurmNode(name, topology string) slurm.Node {
	return slurm.Node{
		Name: name, CPUs: sockets * cores, EffectiveCPUs: sockets * cores, Sockets: sockets, Cores: cores, Threads: 1, RealMemory: 512 << 10, Topology: topology, Version: "26.05.5",
	}
}

// job is what a scene says of a job.
type job struct {
	name, user, account, partition string
	nodes                          []string
	// cores on each node, and gpus.
	cores, gpus int
	ran, limit  time.Duration
	// pods of a namespace, one per node, make it the bridge's; group is their name.
	namespace, group string
	reason           string
	start            time.Duration
	array            string
	count            int
}

func (m *maker) add(j job) uint32 {
	m.next++
	id := m.next
	nodes := max(1, len(j.nodes), j.count)
	text := fmt.Sprintf("cpu=%d,mem=%dG,node=%d", j.cores*nodes, 4*j.cores*nodes, nodes)
	if j.gpus > 0 {
		text += fmt.Sprintf(",gres/gpu=%d", j.gpus*nodes)
	}
	s := slurm.Job{
		ID: id, Name: j.name, User: j.user, Account: j.account, Partition: j.partition, QOS: "normal", Cluster: "slurm", States: slurm.StatesOf(slurm.JobPending), Reason: j.reason,
		CPUs: slurm.NumberOf(uint64(j.cores * nodes)), NodeCount: slurm.NumberOf(uint64(nodes)), Priority: slurm.NumberOf(uint64(100000 - id)),
		SubmitTime: Now.Add(-j.ran - 7*time.Minute), TRESRequested: text, TimeLimit: slurm.NumberOf(uint64(j.limit / time.Minute)),
	}
	if j.array != "" {
		s.ArrayJobID, s.ArrayTasks = slurm.NumberOf(uint64(id)), j.array
	}
	if j.start > 0 {
		s.StartTime = Now.Add(j.start)
	}
	if len(j.nodes) > 0 {
		s.States, s.Reason, s.Nodes, s.TRESAllocated = slurm.StatesOf(slurm.JobRunning), "", hostlist.Compress(j.nodes), text
		s.StartTime, s.EndTime = Now.Add(-j.ran), Now.Add(j.limit-j.ran)
	}
	m.place(&s, j)
	m.Slurm.Jobs = append(m.Slurm.Jobs, s)
	return id
}

// place gives a job cores on its nodes, and its pods.
func (m *maker) place(s *slurm.Job, j job) {
	a := slurm.Allocation{JobID: s.ID}
	c := workload.Comment{Mark: &workload.Mark{Cluster: "here", Workload: types.UID(j.group)}}
	for i := range max(len(j.nodes), min(1, len(j.namespace)), j.count) {
		node, given := "", ""
		if i < len(j.nodes) {
			node = j.nodes[i]
			n := slurm.NodeAllocation{Node: node, Sockets: sockets, CoresPerSocket: cores}
			for k := range j.cores {
				n.Cores = append(n.Cores, (m.used[node]+k)%(sockets*cores))
			}
			m.used[node] += j.cores
			given = tres.FormatIndexes(n.Cores)
			if j.gpus > 0 {
				n.GRES = []slurm.GRESAllocation{{Name: "gpu", Type: "h100", Count: uint64(j.gpus)}}
			}
			a.Nodes = append(a.Nodes, n)
			m.charge(node, j)
		}
		if j.namespace != "" {
			pod := m.pod(j, i, s.ID, node, given)
			c.Pods, c.Mark.Pods = append(c.Pods, pod.Namespace+"/"+pod.Name), append(c.Mark.Pods, pod.UID)
		}
	}
	if j.namespace != "" {
		s.Name, s.AdminComment, s.Flags, s.User = j.group, c.Encode(), []string{slurm.FlagExternalJob}, "slurm"
	}
	if len(a.Nodes) > 0 {
		m.Slurm.Allocations = append(m.Slurm.Allocations, a)
	}
}

func (m *maker) charge(node string, j job) {
	for i := range m.Slurm.Nodes {
		n := &m.Slurm.Nodes[i]
		if n.Name != node {
			continue
		}
		n.AllocCPUs += j.cores
		n.AllocMemory += uint64(4*j.cores) << 10
		if j.gpus > 0 {
			m.gpus[node] += j.gpus
			n.GRESUsed = fmt.Sprintf("gpu:h100:%d", m.gpus[node])
		}
		word := slurm.NodeMixed
		if n.AllocCPUs >= n.CPUs {
			word = slurm.NodeAllocated
		}
		n.States = slurm.StatesOf(word, "DYNAMIC_NORM")
		if len(n.Partitions) > 0 && n.Partitions[0] == "slurm-bridge" {
			n.States = slurm.StatesOf(word, "DYNAMIC_NORM", slurm.NodeExternal)
		}
		return
	}
}

func (m *maker) pod(j job, i int, id uint32, node, given string) *corev1.Pod {
	name := fmt.Sprintf("%s-%d", j.group, i)
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: name, UID: types.UID(fmt.Sprintf("%s-%s-%d", j.namespace, name, id)),
			CreationTimestamp: metav1.Time{Time: Now.Add(-j.ran - 7*time.Minute)}, OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.group, Controller: new(true)}}},
		Spec: corev1.PodSpec{SchedulerName: scheduler, NodeName: node, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": *resource.NewQuantity(int64(j.cores), resource.DecimalSI)}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if node != "" {
		p.Status.Phase = corev1.PodRunning
		p.Labels = map[string]string{v1beta1.LabelJobID: fmt.Sprint(id)}
		p.Annotations = map[string]string{v1beta1.AnnotationCores: given}
	}
	m.Kubernetes.Pods = append(m.Kubernetes.Pods, p)
	return &m.Kubernetes.Pods[len(m.Kubernetes.Pods)-1]
}

func gpuNodes(from, to int) []string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprintf("gpu-%03d", i))
	}
	return out
}
