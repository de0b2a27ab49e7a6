package workload

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// StepKind is what to do next for some pods of a workload.
type StepKind string

const (
	// StepWait: nothing can be done; Reason says what is missing.
	StepWait StepKind = "Wait"
	// StepQueued: the job waits in Slurm.
	StepQueued StepKind = "Queued"
	// StepSubmit: ask Slurm for a job for the pods.
	StepSubmit StepKind = "Submit"
	// StepPlace: the job runs; give its pods their nodes.
	StepPlace StepKind = "Place"
	// StepRejoin: pods take the places of members that have gone in a running job.
	StepRejoin StepKind = "Rejoin"
	// StepUpdate: the job waits, and asks for something else than its workload is by now.
	StepUpdate StepKind = "Update"
	// StepCancel: the job is of no use any more; Reason says why.
	StepCancel StepKind = "Cancel"
)

// Step is one thing to do. Pods are in rank order.
type Step struct {
	Kind   StepKind
	Pods   []*corev1.Pod
	Job    slurm.Job
	Reason string
	// Mark is, in a StepRejoin, the job's mark with the new pods in it.
	Mark Mark
	// Least is, in a StepSubmit, how many of the pods, the first ones, must start together: 1 to all. The others may join later.
	Least int
	// Extra tells that the workload has started: the job is of members beyond those that had to start together.
	Extra bool
}

// Observed is all that is known about a workload.
type Observed struct {
	Group Group
	// Pods are all members that exist.
	Pods []*corev1.Pod
	// Jobs are the jobs of this Kubernetes cluster that name a member or the workload.
	Jobs    []slurm.Job
	Cluster string
	// PodGroup is the object whose status tells how the workload stands, nil where there is none.
	PodGroup *PodGroup
	// Object is what holds the pods together, for events on it, nil where that is nothing.
	Object *corev1.ObjectReference
}

// Next decides what to do for a workload. Every pod that waits for a node is in
// one step at most.
func Next(o Observed) []Step {
	pods := slices.Clone(o.Pods)
	ByRank(pods)
	p := progress{group: o.Group, live: map[types.UID]*corev1.Pod{}, covered: map[types.UID]bool{}}
	for _, pod := range pods {
		if Live(pod) {
			p.live[pod.UID] = pod
			p.order = append(p.order, pod)
		}
	}
	jobs := liveJobs(o, pods)
	p.broken = brokenHet(jobs, o.Jobs, p.live)
	for _, j := range jobs {
		p.job(j)
	}
	p.rest()
	return p.steps
}

// markedJob is a live job with its mark.
type markedJob struct {
	slurm.Job
	mark Mark
}

// liveJobs returns the jobs that haven't ended, the one to keep first where two
// cover the same pod: the one that a pod already names, a running one, the oldest.
func liveJobs(o Observed, pods []*corev1.Pod) []markedJob {
	named := map[string]bool{}
	for _, pod := range pods {
		named[pod.Labels[v1beta1.LabelJobID]] = true
	}
	var jobs []markedJob
	for _, j := range o.Jobs {
		if mark, ok := Owned(j, o.Cluster); ok && !j.States.JobEnded() {
			jobs = append(jobs, markedJob{j, mark})
		}
	}
	weight := func(j markedJob) int {
		w := 0
		if !named[strconv.FormatUint(uint64(j.ID), 10)] {
			w += 2
		}
		if !Granted(j.Job) {
			w++
		}
		return w
	}
	slices.SortStableFunc(jobs, func(a, b markedJob) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), cmp.Compare(a.ID, b.ID))
	})
	return jobs
}

// Granted tells whether a job has its nodes and they are ready.
func Granted(j slurm.Job) bool {
	return j.States.Has(slurm.JobRunning) && !j.States.Has(slurm.JobConfiguring) && j.Nodes != ""
}

type progress struct {
	group   Group
	live    map[types.UID]*corev1.Pod
	order   []*corev1.Pod
	covered map[types.UID]bool
	// broken are heterogeneous jobs that wait and can't start as they are, with the reason.
	broken map[slurm.Number]string
	// waiting are jobs that wait in Slurm, with their pods.
	waiting []waitingJob
	// open are running jobs with places of members that have gone or are yet to come.
	open []markedJob
	// breaking is a job that is cancelled to make way for one that fits the group better.
	breaking uint32
	steps    []Step
}

// waitingJob is a pending job with those of its pods that are there.
type waitingJob struct {
	markedJob
	present []*corev1.Pod
	// missing counts the pods that are not.
	missing int
}

// job decides about one live job and takes its pods off the rest.
func (p *progress) job(j markedJob) {
	var present, unbound []*corev1.Pod
	missing, reserved := 0, 0
	for _, uid := range j.mark.Pods {
		pod := p.live[uid]
		switch {
		case uid == "":
			reserved++
		case pod == nil:
			missing++
		case p.covered[uid]:
		default:
			present = append(present, pod)
			if pod.Spec.NodeName == "" {
				unbound = append(unbound, pod)
			}
		}
	}
	switch {
	case len(present) == 0 && missing+reserved < len(j.mark.Pods):
		p.add(Step{Kind: StepCancel, Job: j.Job, Reason: "another job covers the same pods"})
		return
	case len(present) == 0:
		// No pod is left. The reaper ends such jobs, once it is sure. Until
		// then a component of a heterogeneous job has its places for others.
		if j.HetJobID.Set && Granted(j.Job) {
			p.open = append(p.open, j)
		}
		return
	}
	for _, pod := range present {
		p.covered[pod.UID] = true
	}
	switch {
	case Granted(j.Job):
		if len(unbound) > 0 {
			p.add(Step{Kind: StepPlace, Job: j.Job, Pods: unbound, Mark: j.mark})
		}
		if missing+reserved > 0 {
			p.open = append(p.open, j)
		}
	case j.States.Has(slurm.JobPending) && p.broken[j.HetJobID] != "":
		p.cancel(j, unbound, p.broken[j.HetJobID])
	case j.States.Has(slurm.JobPending):
		p.waiting = append(p.waiting, waitingJob{j, present, missing})
	case len(unbound) > 0:
		p.add(Step{Kind: StepQueued, Job: j.Job, Pods: unbound})
	}
}

func (p *progress) cancel(j markedJob, pods []*corev1.Pod, reason string) {
	p.breaking = j.ID
	p.add(Step{Kind: StepCancel, Job: j.Job, Pods: pods, Reason: reason})
}

// rest decides about the jobs that wait and the pods that no job covers.
func (p *progress) rest() {
	var free []*corev1.Pod
	gated := 0
	for _, pod := range p.order {
		switch {
		case p.covered[pod.UID] || pod.Spec.NodeName != "":
		case len(pod.Spec.SchedulingGates) > 0:
			gated++
		default:
			free = append(free, pod)
		}
	}
	free = p.wait(p.rejoin(free))
	if len(free) == 0 {
		return
	}
	if p.group.UID == "" {
		p.add(Step{Kind: StepWait, Pods: free, Reason: or(p.group.Missing, fmt.Sprintf("%s doesn't exist", p.group.Key))})
		return
	}
	if p.breaking != 0 {
		p.add(Step{Kind: StepWait, Pods: free,
			Reason: fmt.Sprintf("%s gets a new job for all its members once Slurm job %d is cancelled", p.group.Key, p.breaking)})
		return
	}
	if p.group.Independent {
		for _, pod := range free {
			p.add(Step{Kind: StepSubmit, Pods: []*corev1.Pod{pod}, Least: 1})
		}
		return
	}
	if have := p.have(free); have < p.group.MinCount {
		reason := p.tooFew(have)
		if gated > 0 {
			reason += fmt.Sprintf(", and %d more behind scheduling gates", gated)
		}
		p.add(Step{Kind: StepWait, Pods: free, Reason: reason})
		return
	}
	p.start(free)
}

// start decides about members that no job covers, of a workload that has as many as must start together.
func (p *progress) start(free []*corev1.Pod) {
	switch least := p.group.least(free, len(p.covered)); {
	case least > 0:
		p.add(Step{Kind: StepSubmit, Pods: free, Least: least})
	case p.bound() < p.group.MinCount:
		// A job of their own could start before that of the others, or in its place.
		p.add(Step{Kind: StepWait, Pods: free, Reason: fmt.Sprintf(
			"%s starts with %d pods; this one joins once they have their nodes", p.group.Key, p.group.MinCount)})
	default:
		for _, pod := range free {
			p.add(Step{Kind: StepSubmit, Pods: []*corev1.Pod{pod}, Least: 1, Extra: true})
		}
	}
}

// bound counts the members that have their nodes.
func (p *progress) bound() int {
	n := 0
	for _, pod := range p.order {
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// have counts the members that have a job or can be in one.
func (p *progress) have(free []*corev1.Pod) int {
	return len(free) + len(p.covered) + len(p.group.Reserved)
}

func (p *progress) tooFew(have int) string {
	return fmt.Sprintf("%s has %d of the %d pods that must start together", p.group.Key, have, p.group.MinCount)
}

// wait decides about the jobs that wait in Slurm. The first one takes as many of the
// pods that have come since it was asked for as must start with it, and lets those go
// that needn't any more. It returns those that no job took.
func (p *progress) wait(free []*corev1.Pod) []*corev1.Pod {
	others := len(p.covered)
	for _, w := range p.waiting {
		others -= len(w.present)
	}
	for _, w := range p.waiting {
		unbound := slices.DeleteFunc(slices.Clone(w.present), func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
		change := w.mark.changed(p.group.Asked())
		have := p.have(free)
		pods, rest := p.fitting(w, free, others)
		switch {
		case len(unbound) == 0:
		case p.group.UID == "" || len(unbound) < len(w.present):
			// Nothing is known of the group by now, or its pods run, whatever Slurm says of the job.
			p.add(Step{Kind: StepQueued, Job: w.Job, Pods: unbound})
		case !p.group.Independent && have < p.group.MinCount:
			p.cancel(w.markedJob, unbound, p.tooFew(have))
		case change == askedOther || w.HetJobID.Set && change == askedMore:
			p.cancel(w.markedJob, unbound, "what it was asked for has changed")
		case w.missing > 0 || len(pods) != len(w.present) || change == askedMore:
			free = rest
			for _, pod := range pods {
				p.covered[pod.UID] = true
			}
			p.add(Step{Kind: StepUpdate, Job: w.Job, Pods: pods, Extra: others >= p.group.MinCount})
		default:
			p.add(Step{Kind: StepQueued, Job: w.Job, Pods: unbound})
		}
		others += len(pods)
	}
	return free
}

// fitting returns the pods that a job which waits should have, and those that are left,
// where others is how many members have jobs besides it.
func (p *progress) fitting(w waitingJob, free []*corev1.Pod, others int) (pods, rest []*corev1.Pod) {
	if p.group.Independent || w.HetJobID.Set || p.breaking != 0 {
		return w.present, free
	}
	all := append(slices.Clone(w.present), free...)
	n := p.group.least(all, others)
	if n <= 0 {
		return w.present, free
	}
	if n < len(w.present) {
		// Those that are let go have no job any more once Slurm has taken the change.
		return w.present[:n], free
	}
	pods, rest = all[:n:n], all[n:]
	ByRank(pods)
	return pods, rest
}

// rejoin puts pods of a group in the places that others left, or that are kept for
// them, in its running jobs, and returns those that found none. A pod goes before
// others to the place of one of its own name, which it was made to replace. Where the
// places of a job are not alike it goes to no other, which may not suit it. A pod that
// needs more than the place has stays outside: somebody else may have the rest of the node.
func (p *progress) rejoin(free []*corev1.Pod) []*corev1.Pod {
	if p.group.Independent || len(free) == 0 {
		return free
	}
	for _, j := range p.open {
		c, _ := ParseComment(j.Job)
		mark := j.mark
		mark.Pods = slices.Clone(mark.Pods)
		var joined []*corev1.Pod
		take := func(suits func(pod *corev1.Pod, place int) bool) {
			for i, uid := range mark.Pods {
				if p.live[uid] != nil {
					continue
				}
				if at := slices.IndexFunc(free, func(pod *corev1.Pod) bool { return suits(pod, i) && p.group.fits(pod, j, i) }); at >= 0 {
					mark.Pods[i] = free[at].UID
					p.covered[free[at].UID] = true
					joined = append(joined, free[at])
					free = slices.Delete(slices.Clone(free), at, at+1)
				}
			}
		}
		take(func(pod *corev1.Pod, i int) bool { return c.Pods[i] == pod.Namespace+"/"+pod.Name })
		if alike := mark.Slots == nil || len(mark.Slots.Needs) == 1; alike && !(j.HetJobID.Set && p.group.Shapes) {
			take(func(*corev1.Pod, int) bool { return true })
		}
		if len(joined) > 0 {
			ByRank(joined)
			p.add(Step{Kind: StepRejoin, Job: j.Job, Pods: joined, Mark: mark})
		}
	}
	return free
}

func (p *progress) add(s Step) { p.steps = append(p.steps, s) }

// Names returns the names of pods for a log line or a sentence.
func Names(pods []*corev1.Pod) string {
	names := map[string]bool{}
	for _, pod := range pods {
		names[pod.Name] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}
