package view

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Status is both worlds at a glance.
type Status struct {
	Taken      time.Time        `json:"taken"`
	Kubernetes KubernetesStatus `json:"kubernetes"`
	Slurm      SlurmStatus      `json:"slurm"`
	// Use is what of Slurm's nodes is used, and by which world. It is there if Slurm is known.
	Use *Use `json:"use,omitempty"`
	// Waiting are the lines of the queue that wait, by reason, the most frequent first.
	Waiting  []Reason       `json:"waiting,omitempty"`
	Queue    map[State]int  `json:"queue"`
	Clusters []ClusterState `json:"clusters,omitempty"`
	NodeSets []NodeSet      `json:"nodeSets,omitempty"`
	Problems []Problem      `json:"problems,omitempty"`
}

// WorldStatus tells how much is known of a world.
type WorldStatus struct {
	Known  bool      `json:"known"`
	Absent bool      `json:"absent,omitempty"`
	Error  string    `json:"error,omitempty"`
	Read   time.Time `json:"read,omitzero"`
	// Missing are the parts of it of which nothing is known, while others are.
	Missing []Part `json:"missing,omitempty"`
}

// Lacks tells whether a part is missing.
func (w WorldStatus) Lacks(what string) bool { return Source{Missing: w.Missing}.Lacks(what) }

func worldStatus(s Source, absent bool) WorldStatus {
	return WorldStatus{Known: s.Known, Absent: absent, Error: s.Error, Read: s.Read, Missing: s.Missing}
}

// KubernetesStatus sums the Kubernetes cluster up.
type KubernetesStatus struct {
	WorldStatus
	Version  string `json:"version,omitempty"`
	Nodes    int    `json:"nodes"`
	Ready    int    `json:"ready"`
	Cordoned int    `json:"cordoned"`
	// Pods are those of all schedulers, BridgePods those of the bridge that have not ended.
	Pods       int `json:"pods"`
	BridgePods int `json:"bridgePods"`
	// Hidden are sentences on what the reader may not see.
	Hidden []string `json:"hidden,omitempty"`
}

// SlurmStatus sums the Slurm cluster up.
type SlurmStatus struct {
	WorldStatus
	Cluster     string       `json:"cluster,omitempty"`
	Version     string       `json:"version,omitempty"`
	Controllers []slurm.Ping `json:"controllers,omitempty"`
	Partitions  int          `json:"partitions"`
	// Nodes counts by health, and the idle among those that are up.
	Nodes map[Health]int `json:"nodes,omitempty"`
	Idle  int            `json:"idle"`
	// JobsRunning and JobsWaiting are records of Slurm, of both worlds.
	JobsRunning int `json:"jobsRunning"`
	JobsWaiting int `json:"jobsWaiting"`
}

// Use divides Total between what uses it: the four parts add up to it.
type Use struct {
	Total Amounts `json:"total"`
	// Jobs are Slurm's own, Pods the bridge's.
	Jobs Amounts `json:"jobs"`
	Pods Amounts `json:"pods"`
	Free Amounts `json:"free"`
	// Away is what is idle on nodes that take no work.
	Away Amounts `json:"away"`
	// Asked is what waits.
	Asked Amounts `json:"asked"`
}

// Reason is why some of the queue wait.
type Reason struct {
	Word  string `json:"word"`
	Text  string `json:"text"`
	Count int    `json:"count"`
	// NeedsAction is set where it doesn't pass by itself.
	NeedsAction bool `json:"needsAction,omitempty"`
}

// ClusterState is how a cluster that the operator runs stands.
type ClusterState struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Ready     bool   `json:"ready"`
	Message   string `json:"message,omitempty"`
}

// Status sums up.
func (m *Model) Status() Status {
	s := Status{Taken: m.Taken, Queue: map[State]int{}, NodeSets: m.Kubernetes.NodeSets}
	s.Kubernetes = m.kubernetesStatus()
	nodes := m.Nodes()
	s.Slurm = m.slurmStatus(nodes)
	items := m.Queue(false)
	for _, i := range items {
		s.Queue[i.State]++
	}
	s.Waiting = reasons(items)
	if m.Slurm.Known {
		u := m.use(nodes, items)
		s.Use = &u
	}
	for _, c := range m.Kubernetes.Controllers {
		state := ClusterState{Namespace: c.Namespace, Name: c.Name}
		if r := metaCondition(c.Conditions, "Ready"); r != nil {
			state.Ready = r.Status == "True"
			state.Message = r.Message
		}
		s.Clusters = append(s.Clusters, state)
	}
	s.Problems = m.problems(nodes, items)
	return s
}

func (m *Model) kubernetesStatus() KubernetesStatus {
	k := m.Kubernetes
	s := KubernetesStatus{WorldStatus: worldStatus(k.Source, k.Absent), Version: k.Version, Nodes: len(k.Nodes), Pods: len(k.Pods), Hidden: k.Hidden}
	for i := range k.Nodes {
		if nodeReady(&k.Nodes[i]) {
			s.Ready++
		}
		if k.Nodes[i].Spec.Unschedulable {
			s.Cordoned++
		}
	}
	for i := range k.Pods {
		if k.Pods[i].Spec.SchedulerName == m.SchedulerName && !workload.Terminal(&k.Pods[i]) {
			s.BridgePods++
		}
	}
	return s
}

func nodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (m *Model) slurmStatus(nodes []Node) SlurmStatus {
	f := m.Slurm
	s := SlurmStatus{
		WorldStatus: worldStatus(f.Source, f.Absent), Controllers: f.Controllers, Partitions: len(f.Partitions), Nodes: map[Health]int{},
	}
	for _, n := range nodes {
		if n.Slurm == "" {
			continue
		}
		s.Nodes[n.Health]++
		if n.Health == HealthUp && n.Used.CPUs == 0 {
			s.Idle++
		}
	}
	for i := range f.Nodes {
		s.Version = max(s.Version, f.Nodes[i].Version)
	}
	for i := range f.Jobs {
		j := &f.Jobs[i]
		s.Cluster = cmp.Or(s.Cluster, j.Cluster)
		switch {
		case over(*j):
		case j.States.Has(slurm.JobPending):
			s.JobsWaiting += max(1, tasks(j.ArrayTasks))
		default:
			s.JobsRunning++
		}
	}
	return s
}

func (m *Model) use(nodes []Node, items []Item) Use {
	var u Use
	var used Amounts
	for _, n := range nodes {
		if n.Slurm == "" {
			continue
		}
		u.Total.Add(n.Total)
		used.Add(n.Used)
		if rest := n.Total.minus(n.Used); n.Health == HealthUp {
			u.Free.Add(rest)
		} else {
			u.Away.Add(rest)
		}
	}
	for _, i := range items {
		switch {
		case i.State == StateWaiting || i.State == StateNeedsAction && i.Nodes == "":
			u.Asked.Add(i.Amounts)
		case len(i.Pods) > 0 && i.Job != 0:
			u.Pods.Add(i.Amounts)
		}
	}
	u.Pods = Amounts{CPUs: min(u.Pods.CPUs, used.CPUs), Memory: min(u.Pods.Memory, used.Memory), GPUs: min(u.Pods.GPUs, used.GPUs)}
	u.Jobs = used.minus(u.Pods)
	return u
}

// reasons counts why lines wait.
func reasons(items []Item) []Reason {
	by := map[string]*Reason{}
	for _, i := range items {
		if i.State != StateWaiting && i.State != StateNeedsAction {
			continue
		}
		word := cmp.Or(i.Word, i.Reason)
		if by[word] == nil {
			by[word] = &Reason{Word: i.Word, Text: i.Reason, NeedsAction: i.State == StateNeedsAction}
		}
		by[word].Count += max(1, i.Jobs)
	}
	var out []Reason
	for _, word := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[word])
	}
	slices.SortStableFunc(out, func(a, b Reason) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// Age is how long ago a world was read, for people.
func Age(read, now time.Time) string {
	if read.IsZero() {
		return "never"
	}
	return explain.Span(now.Sub(read)) + " ago"
}
