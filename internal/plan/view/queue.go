package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

const jobLabel = v1beta1.LabelJobID

// Kind is what a line of the queue is.
type Kind string

// Kinds of lines.
const (
	KindPod   Kind = "pod"
	KindGroup Kind = "group"
	KindJob   Kind = "job"
	KindArray Kind = "array"
)

// State is in one word how a line of the queue stands, the worst of what is folded in it.
type State string

// States of lines, in the order in which the queue shows them.
const (
	// StateNeedsAction: it waits for what doesn't come by itself.
	StateNeedsAction State = "NeedsAction"
	// StateEnding: it has ended or has to, and its nodes aren't free yet.
	StateEnding State = "Ending"
	// StateRunning: it has its nodes.
	StateRunning State = "Running"
	// StateStarting: it has its nodes in Slurm, and not all of its pods run yet.
	StateStarting State = "Starting"
	// StateWaiting: its turn will come.
	StateWaiting State = "Waiting"
	// StateEnded: it is over. Slurm forgets it after some minutes.
	StateEnded State = "Ended"
)

var order = map[State]int{StateNeedsAction: 0, StateEnding: 1, StateRunning: 2, StateStarting: 3, StateWaiting: 4, StateEnded: 5}

// Item is a line of the queue: a pod, a group of pods, a Slurm job, or a job array.
type Item struct {
	Kind Kind `json:"kind"`
	// Name is "namespace/name" of pods, and Slurm's name of a job.
	Name string `json:"name"`
	// Job is 0 where Slurm has none yet.
	Job uint32 `json:"job,omitempty"`
	// Jobs is how many are folded into the line.
	Jobs int `json:"jobs,omitempty"`
	// Pods are "namespace/name" in rank order, and PodsRunning how many of them run.
	Pods        []string `json:"pods,omitempty"`
	PodsRunning int      `json:"podsRunning,omitempty"`
	// PodsUnknown is how many of them can't be seen, so that more may run.
	PodsUnknown int    `json:"podsUnknown,omitempty"`
	User        string `json:"user,omitempty"`
	Account     string `json:"account,omitempty"`
	QOS         string `json:"qos,omitempty"`
	Partition   string `json:"partition,omitempty"`

	State State `json:"state"`
	// Reason is why it stands so, in plain words; Word is Slurm's own, or that of the pod's condition.
	Reason string `json:"reason,omitempty"`
	Word   string `json:"word,omitempty"`
	Amounts
	// Nodes are those that it has, as a host list, and NodeCount how many it has or asks for.
	Nodes     string    `json:"nodes,omitempty"`
	NodeCount uint64    `json:"nodeCount,omitempty"`
	Submitted time.Time `json:"submitted,omitzero"`
	// Start is when it started, or is expected to; End when it ends at the latest, or ended.
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
	// Place is its turn among the Of that wait in its partition, from 1.
	Place int `json:"place,omitempty"`
	Of    int `json:"of,omitempty"`

	priority uint64
}

// Queue returns one list of what both worlds wait for and run: what needs somebody first,
// then what runs, then what waits, in the order in which Slurm looks at it. Members of a
// group and tasks of an array are one line. ended also brings what is over.
func (m *Model) Queue(ended bool) []Item {
	folded := map[string]int{}
	var items []Item
	for i := range m.Slurm.Jobs {
		j := &m.Slurm.Jobs[i]
		if workload.RefusedAtOnce(*j) || !ended && over(*j) {
			continue
		}
		item := m.jobItem(j)
		key := foldKey(*j, item.State)
		if at, ok := folded[key]; ok {
			items[at].fold(item)
			continue
		}
		if key != "" {
			folded[key] = len(items)
		}
		items = append(items, item)
	}
	items = append(items, m.uncovered(ended)...)
	slices.SortStableFunc(items, byTurn)
	return items
}

func over(j slurm.Job) bool { return j.States.JobEnded() && !j.States.Has(slurm.JobCompleting) }

// foldKey is the same for jobs that are one line, "" for a job that is one by itself.
func foldKey(j slurm.Job, s State) string {
	if id, ok := j.ArrayJobID.Get(); ok && id > 0 {
		return fmt.Sprintf("array %d %s", id, s)
	}
	if id, ok := j.HetJobID.Get(); ok && id > 0 {
		return fmt.Sprintf("het %d %s", id, s)
	}
	return ""
}

func (i *Item) fold(other Item) {
	i.Jobs += other.Jobs
	i.Pods = append(i.Pods, other.Pods...)
	i.PodsRunning += other.PodsRunning
	i.PodsUnknown += other.PodsUnknown
	i.Add(other.Amounts)
	i.NodeCount += other.NodeCount
	i.Nodes = union(i.Nodes, other.Nodes)
	i.Job = min(i.Job, other.Job)
	if len(i.Pods) > 1 {
		i.Kind = KindGroup
	}
}

// union is a list with the nodes of two, each once.
func union(a, b string) string {
	if a == "" || b == "" || a == b {
		return cmp.Or(a, b)
	}
	names, err := hostlist.Expand(a + "," + b)
	if err != nil {
		return a + "," + b
	}
	slices.Sort(names)
	return hostlist.Join(slices.Compact(names))
}

func byTurn(a, b Item) int {
	first := cmp.Compare(order[a.State], order[b.State])
	if first != 0 {
		return first
	}
	if a.State == StateRunning || a.State == StateEnded {
		return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(b.Job, a.Job), cmp.Compare(a.Name, b.Name))
	}
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(b.priority, a.priority), a.Submitted.Compare(b.Submitted),
		cmp.Compare(a.Job, b.Job), cmp.Compare(a.Name, b.Name))
}

func (m *Model) jobItem(j *slurm.Job) Item {
	item := Item{
		Kind: KindJob, Name: Text(j.Name), Job: j.ID, Jobs: 1, User: Text(j.User), Account: j.Account, QOS: j.QOS, Partition: j.Partition, Word: j.Reason,
		Amounts: m.amounts[j.ID], Nodes: j.Nodes, Submitted: j.SubmitTime, priority: j.Priority.Value,
	}
	item.NodeCount, _ = j.NodeCount.Get()
	if id, ok := j.ArrayJobID.Get(); ok && id > 0 {
		item.Kind, item.Job, item.Jobs = KindArray, uint32(id), max(1, tasks(j.ArrayTasks))
		for range item.Jobs - 1 {
			item.Add(m.amounts[j.ID])
		}
	}
	m.podsItem(&item, j)
	m.jobState(&item, j)
	return item
}

// tasks counts the tasks of an array's list, as "2-9,12%3".
func tasks(list string) int {
	list, _, _ = strings.Cut(list, "%")
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		part, step, hasStep := strings.Cut(part, ":")
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		b, err2 := strconv.Atoi(last)
		by, err3 := strconv.Atoi(step)
		switch {
		case err != nil:
		case !isRange:
			n++
		case err2 == nil && b >= a && hasStep && err3 == nil && by > 0:
			n += (b-a)/by + 1
		case err2 == nil && b >= a:
			n += b - a + 1
		}
	}
	return n
}

// podsItem adds what a line says of the pods of its job.
func (m *Model) podsItem(item *Item, j *slurm.Job) {
	c, ok := m.comments[j.ID]
	if !ok {
		return
	}
	item.Kind, item.Pods, item.Name = KindPod, c.Pods, c.Pods[0]
	if len(c.Pods) > 1 {
		item.Kind = KindGroup
	}
	for _, pod := range m.podsOf[j.ID] {
		if pod.Status.Phase == corev1.PodRunning {
			item.PodsRunning++
		}
	}
	for _, name := range c.Pods {
		if namespace, _, _ := strings.Cut(name, "/"); !m.seesPods(namespace) {
			item.PodsUnknown++
		}
	}
	if known := m.podsOf[j.ID]; len(known) > 0 && item.Kind == KindGroup {
		item.Name = known[0].Namespace + "/" + groupName(known[0])
	}
}

// seesPods tells whether the pods of a namespace are known.
func (m *Model) seesPods(namespace string) bool {
	k := m.Kubernetes
	return k.has(PartPods) && (k.Namespace == "" || k.Namespace == namespace)
}

// groupName is the name of what holds a pod together with others.
func groupName(pod *corev1.Pod) string {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	if name := pod.Labels[workload.LabelCoscheduling]; name != "" {
		return name
	}
	if o := metav1.GetControllerOf(pod); o != nil {
		return o.Name
	}
	return pod.Name
}

func (m *Model) jobState(item *Item, j *slurm.Job) {
	limit, finite := j.TimeLimit.Get()
	item.Start = j.StartTime
	if finite && limit > 0 {
		item.End = j.EndTime
	}
	switch {
	case over(*j):
		item.State, item.End = StateEnded, j.EndTime
		item.Reason = strings.TrimSuffix(explain.Ended(*j), ".")
	case j.States.Has(slurm.JobPending):
		m.waiting(item, j)
	case j.States.Has(slurm.JobCompleting):
		item.State, item.Reason = StateEnding, "it has ended, and its nodes are being cleared"
	case j.States.Has(slurm.JobSuspended):
		item.State, item.Reason = StateNeedsAction, "it is suspended"
	case !j.PreemptTime.IsZero():
		item.State, item.Reason = StateEnding, "it has to make room for a job of higher priority"
	case j.States.Has(slurm.JobConfiguring):
		item.State, item.Reason = StateStarting, "its nodes are being made ready"
	default:
		item.State = StateRunning
		m.starting(item, j)
	}
}

func (m *Model) waiting(item *Item, j *slurm.Job) {
	item.State = StateWaiting
	if explain.NeedsPerson(j.Reason) {
		item.State = StateNeedsAction
	}
	item.Reason = explain.ReasonOf(*j)
	item.End = time.Time{}
	if item.Start, _ = m.queue.Expected(*j, m.Taken); item.State == StateNeedsAction {
		item.Start = time.Time{}
	}
	if item.Place, item.Of = m.queue.Position(*j); item.Place == 0 {
		item.Of = 0
	}
}

// starting looks at the pods of a job that runs.
func (m *Model) starting(item *Item, j *slurm.Job) {
	leaving := 0
	for _, pod := range m.podsOf[j.ID] {
		switch {
		case pod.DeletionTimestamp != nil:
			leaving++
		case workload.Terminal(pod) || pod.Status.Phase == corev1.PodRunning:
		default:
			item.State = StateStarting
			item.Reason = cmp.Or(item.Reason, podTrouble(pod))
		}
	}
	if leaving > 0 {
		item.State, item.Reason = StateEnding, "its pods are being deleted"
	}
}

// podTrouble is why a pod that has its node doesn't run yet.
func podTrouble(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return fmt.Sprintf("container %s of %s waits: %s", s.Name, pod.Name, w.Reason)
		}
	}
	if c := condition(pod.Status.Conditions, v1beta1.ConditionSlurmScheduled); c != nil && c.Status != corev1.ConditionTrue && pod.Spec.NodeName == "" {
		return c.Message
	}
	if pod.Spec.NodeName == "" {
		return "its pods are about to be bound"
	}
	return "its containers are being made"
}

func condition(list []corev1.PodCondition, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}
