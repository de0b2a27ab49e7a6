package workload

import (
	"cmp"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Group is a workload with what its owners say about it.
type Group struct {
	Key Key
	// UID is the UID of the pod, of the PodGroup, of the leader pod of a
	// LeaderWorkerSet's replica, or of the owner of a gang. Empty tells that there is none yet.
	UID types.UID
	// Missing says, where there is no UID, what there isn't.
	Missing string
	// JobName is the Slurm job's name where no annotation gives one.
	JobName string
	// MinCount is how many members must be placed together. It is 1 for a pod, and
	// for a group whose members are independent of each other.
	MinCount int
	// Independent tells that each member is a job of its own.
	Independent bool
	// Whole tells that all members that there are when it starts are one job, not only MinCount of them.
	Whole bool
	// MinResources is what the members that start together must have in sum, empty where their own requests decide.
	MinResources corev1.ResourceList
	// Reserved are members that will only be created once others run. The job has places for them.
	Reserved []*corev1.Pod
	// Shapes tells that members of different needs get nodes of their own kinds, by a heterogeneous job.
	Shapes bool
	// Note is what the owner of the pods should know of how they are taken, "" for nothing.
	Note string
	// Annotations are the effective ones: those of the owners that count, merged.
	Annotations map[string]string
	// DeadlineSeconds is the longest that the workload may run, 0 for no limit.
	DeadlineSeconds int64
	// Forbidden is why the rules of the namespace allow no job for it, nil where they do.
	Forbidden error
}

// Live tells whether a pod still counts as a member: not ended, not on its way out.
func Live(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && !Terminal(pod)
}

// Terminal tells whether all containers of a pod have ended for good.
func Terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// ByRank sorts pods by their rank: completion index, worker index, ordinal, then
// name in natural order, so that worker-2 comes before worker-10.
func ByRank(pods []*corev1.Pod) {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		ra, aok := rank(a)
		rb, bok := rank(b)
		switch {
		case aok && bok && ra != rb:
			return cmp.Compare(ra, rb)
		case aok != bok:
			if aok {
				return -1
			}
			return 1
		}
		if c := CompareNatural(a.Name, b.Name); c != 0 {
			return c
		}
		return cmp.Compare(a.UID, b.UID)
	})
}

func rank(pod *corev1.Pod) (int, bool) {
	for _, key := range []string{batchv1.JobCompletionIndexAnnotation, lwsWorkerIndex, podIndex} {
		for _, m := range []map[string]string{pod.Labels, pod.Annotations} {
			if n, err := strconv.Atoi(m[key]); err == nil && n >= 0 {
				return n, true
			}
		}
	}
	return 0, false
}

// CompareNatural compares names with runs of digits taken as numbers, so that node-2 comes before node-10.
func CompareNatural(a, b string) int {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da > 0 && db > 0 {
			na, nb := trimZeros(a[:da]), trimZeros(b[:db])
			if c := cmp.Or(cmp.Compare(len(na), len(nb)), cmp.Compare(na, nb), cmp.Compare(da, db)); c != 0 {
				return c
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func trimZeros(s string) string {
	for len(s) > 1 && s[0] == '0' {
		s = s[1:]
	}
	return s
}
