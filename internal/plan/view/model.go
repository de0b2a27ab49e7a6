package view

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// Model is both worlds joined: which pod is in which job, which job is on which node. Make
// it once for several questions, with New; it doesn't change.
type Model struct {
	Facts
	queue *explain.Queue
	// comments are of the bridge's jobs; podsOf are the pods of each that are known, in rank order.
	comments map[uint32]workload.Comment
	podsOf   map[uint32][]*corev1.Pod
	// jobOf is the living job of a pod, by its UID, and jobsOf are all jobs of it that Slurm knows.
	jobOf  map[string]*slurm.Job
	jobsOf map[*corev1.Pod][]*slurm.Job
	// jobAt is the first job with an id, or the first of an array with it; pods are by namespace/name.
	jobAt map[uint32]*slurm.Job
	pods  map[string]*corev1.Pod
	// placed are pods by the Kubernetes node that they are on.
	placed map[string][]*corev1.Pod
	// on are the jobs that hold a Slurm node.
	on          map[string][]*slurm.Job
	allocations map[uint32]map[string]slurm.NodeAllocation
	amounts     map[uint32]Amounts
}

// New joins facts, which must have gone through Clean. It keeps them.
func New(f Facts) *Model {
	m := &Model{
		Facts: f, queue: explain.NewQueue(f.Slurm.Jobs, f.Slurm.Nodes), comments: map[uint32]workload.Comment{}, podsOf: map[uint32][]*corev1.Pod{},
		jobOf: map[string]*slurm.Job{}, jobsOf: map[*corev1.Pod][]*slurm.Job{}, jobAt: map[uint32]*slurm.Job{}, pods: map[string]*corev1.Pod{}, placed: map[string][]*corev1.Pod{}, on: map[string][]*slurm.Job{},
		allocations: map[uint32]map[string]slurm.NodeAllocation{}, amounts: map[uint32]Amounts{},
	}
	byUID := map[string]*corev1.Pod{}
	for i := range f.Kubernetes.Pods {
		pod := &f.Kubernetes.Pods[i]
		byUID[string(pod.UID)], m.pods[pod.Namespace+"/"+pod.Name] = pod, pod
		if pod.Spec.NodeName != "" && !workload.Terminal(pod) {
			m.placed[pod.Spec.NodeName] = append(m.placed[pod.Spec.NodeName], pod)
		}
	}
	for i := range f.Slurm.Jobs {
		m.job(&f.Slurm.Jobs[i], byUID)
	}
	for _, a := range f.Slurm.Allocations {
		nodes := map[string]slurm.NodeAllocation{}
		for _, n := range a.Nodes {
			nodes[n.Node] = n
		}
		m.allocations[a.JobID] = nodes
	}
	return m
}

func (m *Model) job(j *slurm.Job, byUID map[string]*corev1.Pod) {
	m.called(j.ID, j)
	if id, array := j.ArrayJobID.Get(); array && j.ArrayTasks != "" {
		m.called(uint32(id), j)
	}
	if c, ok := workload.ParseComment(*j); ok {
		Clean(&c) // its own text was JSON until now
		m.comments[j.ID] = c
		for i, name := range c.Pods {
			pod := m.pods[name]
			if c.Mark != nil {
				pod = byUID[string(c.Mark.Pods[i])]
			} else if pod != nil && pod.Labels[jobLabel] != strconv.FormatUint(uint64(j.ID), 10) {
				pod = nil
			}
			if pod == nil {
				continue
			}
			m.podsOf[j.ID] = append(m.podsOf[j.ID], pod)
			if of := m.jobsOf[pod]; len(of) == 0 || of[len(of)-1] != j {
				m.jobsOf[pod] = append(of, j)
			}
			if !j.States.JobEnded() {
				m.jobOf[string(pod.UID)] = j
			}
		}
	}
	m.amounts[j.ID] = amounts(*j)
	if over(*j) || j.Nodes == "" || j.States.Has(slurm.JobPending) {
		return
	}
	names, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return
	}
	for _, name := range names {
		m.on[name] = append(m.on[name], j)
	}
}

// called lets a job be found by an id, unless another one is already.
func (m *Model) called(id uint32, j *slurm.Job) {
	if m.jobAt[id] == nil {
		m.jobAt[id] = j
	}
}

// Amounts are resources, with memory in MiB.
type Amounts struct {
	CPUs   uint64 `json:"cpus"`
	Memory uint64 `json:"memoryMiB"`
	GPUs   uint64 `json:"gpus"`
}

// Add adds b to a.
func (a *Amounts) Add(b Amounts) {
	a.CPUs += b.CPUs
	a.Memory += b.Memory
	a.GPUs += b.GPUs
}

func (a Amounts) minus(b Amounts) Amounts {
	return Amounts{CPUs: less(a.CPUs, b.CPUs), Memory: less(a.Memory, b.Memory), GPUs: less(a.GPUs, b.GPUs)}
}

func less(a, b uint64) uint64 { return a - min(a, b) }

// amounts are what a job has, or asks for while it waits.
func amounts(j slurm.Job) Amounts {
	a := Amounts{CPUs: j.CPUs.Value}
	text := j.TRESAllocated
	if text == "" {
		text = j.TRESRequested
	}
	items, err := tres.Parse(text)
	if err != nil {
		return a
	}
	var typed uint64
	for _, i := range items {
		switch {
		case i.Type == "cpu":
			a.CPUs = i.Count
		case i.Type == "mem":
			a.Memory = i.Count
		case i.Type == "gres" && i.Name == "gpu" && i.Model == "":
			a.GPUs = i.Count
		case i.Type == "gres" && i.Name == "gpu":
			typed += i.Count
		}
	}
	a.GPUs = max(a.GPUs, typed)
	return a
}

// gpus counts the GPUs of a GRES text.
func gpus(text string) uint64 {
	list, err := tres.ParseGRES(text)
	if err != nil {
		return 0
	}
	var n uint64
	for _, g := range list {
		if g.Name == "gpu" {
			n += g.Count
		}
	}
	return n
}
