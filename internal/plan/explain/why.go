package explain

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Facts are what is known about a pod or a job that somebody asks about. Either may be nil.
type Facts struct {
	Pod *corev1.Pod
	// SchedulerName is the bridge's.
	SchedulerName string
	Job           *slurm.Job
	// Queue is nil where Slurm couldn't be asked; SlurmError says why.
	Queue      *Queue
	SlurmError string
	// Associations and QOS are empty where the asker may not see them, or Slurm has no accounting.
	Associations []slurm.Association
	QOS          []slurm.QOS
	Now          time.Time
}

// State is in one word how the pod or job stands.
type State string

// States of what is asked about.
const (
	StateWaiting  State = "Waiting"
	StateBlocked  State = "NeedsAction"
	StateRunning  State = "Running"
	StateEnding   State = "Ending"
	StateEnded    State = "Ended"
	StateNotOurs  State = "NotTheBridges"
	StateNotKnown State = "Unknown"
)

// Answer explains how a pod and its job stand.
type Answer struct {
	State   State  `json:"state"`
	Summary string `json:"summary"`
	// Pod and Workload are kinds with their names, as "Pod default/a".
	Pod      string `json:"pod,omitempty"`
	Workload string `json:"workload,omitempty"`
	Node     string `json:"node,omitempty"`
	// Condition is what the bridge says on the pod.
	Condition string `json:"condition,omitempty"`

	Job *JobFacts `json:"job,omitempty"`
	// Reason is Slurm's in plain words.
	Reason string `json:"reason,omitempty"`
	Block  *Block `json:"block,omitempty"`
	// Place is the job's, from 1, among the Of that wait for their turn in its partition.
	Place int `json:"place,omitempty"`
	Of    int `json:"of,omitempty"`
	// Start is when Slurm expects to start the job, or started it; End when it ends at the latest, or ended.
	Start   time.Time         `json:"start,omitzero"`
	End     time.Time         `json:"end,omitzero"`
	Outcome *workload.Outcome `json:"outcome,omitempty"`
	// Do are things to do, the best one first.
	Do []string `json:"do,omitempty"`

	now time.Time
	// open tells that the start can't be told, because what is before the job has no end.
	open bool
}

// JobFacts are what of a job tells people which one it is.
type JobFacts struct {
	ID        uint32    `json:"id"`
	Name      string    `json:"name"`
	State     string    `json:"state"`
	User      string    `json:"user,omitempty"`
	Account   string    `json:"account,omitempty"`
	QOS       string    `json:"qos,omitempty"`
	Partition string    `json:"partition,omitempty"`
	Nodes     string    `json:"nodes,omitempty"`
	Asks      string    `json:"asks,omitempty"`
	Priority  uint64    `json:"priority,omitempty"`
	Submitted time.Time `json:"submitted,omitzero"`
	// Limit is the time limit in minutes, 0 for none.
	Limit uint64   `json:"timeLimitMinutes,omitempty"`
	Pods  []string `json:"pods,omitempty"`
}

// blockersShown bounds the jobs that an answer names.
const blockersShown = 5

// Why explains how things stand.
func Why(f Facts) Answer {
	a := Answer{State: StateNotKnown, now: f.Now}
	if f.Pod != nil {
		a.podFacts(f.Pod)
	}
	if f.Job != nil {
		a.jobFacts(*f.Job)
	}
	switch {
	case f.Job != nil && !f.Job.States.JobEnded():
		a.living(f)
	case f.Pod != nil:
		a.podAlone(f)
	case f.Job != nil && workload.RefusedAtOnce(*f.Job):
		a.State = StateEnded
		a.Summary = fmt.Sprintf("Slurm job %d is the record of an attempt to start at once, for which there was no room. Its pods then waited in a job of their own.", f.Job.ID)
		if len(a.Job.Pods) > 0 {
			namespace, name, _ := strings.Cut(a.Job.Pods[0], "/")
			a.Do = append(a.Do, fmt.Sprintf("ask about a pod: slinky why -n %s %s", namespace, name))
		}
	case f.Job != nil:
		a.State, a.Summary = StateEnded, Ended(*f.Job)+"."
	}
	if f.SlurmError != "" {
		a.Do = append(a.Do, "Slurm couldn't be asked, so this is what Kubernetes knows: "+f.SlurmError)
	}
	return a
}

func (a *Answer) podFacts(pod *corev1.Pod) {
	a.Pod = "Pod " + pod.Namespace + "/" + pod.Name
	a.Node = pod.Spec.NodeName
	switch ref := metav1.GetControllerOf(pod); {
	case pod.Spec.SchedulingGroup != nil && pod.Spec.SchedulingGroup.PodGroupName != nil:
		a.Workload = "PodGroup " + pod.Namespace + "/" + *pod.Spec.SchedulingGroup.PodGroupName
	case pod.Labels[workload.LabelCoscheduling] != "":
		a.Workload = "PodGroup " + pod.Namespace + "/" + pod.Labels[workload.LabelCoscheduling]
	case ref != nil:
		a.Workload = ref.Kind + " " + pod.Namespace + "/" + ref.Name
	}
	if c := podCondition(pod, v1beta1.ConditionSlurmScheduled); c != nil && c.Status != corev1.ConditionTrue {
		a.Condition = c.Message
	}
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func (a *Answer) jobFacts(j slurm.Job) {
	limit, _ := j.TimeLimit.Get()
	a.Job = &JobFacts{
		ID: j.ID, Name: j.Name, State: j.States.String(), User: j.User, Account: j.Account, QOS: j.QOS, Partition: j.Partition,
		Nodes: j.Nodes, Asks: j.TRESRequested, Priority: j.Priority.Value, Submitted: j.SubmitTime, Limit: limit,
	}
	c, ok := workload.ParseComment(j)
	if ok {
		a.Job.Pods, a.Outcome = c.Pods, c.End
	}
	a.Start, a.End = j.StartTime, until(j)
	if j.States.JobEnded() {
		a.End = j.EndTime
	}
}

// living explains a job that has not ended.
func (a *Answer) living(f Facts) {
	j := *f.Job
	switch {
	case j.States.Has(slurm.JobPending):
		a.waits(f)
		return
	case j.States.Has(slurm.JobSuspended):
		a.State, a.Summary = StateBlocked, fmt.Sprintf("Slurm job %d is suspended.", j.ID)
		a.Do = append(a.Do, fmt.Sprintf("resume it: scontrol resume %d", j.ID))
		return
	case f.Pod != nil && f.Pod.DeletionTimestamp != nil:
		a.ending(f)
		return
	case !j.PreemptTime.IsZero():
		a.State, a.Summary = StateEnding, fmt.Sprintf("Slurm job %d has to make room for a job of higher priority.", j.ID)
		return
	}
	a.State, a.Summary = StateRunning, fmt.Sprintf("Slurm job %d runs on %s.", j.ID, j.Nodes)
	if f.Pod == nil {
		return
	}
	switch {
	case f.Pod.Spec.NodeName == "":
		a.State = StateWaiting
		a.Summary = fmt.Sprintf("Slurm job %d has its nodes, and the pod is about to be bound.", j.ID)
		if a.Condition != "" {
			a.State, a.Summary = StateBlocked, a.Condition+"."
		} else if c := podCondition(f.Pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Message != "" {
			a.Do = append(a.Do, "if it stays so, Kubernetes says: "+c.Message)
		}
	case workload.Terminal(f.Pod):
		a.State, a.Summary = StateEnding, fmt.Sprintf("The pod has ended (%s), and Slurm job %d ends with the last of its pods.", f.Pod.Status.Phase, j.ID)
	default:
		a.Summary = fmt.Sprintf("The pod is on node %s, in Slurm job %d.", f.Pod.Spec.NodeName, j.ID)
		if f.Pod.Status.Phase == corev1.PodPending {
			a.Do = append(a.Do, fmt.Sprintf("its containers have not started yet: kubectl describe pod -n %s %s", f.Pod.Namespace, f.Pod.Name))
		}
	}
}

// waits explains a job that has not started.
func (a *Answer) waits(f Facts) {
	j := *f.Job
	a.State = StateWaiting
	if NeedsPerson(j.Reason) {
		a.State = StateBlocked
	}
	a.Reason = reasonOf(j)
	a.Summary = fmt.Sprintf("Slurm job %d waits: %s.", j.ID, a.Reason)
	if a.Reason == "" || j.Reason == "" {
		a.Reason, a.Summary = "", fmt.Sprintf("Slurm job %d waits.", j.ID)
	}
	a.Start, a.open = f.Queue.Expected(j, f.Now)
	if a.State == StateBlocked {
		a.Start = time.Time{}
	}
	a.End = time.Time{}
	if f.Queue != nil {
		a.Place, a.Of = f.Queue.Position(j)
		if a.Place == 0 {
			a.Of = 0
		}
		b := Blocking(j, f.Queue, blockersShown)
		if b.Limit != nil {
			b.Limit.known(j, f)
		}
		if b.How != "" || b.Limit != nil {
			a.Block = &b
		}
	}
	a.Do = append(a.Do, advice(j, a.Block)...)
}

// ending explains a pod that is being deleted.
func (a *Answer) ending(f Facts) {
	a.State = StateEnding
	a.Summary = "The pod is being deleted"
	if c := podCondition(f.Pod, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		a.Summary += ": " + c.Message
	}
	a.Summary += "."
	if f.Job != nil && !f.Job.States.JobEnded() {
		a.Summary += fmt.Sprintf(" Slurm job %d keeps its nodes until its containers have ended.", f.Job.ID)
	}
}

// podAlone explains a pod without a living job.
func (a *Answer) podAlone(f Facts) {
	pod := f.Pod
	c := podCondition(pod, v1beta1.ConditionSlurmScheduled)
	switch {
	case workload.Terminal(pod):
		a.State, a.Summary = StateEnded, "The pod has ended: "+string(pod.Status.Phase)
		if d := podCondition(pod, corev1.DisruptionTarget); d != nil && d.Status == corev1.ConditionTrue {
			a.Summary += ", because " + d.Message
		}
		a.Summary += "."
	case pod.DeletionTimestamp != nil:
		a.ending(f)
	case pod.Spec.SchedulerName != f.SchedulerName:
		a.State = StateNotOurs
		a.Summary = fmt.Sprintf("Slurm doesn't place this pod: its scheduler is %s, not %s.", cmp.Or(pod.Spec.SchedulerName, "the default"), f.SchedulerName)
		a.Do = append(a.Do, "create it with spec.schedulerName: "+f.SchedulerName)
	case pod.Spec.NodeName != "":
		a.State, a.Summary = StateRunning, fmt.Sprintf("The pod is on node %s.", pod.Spec.NodeName)
		if f.Queue != nil {
			a.State = StateBlocked
			a.Summary += fmt.Sprintf(" Slurm has no record of its job %s: the bridge asks for a new one, or ends the pod.", pod.Labels[v1beta1.LabelJobID])
		}
	case len(pod.Spec.SchedulingGates) > 0:
		a.State, a.Summary = StateWaiting, fmt.Sprintf("The pod has the scheduling gate %s, which somebody else will remove.", pod.Spec.SchedulingGates[0].Name)
	case c == nil:
		a.Summary = "The bridge has not said anything about this pod."
		a.Do = append(a.Do, "see whether bridge-scheduler runs: kubectl get pods -A | grep bridge-scheduler")
	default:
		a.State, a.Summary = StateWaiting, c.Message+"."
		a.Do = append(a.Do, conditionAdvice[c.Reason]...)
		if ConditionNeedsPerson(c.Reason) {
			a.State = StateBlocked
		}
	}
}

// known fills in what the limit is, from Slurm's database.
func (l *Limit) known(j slurm.Job, f Facts) {
	var tres string
	var jobs slurm.Number
	switch {
	case l.Of == "QOS":
		for _, q := range f.QOS {
			if q.Name != j.QOS {
				continue
			}
			switch {
			case strings.HasSuffix(l.What, " of one user"):
				tres, jobs = q.MaxTRESPerUser, q.MaxJobsPerUser
			case strings.HasSuffix(l.What, " of one account"):
				tres, jobs = q.MaxTRESPerAccount, q.MaxJobsPerAccount
			case strings.HasSuffix(l.What, " of one job"):
				tres = q.MaxTRESPerJob
			default:
				tres, jobs = q.GrpTRES, q.GrpJobs
			}
		}
	case l.Of == "account":
		for _, a := range f.Associations {
			if a.Account != j.Account || a.User != "" && a.User != j.User {
				continue
			}
			tres, jobs = cmp.Or(a.GrpTRES, tres), firstSet(a.MaxJobs, a.GrpJobs, jobs)
		}
	}
	if n, ok := jobs.Get(); ok && strings.HasPrefix(l.What, "running jobs") {
		l.Value = strconv.FormatUint(n, 10)
	}
	for part := range strings.SplitSeq(tres, ",") {
		if name, value, _ := strings.Cut(part, "="); l.tres != "" && name == l.tres {
			l.Value = value
		}
	}
}

func firstSet(list ...slurm.Number) slurm.Number {
	for _, n := range list {
		if _, ok := n.Get(); ok {
			return n
		}
	}
	return slurm.Number{}
}
