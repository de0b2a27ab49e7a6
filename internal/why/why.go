// Package why collects what "slinky why" explains: it finds a pod or a Slurm job by
// what a user says, in a Kubernetes cluster and in the Slurm behind its bridge.
package why

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Slurm is what is asked of Slurm.
type Slurm interface {
	Jobs(ctx context.Context) ([]slurm.Job, error)
	Nodes(ctx context.Context) ([]slurm.Node, error)
	Associations(ctx context.Context, f slurm.AssociationFilter) ([]slurm.Association, error)
	QOSes(ctx context.Context) ([]slurm.QOS, error)
}

// Sources are the clusters to ask. Kube is nil where only Slurm is known, and Slurm
// where it can't be reached; SlurmError then says why.
type Sources struct {
	Kube          kubernetes.Interface
	Namespace     string
	SchedulerName string
	Slurm         Slurm
	SlurmError    error
	Now           time.Time
}

// Find collects the facts on what a user names: "4711" for a Slurm job, "pod/NAME",
// "job/NAME" or "podgroup/NAME", or a bare name, which is a pod's, or else a Job's or
// PodGroup's. Of several pods, the one that waits is explained.
func (s Sources) Find(ctx context.Context, target string) (explain.Facts, error) {
	f := explain.Facts{SchedulerName: s.SchedulerName, Now: s.Now}
	id, isJob := jobID(target)
	if !isJob {
		if s.Kube == nil {
			return f, fmt.Errorf("there is no Kubernetes cluster to find %q in: name a kubeconfig, or a Slurm job by its number", target)
		}
		var err error
		if f.Pod, err = s.pod(ctx, target); err != nil {
			return f, err
		}
	}
	switch err := s.slurm(ctx, &f, id, isJob); {
	case err == nil:
	case isJob:
		return f, fmt.Errorf("ask Slurm for job %d: %w", id, err)
	default:
		f.SlurmError = err.Error()
	}
	if isJob && s.Kube != nil {
		f.Pod = s.onlyPod(ctx, *f.Job)
	}
	return f, nil
}

func jobID(target string) (uint32, bool) {
	id, err := strconv.ParseUint(target, 10, 32)
	return uint32(id), err == nil && id > 0
}

// slurm adds what Slurm knows.
func (s Sources) slurm(ctx context.Context, f *explain.Facts, id uint32, isJob bool) error {
	if s.Slurm == nil {
		return errors.Join(s.SlurmError, errNoSlurm)
	}
	jobs, err := s.Slurm.Jobs(ctx)
	if err != nil {
		return err
	}
	nodes, err := s.Slurm.Nodes(ctx)
	if err != nil {
		return err
	}
	if isJob {
		f.Job = byID(jobs, id)
	} else {
		f.Job = ofPod(jobs, f.Pod)
	}
	if isJob && f.Job == nil {
		return errors.New("Slurm has no such job; it forgets one some minutes after its end, and accounting keeps it: sacct --jobs=" +
			strconv.FormatUint(uint64(id), 10) + " --format=JobID,State,DerivedExitCode,AdminComment%200")
	}
	f.Queue = explain.NewQueue(jobs, nodes)
	if f.Job != nil && explain.WaitsForLimit(f.Job.Reason) {
		// Only an improvement: many may not read them, and a Slurm may have no accounting.
		f.Associations, _ = s.Slurm.Associations(ctx, slurm.AssociationFilter{Accounts: []string{f.Job.Account}})
		f.QOS, _ = s.Slurm.QOSes(ctx)
	}
	return nil
}

var errNoSlurm = errors.New("no slurmrestd is known: name it with --slurm-url")

func byID(jobs []slurm.Job, id uint32) *slurm.Job {
	for i := range jobs {
		if jobs[i].ID == id {
			return &jobs[i]
		}
	}
	return nil
}

// ofPod returns the job of a pod: a living one before one that has ended, and of
// those the one that the pod names, or else the newest.
func ofPod(jobs []slurm.Job, pod *corev1.Pod) *slurm.Job {
	var found *slurm.Job
	best := -1
	for i := range jobs {
		j := &jobs[i]
		if !names(*j, pod) || workload.RefusedAtOnce(*j) {
			continue
		}
		weight := 0
		if !j.States.JobEnded() {
			weight += 2
		}
		if strconv.FormatUint(uint64(j.ID), 10) == pod.Labels[v1beta1.LabelJobID] {
			weight++
		}
		if weight >= best {
			found, best = j, weight
		}
	}
	return found
}

// names tells whether a job is one of a pod's, by the UID where it has one.
func names(j slurm.Job, pod *corev1.Pod) bool {
	c, ok := workload.ParseComment(j)
	if !ok {
		return false
	}
	for i, name := range c.Pods {
		if c.Mark != nil && c.Mark.Pods[i] == pod.UID {
			return true
		}
		if c.Mark == nil && name == pod.Namespace+"/"+pod.Name && strconv.FormatUint(uint64(j.ID), 10) == pod.Labels[v1beta1.LabelJobID] {
			return true
		}
	}
	return false
}

// onlyPod returns the pod of a job that has a single one, nil otherwise.
func (s Sources) onlyPod(ctx context.Context, j slurm.Job) *corev1.Pod {
	c, ok := workload.ParseComment(j)
	if !ok || len(c.Pods) != 1 {
		return nil
	}
	namespace, name, _ := strings.Cut(c.Pods[0], "/")
	pod, err := s.Kube.CoreV1().Pods(namespace).Get(ctx, name, getOptions)
	if err != nil || !names(j, pod) {
		return nil
	}
	return pod
}
