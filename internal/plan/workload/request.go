package workload

import (
	"errors"
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/slurm"
)

// Policy is what the administrator set for all jobs.
type Policy struct {
	// Cluster identifies this Kubernetes cluster.
	Cluster string
	// Partition is used where no annotation gives one.
	Partition string
	MCSLabel  string
	// ShareNodes lets jobs share nodes where no annotation says otherwise.
	ShareNodes bool
	// Drivers are the DRA drivers whose devices Slurm counts.
	Drivers device.Drivers
}

// Request plans the one job of some members of a group. Pods are in rank order. f is
// what Feasible found for them.
func Request(g Group, pods []*corev1.Pod, f Feasibility, p Policy) (slurm.JobRequest, error) {
	if g.Forbidden != nil {
		return slurm.JobRequest{}, g.Forbidden
	}
	s, err := ParseAnnotations(g.Annotations)
	if err != nil {
		return slurm.JobRequest{}, err
	}
	if err := supported(pods); err != nil {
		return slurm.JobRequest{}, err
	}
	all, err := needs(pods, s, f, p.Drivers)
	if err != nil {
		return slurm.JobRequest{}, err
	}
	if all, err = g.raise(all, pods); err != nil {
		return slurm.JobRequest{}, err
	}
	exclusive := !p.ShareNodes
	if s.Shared != nil {
		exclusive = !*s.Shared
	}
	req := slurm.JobRequest{
		Name:             or(s.JobName, g.JobName),
		Partition:        Partition(g, p),
		Account:          s.Account,
		QOS:              s.QOS,
		Reservation:      s.Reservation,
		Constraints:      s.Constraints,
		Licenses:         s.Licenses,
		WCKey:            s.WCKey,
		MCSLabel:         p.MCSLabel,
		UserID:           s.UserID,
		GroupID:          s.GroupID,
		TRESPerNode:      s.GRES,
		TimeLimit:        timeLimit(s, g),
		Priority:         s.Priority,
		ExcludedNodes:    f.Excluded,
		Exclusive:        exclusive,
		WorkingDirectory: "/tmp",
		Environment:      []string{"PATH=/bin:/usr/bin"},
		External:         true,
	}
	comment := commentOf(g, pods, p)
	switch each := exclusive || len(pods) == 1 || f.PerNode == 1 || s.MemPerNode.Set || int(s.MinNodes) >= len(pods); {
	case f.OneNode && len(pods) > 1 && each:
		err = errors.New("the pods must be on one node by their affinity or the claim that they share, but are to have a node each; " +
			"annotation " + v1beta1.AnnotationExclusive + ": \"false\" lets them share one")
	case each:
		err = nodeEach(&req, all, s)
	default:
		comment.Mark.Slots = slotsOf(all, f.Threads, f.PerNode, int(s.MinNodes), f.holds)
		if f.OneNode {
			s.MaxNodes = 1
			comment.Mark.Slots = comment.Mark.Slots.one(f.Threads)
		}
		err = together(&req, f, pods, comment.Mark.Slots, s)
	}
	req.AdminComment = comment.Encode()
	return req, err
}

// nodeEach asks for a node for each pod, as large as the largest pod needs.
func nodeEach(req *slurm.JobRequest, all []Need, s Settings) error {
	count := uint32(len(all))
	if s.MaxNodes > 0 && s.MaxNodes < count {
		err := fmt.Errorf("annotation %s is %d, but the %d pods need a node each", v1beta1.AnnotationMaxNodes, s.MaxNodes, count)
		if req.Exclusive {
			err = fmt.Errorf("%w; %s: \"false\" lets them share nodes", err, v1beta1.AnnotationExclusive)
		}
		return err
	}
	need := greatest(all)
	req.MinimumNodes = max(count, s.MinNodes)
	req.MaximumNodes = max(count, s.MinNodes, s.MaxNodes)
	req.TasksPerNode = 1
	req.CPUsPerTask = need.CPUs
	req.MemoryPerNode = slurm.NumberOf(need.Memory)
	if s.MemPerNode.Set {
		req.MemoryPerNode = s.MemPerNode
	}
	req.TRESPerNode = or(s.GRES, tresOf(need.GRES))
	return nil
}

// together asks for tasks, on as few nodes as they need. Memory and devices follow
// the tasks: what a node gives depends on how many of them Slurm puts there.
func together(req *slurm.JobRequest, f Feasibility, pods []*corev1.Pod, slots *Slots, s Settings) error {
	f, bound, err := f.beside(pods, slots)
	if err != nil {
		return err
	}
	req.ExcludedNodes = f.Excluded
	if bound > 0 {
		slots.PerNode = bound
	}
	tasks := uint32(slots.Tasks())
	if slots.Task.CPUs > maxCPUs {
		return fmt.Errorf("a pod of %d CPUs can't be rounded up to whole cores: Slurm counts up to %d", slots.Task.CPUs, maxCPUs)
	}
	cpus := uint64(slots.Task.CPUs)
	req.Tasks = tasks
	req.TasksPerNode = uint32(slots.PerNode)
	req.MinimumNodes = max(1, s.MinNodes)
	if per := req.TasksPerNode; per > 0 {
		req.MinimumNodes = max(req.MinimumNodes, (tasks+per-1)/per)
	}
	req.MaximumNodes = tasks
	if s.MaxNodes > 0 && s.MaxNodes < req.MinimumNodes {
		return fmt.Errorf("annotation %s is %d, but the pods need %d nodes: no more than %d of their %d tasks may be on one",
			v1beta1.AnnotationMaxNodes, s.MaxNodes, req.MinimumNodes, slots.PerNode, tasks)
	}
	if s.MaxNodes > 0 {
		req.MaximumNodes = min(tasks, s.MaxNodes)
	}
	req.FewestNodes = true
	req.CPUsPerTask = slots.Task.CPUs
	req.MinimumCPUs = tasks * slots.Task.CPUs
	req.MemoryPerCPU = slurm.NumberOf((slots.Task.Memory + cpus - 1) / cpus)
	req.TRESPerTask = tresOf(slots.Task.GRES)
	return nil
}

// Partition returns the partition that a workload's job goes to, "" for Slurm's default.
func Partition(g Group, p Policy) string {
	return strings.TrimSpace(or(g.Annotations[v1beta1.AnnotationPartition], p.Partition))
}

func timeLimit(s Settings, g Group) slurm.Number {
	if s.TimeLimit.Set || g.DeadlineSeconds <= 0 {
		return s.TimeLimit
	}
	if m := Minutes(g.DeadlineSeconds); m <= math.MaxInt32 {
		return slurm.NumberOf(m)
	}
	return slurm.Infinite() // Slurm has no longer one
}

// Minutes returns a deadline in the unit of time limits, rounded up; 0 for none.
func Minutes(deadlineSeconds int64) uint64 {
	if deadlineSeconds <= 0 {
		return 0
	}
	return uint64((deadlineSeconds-1)/60 + 1)
}

// Rejoined returns the admin comment of a job after pods took the places that others left.
func Rejoined(job slurm.Job, mark Mark, pods []*corev1.Pod) string {
	c, _ := ParseComment(job)
	c.Mark = &mark
	names := map[types.UID]string{}
	for _, pod := range pods {
		names[pod.UID] = pod.Namespace + "/" + pod.Name
	}
	for i, uid := range mark.Pods {
		if name := names[uid]; name != "" && i < len(c.Pods) {
			c.Pods[i] = name
		}
	}
	return c.Encode()
}

func commentOf(g Group, pods []*corev1.Pod, p Policy) Comment {
	c := Comment{Mark: &Mark{Cluster: p.Cluster, Workload: g.UID, Asked: g.Asked()}}
	for _, pod := range pods {
		c.Pods = append(c.Pods, pod.Namespace+"/"+pod.Name)
		c.Mark.Pods = append(c.Mark.Pods, pod.UID)
	}
	return c
}

// supported refuses what would otherwise be ignored without a word.
func supported(pods []*corev1.Pod) error {
	var errs []error
	for _, pod := range pods {
		for _, field := range unsupported(pod) {
			errs = append(errs, fmt.Errorf("pod %s: Slurm can't honour %s", pod.Name, field))
		}
	}
	return errors.Join(errs...)
}

func unsupported(pod *corev1.Pod) []string {
	var fields []string
	fields = append(fields, foreignGroup(pod)...)
	return fields
}

func or(a, b string) string {
	if strings.TrimSpace(a) != "" {
		return a
	}
	return b
}
