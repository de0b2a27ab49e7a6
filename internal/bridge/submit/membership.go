package submit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/slinky-hpc/slinky/internal/plan/environment"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// memberships collects what the pods of a job are told about each other. Those of a
// heterogeneous job are numbered through all its components, as Slurm does.
func (s *Submitter) memberships(step workload.Step, layout slurm.Allocation, placed map[types.UID]placement.Grant) environment.Job {
	var job environment.Job
	var lists []string
	for _, c := range s.components(step.Job) {
		mark, _ := workload.Owned(c, s.Index.Cluster())
		if c.ID == step.Job.ID {
			mark = step.Mark
			for _, n := range layout.Nodes {
				job.Nodes = append(job.Nodes, n.Node)
			}
		} else if nodes, err := hostlist.Expand(c.Nodes); err == nil {
			job.Nodes = append(job.Nodes, nodes...)
		}
		lists = append(lists, c.Nodes)
		job.Members = append(job.Members, s.membersOf(c, mark, placed)...)
	}
	job.NodeList = strings.Join(lists, ",")
	if len(job.Members) == 1 && job.Members[0].Pod != nil {
		job.Index = s.index(job.Members[0].Pod)
	}
	return job
}

// components returns the jobs that one is of, in their order; most often itself alone.
func (s *Submitter) components(job slurm.Job) []slurm.Job {
	if !job.HetJobID.Set {
		return []slurm.Job{job}
	}
	var out []slurm.Job
	for _, j := range s.Index.All() {
		if j.HetJobID == job.HetJobID && !j.States.JobEnded() {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b slurm.Job) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (s *Submitter) membersOf(job slurm.Job, mark workload.Mark, placed map[types.UID]placement.Grant) []environment.Member {
	comment, _ := workload.ParseComment(job)
	out := make([]environment.Member, 0, len(mark.Pods))
	for i, uid := range mark.Pods {
		m := environment.Member{UID: uid, Node: placed[uid].SlurmNode}
		if i < len(comment.Pods) {
			namespace, name, err := cache.SplitMetaNamespaceKey(comment.Pods[i])
			if err == nil {
				m.Name = name
				if pod, err := s.Sources.Pods.Lister().Pods(namespace).Get(name); err == nil && pod.UID == uid {
					m.Pod = pod
				}
			}
		}
		out = append(out, m)
	}
	return out
}

// index returns the place of a pod among the completions of its Indexed Job, nil for other pods.
func (s *Submitter) index(pod *corev1.Pod) *environment.Index {
	ref := metav1.GetControllerOf(pod)
	if ref == nil || ref.Kind != "Job" || ref.APIVersion != batchv1.SchemeGroupVersion.String() {
		return nil
	}
	n, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil {
		return nil
	}
	job, err := s.Sources.Jobs.Lister().Jobs(pod.Namespace).Get(ref.Name)
	if err != nil || job.UID != ref.UID || job.Spec.Completions == nil {
		return nil
	}
	return &environment.Index{Job: job.Name, Rank: n, Size: int(*job.Spec.Completions)}
}
