package submit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// A pod runs, and Slurm has no record of its job: slurmctld was killed before it
// had saved a young job, lost its state, or forgot a job that ended while the
// bridge was away. Slurm takes the pod's node for free. The pod does useful work
// and nobody asked for its end, so Slurm is asked for a new job on the very nodes
// that the pods are on, now or not at all. Where others have them by now, two
// would use the same cores, and the pods must end: the controllers see to that.

const (
	// lostEvery is how often pods without a job are looked for. It costs no call.
	lostEvery = 5 * time.Second
	// lostRetry is the longest pause between two attempts to get a job back.
	lostRetry = 5 * time.Minute
	// lostBusy is how many times Slurm must say that the nodes are others' by now:
	// the first time it may have made room by preemption.
	lostBusy = 2
	// firstPriority lets a job that holds what it had before go before all that wait.
	firstPriority = 4_000_000_000
)

// missing is what is known about a pod whose job can't be found.
type missing struct {
	// generation of the view in which it was missed first.
	generation  uint64
	tries, busy int
	next        time.Time
}

// keepJobs looks for running pods without a job until the context ends.
func (s *Submitter) keepJobs(ctx context.Context) {
	tick := time.NewTicker(lostEvery)
	defer tick.Stop()
	seen := map[types.UID]*missing{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, j := range s.Index.Unmarked() {
			if err := s.Index.Remark(ctx, s.Slurm, s.View, j); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Can't give a job its mark back yet", "job", j.ID)
			}
		}
		if err := s.findLost(ctx, seen); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Can't give running pods their jobs back yet")
		}
	}
}

// lostGroup is some pods that one job covered.
type lostGroup struct {
	key  workload.Key
	job  string
	pods []*corev1.Pod
}

func (s *Submitter) findLost(ctx context.Context, seen map[types.UID]*missing) error {
	if !s.View.Synced() {
		return nil
	}
	pods, err := s.Sources.Pods.Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	generation, now := s.View.Generation(), s.Now()
	still := map[types.UID]bool{}
	var groups []lostGroup
	var errs []error
	for _, pod := range pods {
		if !s.ours(pod) || !workload.Live(pod) || pod.Spec.NodeName == "" || pod.Labels[v1beta1.LabelJobID] == "" {
			continue
		}
		s.recall(pod)
		if named := s.Index.Naming(pod.UID); !workload.Missing(pod, named) {
			errs = append(errs, s.rename(ctx, pod, named))
			continue
		}
		still[pod.UID] = true
		m := seen[pod.UID]
		if m == nil {
			seen[pod.UID] = &missing{generation: generation}
			continue
		}
		// A whole reading of jobs must have begun and ended since.
		if generation >= m.generation+2 && !now.Before(m.next) {
			groups = addLost(groups, s.Kinds.KeyOf(pod), pod)
		}
	}
	for uid := range seen {
		if !still[uid] {
			delete(seen, uid)
		}
	}
	for _, g := range groups {
		errs = append(errs, s.recover(ctx, g, seen))
	}
	return errors.Join(errs...)
}

func addLost(groups []lostGroup, key workload.Key, pod *corev1.Pod) []lostGroup {
	job := pod.Labels[v1beta1.LabelJobID]
	i := slices.IndexFunc(groups, func(g lostGroup) bool { return g.key == key && g.job == job })
	if i < 0 {
		return append(groups, lostGroup{key: key, job: job, pods: []*corev1.Pod{pod}})
	}
	groups[i].pods = append(groups[i].pods, pod)
	return groups
}

// rename writes to a pod the id of the job that covers it, where the pod has another's.
func (s *Submitter) rename(ctx context.Context, pod *corev1.Pod, jobs []slurm.Job) error {
	var covers *slurm.Job
	for i, j := range jobs {
		switch {
		case strconv.FormatUint(uint64(j.ID), 10) == pod.Labels[v1beta1.LabelJobID] && !j.States.JobEnded():
			return nil
		case workload.Granted(j):
			covers = &jobs[i]
		}
	}
	if covers == nil {
		return nil
	}
	return s.setJob(ctx, pod, covers.ID, s.coresOf(ctx, covers.ID)[pod.UID])
}

func (s *Submitter) setJob(ctx context.Context, pod *corev1.Pod, id uint32, cores string) error {
	annotations := map[string]string{}
	if j, ok := s.Index.Get(id); ok {
		mark, _ := workload.Owned(j, s.Index.Cluster())
		annotations[v1beta1.AnnotationJob] = workload.RecordFor(j, mark, pod.UID)
	}
	if cores != "" {
		annotations[v1beta1.AnnotationCores] = cores
	}
	meta := map[string]any{
		"uid": pod.UID, "labels": map[string]string{v1beta1.LabelJobID: strconv.FormatUint(uint64(id), 10)}, "annotations": annotations,
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return fmt.Errorf("label of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	_, err = s.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("write Slurm job %d to pod %s/%s: %w", id, pod.Namespace, pod.Name, err)
	}
	return nil
}

// recover asks Slurm for a job for pods that run without one.
func (s *Submitter) recover(ctx context.Context, g lostGroup, seen map[types.UID]*missing) error {
	if s.unsure(g.key) > 0 {
		return nil
	}
	known, err := s.stillKnown(ctx, g)
	if err != nil || known {
		return err
	}
	workload.ByRank(g.pods)
	for _, pod := range g.pods {
		m := seen[pod.UID]
		m.tries++
		m.next = s.Now().Add(min(lostEvery<<min(m.tries, 8), lostRetry))
	}
	req, err := s.sameAgain(ctx, g)
	if err != nil {
		return err
	}
	if !req.Exclusive && slices.ContainsFunc(g.pods, hasDevices) {
		return s.giveUp(ctx, g, "its devices may be others' by now")
	}
	id, err := s.Slurm.AllocateNow(ctx, req)
	switch {
	case err == nil:
		return s.recovered(ctx, g, id)
	case errors.Is(err, slurm.ErrBusy):
		busy := false
		for _, pod := range g.pods {
			seen[pod.UID].busy++
			busy = busy || seen[pod.UID].busy >= lostBusy
		}
		if busy {
			return s.giveUp(ctx, g, "others have its node by now")
		}
		return nil
	case errors.Is(err, slurm.ErrUnavailable):
		s.setUncertain(g.key)
		return err
	}
	for _, pod := range g.pods {
		s.event(pod, held{reason: v1beta1.ReasonSlurmJobLost, warn: true, text: fmt.Sprintf(
			"Slurm has lost job %s of this pod, so that its node counts as free, and gives no new one: %s", g.job, explain.Refused(err))})
	}
	return nil
}

// recall makes the index have the job that a pod says covers it, should somebody have removed the mark
// while no bridge was there to see it before.
func (s *Submitter) recall(pod *corev1.Pod) {
	s.Index.Recall(s.View, pod, func() []*corev1.Pod {
		pods, err := s.podsOf(s.Kinds.KeyOf(pod))
		if err != nil {
			return []*corev1.Pod{pod} // the index is there from the beginning on
		}
		return pods
	})
}

// stillKnown asks Slurm for the very job once more.
func (s *Submitter) stillKnown(ctx context.Context, g lostGroup) (bool, error) {
	id, err := strconv.ParseUint(g.job, 10, 32)
	if err != nil {
		return false, nil //nolint:nilerr // what is no id names no job
	}
	if err := s.refresh(ctx, uint32(id)); err != nil {
		return false, err
	}
	for _, pod := range g.pods {
		s.recall(pod)
		if !workload.Missing(pod, s.Index.Naming(pod.UID)) {
			return true, nil
		}
	}
	return false, nil
}

// sameAgain plans a job for pods on the nodes that they have.
func (s *Submitter) sameAgain(ctx context.Context, g lostGroup) (slurm.JobRequest, error) {
	observed, err := s.observe(ctx, g.key)
	if err != nil {
		return slurm.JobRequest{}, err
	}
	group := workload.Group{Key: g.key, UID: g.pods[0].UID, JobName: g.pods[0].Name}
	for _, o := range observed {
		if slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool { return p.UID == g.pods[0].UID }) {
			group = o.Group
		}
	}
	group.Forbidden = nil // the pods run by rules that were there before
	view, err := s.nodes()
	if err != nil {
		return slurm.JobRequest{}, err
	}
	group.MinResources = nil // these may not be all that started together
	req, err := workload.Request(group, g.pods, view.AsPlaced(g.pods), s.Policy)
	if err != nil {
		return req, fmt.Errorf("plan a job for %s, which runs without one: %w", g.key, err)
	}
	var nodes []string
	for _, pod := range g.pods {
		node, err := s.Sources.Nodes.Lister().Get(pod.Spec.NodeName)
		if err != nil {
			return req, fmt.Errorf("read node %s of pod %s/%s: %w", pod.Spec.NodeName, pod.Namespace, pod.Name, err)
		}
		nodes = append(nodes, placement.SlurmName(node))
	}
	slices.Sort(nodes)
	req.RequiredNodes = slices.Compact(nodes)
	req.MinimumNodes, req.MaximumNodes = uint32(len(req.RequiredNodes)), uint32(len(req.RequiredNodes))
	req.Priority = slurm.NumberOf(firstPriority)
	if req.UserID != "" || req.GroupID != "" {
		// Slurm gives nodes at once to the bridge's own user only. That the node isn't given to
		// others counts more than whose job holds it.
		req.UserID, req.GroupID, req.Account, req.QOS, req.WCKey, req.Reservation = "", "", "", "", "", ""
	}
	return req, nil
}

// hasDevices tells whether a pod was given devices by their numbers.
func hasDevices(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

func (s *Submitter) recovered(ctx context.Context, g lostGroup, id uint32) error {
	klog.FromContext(ctx).Info("Slurm had lost a job and made it again", "workload", g.key.String(), "lost", g.job, "job", id)
	if err := s.refresh(ctx, id); err != nil {
		s.setUncertain(g.key)
		return err
	}
	cores := s.coresOf(ctx, id)
	var errs []error
	for _, pod := range g.pods {
		text := fmt.Sprintf("Slurm had lost job %s; job %d holds node %s for the pod now", g.job, id, pod.Spec.NodeName)
		s.event(pod, held{reason: v1beta1.ReasonSlurmJobLost, warn: true, text: text})
		errs = append(errs, s.setJob(ctx, pod, id, cores[pod.UID]))
	}
	return errors.Join(errs...)
}

// coresOf returns which cores pods have of a job now, as their annotation has
// them; "" where it can't be told, and what a pod says stays.
func (s *Submitter) coresOf(ctx context.Context, id uint32) map[types.UID]string {
	out := map[types.UID]string{}
	j, ok := s.Index.Get(id)
	mark, ours := workload.Owned(j, s.Index.Cluster())
	if !ok || !ours {
		return out
	}
	layout, err := s.layout(ctx, j)
	if err != nil {
		return out
	}
	nodes, err := s.nodes()
	if err != nil {
		return out
	}
	placed, err := placement.Place(mark, layout.Nodes, nodes.Cluster)
	if err != nil {
		return out
	}
	for uid, grant := range placed {
		out[uid] = tres.FormatIndexes(grant.Cores)
	}
	return out
}

// giveUp says on pods that they can't stay. The controllers end them when they see that no job covers them.
func (s *Submitter) giveUp(ctx context.Context, g lostGroup, why string) error {
	text := fmt.Sprintf("Slurm has lost job %s of this pod, and %s", g.job, why)
	var errs []error
	for _, pod := range g.pods {
		errs = append(errs, s.setCondition(ctx, pod, corev1.ConditionFalse, v1beta1.ReasonSlurmJobLost, text, ""))
	}
	return errors.Join(errs...)
}
