package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// Policy is what the administrator set for all jobs.
type Policy struct {
	// Cluster identifies this Kubernetes cluster.
	Cluster string
	// Partition is used where no annotation gives one.
	Partition string
	MCSLabel  string
}

// Request plans the one job of some members of a group, each on a node of its
// own. Pods are in rank order. Excluded are the Slurm nodes that they can't use.
func Request(g Group, pods []*corev1.Pod, excluded []string, p Policy) (slurm.JobRequest, error) {
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
	sh, err := shapeOf(pods)
	if err != nil {
		return slurm.JobRequest{}, err
	}
	count := uint32(len(pods))
	if s.MaxNodes > 0 && s.MaxNodes < count {
		return slurm.JobRequest{}, fmt.Errorf("annotation %s is %d, but the %d pods need a node each",
			v1beta1.AnnotationMaxNodes, s.MaxNodes, count)
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
		MinimumNodes:     max(count, s.MinNodes),
		MaximumNodes:     max(count, s.MinNodes, s.MaxNodes),
		TasksPerNode:     1,
		CPUsPerTask:      sh.cpus,
		MemoryPerNode:    slurm.NumberOf(mebibytes(sh.memory)),
		TRESPerNode:      or(s.GRES, sh.tres()),
		TimeLimit:        timeLimit(s, g),
		Priority:         s.Priority,
		ExcludedNodes:    slices.Sorted(slices.Values(excluded)),
		Exclusive:        !s.Shared,
		AdminComment:     commentOf(g, pods, p).Encode(),
		WorkingDirectory: "/tmp",
		Environment:      []string{"PATH=/bin:/usr/bin"},
		External:         true,
	}
	if s.CPUPerTask > 0 {
		req.CPUsPerTask = s.CPUPerTask
	}
	if s.MemPerNode.Set {
		req.MemoryPerNode = s.MemPerNode
	}
	return req, nil
}

// Partition returns the partition that a workload's job goes to, "" for Slurm's default.
func Partition(g Group, p Policy) string {
	return or(g.Annotations[v1beta1.AnnotationPartition], p.Partition)
}

func timeLimit(s Settings, g Group) slurm.Number {
	if s.TimeLimit.Set || g.DeadlineSeconds <= 0 {
		return s.TimeLimit
	}
	return slurm.NumberOf(Minutes(g.DeadlineSeconds))
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
	if len(pod.Spec.ResourceClaims) > 0 {
		fields = append(fields, "spec.resourceClaims; ask for devices with "+
			"deviceclass.resource.kubernetes.io/<class> in the containers' resources")
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			fields = append(fields, "spec.topologySpreadConstraints with whenUnsatisfiable DoNotSchedule")
			break
		}
	}
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			fields = append(fields, "spec.affinity.podAffinity that is required")
		}
		if a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			fields = append(fields, "spec.affinity.podAntiAffinity that is required")
		}
	}
	fields = append(fields, foreignGroup(pod)...)
	return fields
}

func or(a, b string) string {
	if strings.TrimSpace(a) != "" {
		return a
	}
	return b
}
