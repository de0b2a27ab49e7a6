package workload

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// Fate is what a pod's jobs mean for the pod that has its node. The zero value: it stays.
type Fate struct {
	// End tells that the pod must end; Kind and Job say why.
	End  bool
	Kind FateKind
	Job  slurm.Job
	// By is when Slurm takes the job's resources away at the latest. It is zero where they are gone already.
	By time.Time
}

// FateKind is why a pod must end.
type FateKind string

const (
	// FateEnded: the job has ended.
	FateEnded FateKind = "Ended"
	// FatePreempted: the job is to make room, and has its grace time for that.
	FatePreempted FateKind = "Preempted"
	// FateSuspended: Slurm gives the job's cores to others, and a pod can't be frozen.
	FateSuspended FateKind = "Suspended"
	// FateMoved: the job holds other nodes, or none, than the one that the pod is on: slurmctld forgot what it gave.
	FateMoved FateKind = "Moved"
)

// FateOf decides about a pod that has its node, by the jobs that name the pod's
// UID. A job that Slurm doesn't know decides nothing: unknown is never ended.
// slurmNode is the name of the pod's node in Slurm.
func FateOf(pod *corev1.Pod, slurmNode string, jobs []slurm.Job) Fate {
	label := pod.Labels[v1beta1.LabelJobID]
	var fate Fate
	for _, j := range jobs {
		named := strconv.FormatUint(uint64(j.ID), 10) == label
		switch {
		case !j.States.JobEnded():
			now := fateWith(j, slurmNode)
			if !now.End {
				return Fate{} // it is covered, whatever other jobs are there
			}
			if named || !fate.End {
				fate = now
			}
		case named && !fate.End && !RefusedAtOnce(j):
			fate = Fate{End: true, Kind: FateEnded, Job: j}
		}
	}
	return fate
}

// Missing tells whether none of the jobs that name a pod's UID says anything about
// the pod now: none lives, and the one that the pod names isn't among those that have ended.
func Missing(pod *corev1.Pod, jobs []slurm.Job) bool {
	label := pod.Labels[v1beta1.LabelJobID]
	return !slices.ContainsFunc(jobs, func(j slurm.Job) bool {
		return !j.States.JobEnded() || strconv.FormatUint(uint64(j.ID), 10) == label && !RefusedAtOnce(j)
	})
}

// fateWith decides by one job that hasn't ended.
func fateWith(j slurm.Job, slurmNode string) Fate {
	f := Fate{End: true, Job: j}
	switch {
	case j.States.Has(slurm.JobSuspended):
		f.Kind = FateSuspended
	case !j.States.Has(slurm.JobRunning) && !j.States.Has(slurm.JobCompleting):
		f.Kind = FateMoved
	case slurmNode != "" && !holds(j, slurmNode):
		f.Kind = FateMoved
	case !j.PreemptTime.IsZero():
		f.Kind, f.By = FatePreempted, j.EndTime
	default:
		return Fate{}
	}
	return f
}

// holds tells whether a job has a node; true where Slurm's list can't be read.
func holds(j slurm.Job, node string) bool {
	names, err := hostlist.Expand(j.Nodes)
	return err != nil || len(names) == 0 || slices.Contains(names, node)
}

// GraceFor returns the grace period for a pod that must be gone by a time, nil for
// the pod's own. Zero would take the pod's containers for dead without a look.
func GraceFor(pod *corev1.Pod, by, now time.Time) *int64 {
	if by.IsZero() {
		return nil
	}
	left := max(int64(by.Sub(now)/time.Second), 1)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil && *own <= left {
		return nil
	}
	return &left
}

// Adoptable tells whether a job that the published bridge made is that of a pod:
// it has no mark, so the pod must name its id, the job the pod's name, and it must be younger than the pod.
func Adoptable(j slurm.Job, pod *corev1.Pod) bool {
	c, ok := ParseComment(j)
	return ok && c.Mark == nil && !j.States.JobEnded() && Live(pod) &&
		strconv.FormatUint(uint64(j.ID), 10) == pod.Labels[v1beta1.LabelJobID] &&
		slices.Contains(c.Pods, pod.Namespace+"/"+pod.Name) &&
		!j.SubmitTime.Before(pod.CreationTimestamp.Time)
}

// Adopted returns the admin comment that makes a job of the published bridge one
// of this one. find returns the pod of a name, nil where there is none or it isn't the job's.
func Adopted(j slurm.Job, cluster string, find func(name string) *corev1.Pod) (string, error) {
	c, ok := ParseComment(j)
	if !ok || c.Mark != nil {
		return "", fmt.Errorf("Slurm job %d is none that the published bridge made", j.ID)
	}
	mark := Mark{Cluster: cluster}
	for _, name := range c.Pods {
		pod := find(name)
		if pod == nil || !Adoptable(j, pod) {
			mark.Pods = append(mark.Pods, "") // a member that is gone: its place is free
			continue
		}
		mark.Pods = append(mark.Pods, pod.UID)
		if mark.Workload == "" {
			mark.Workload = pod.UID
		}
	}
	if mark.Workload == "" {
		return "", fmt.Errorf("Slurm job %d has no pod here", j.ID)
	}
	c.Mark = &mark
	return c.Encode(), nil
}
