// Package jobs finds the Slurm jobs of this Kubernetes cluster's pods by the UIDs that they carry.
package jobs

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Index holds the jobs that the bridge of one Kubernetes cluster made.
type Index struct {
	cluster string

	mu   sync.RWMutex
	jobs map[uint32]slurm.Job
	// marks are what the jobs' comments say, which is dear to read.
	marks map[uint32]workload.Mark
	byID  map[types.UID]map[uint32]bool
	// pending counts the jobs that wait, by partition.
	pending map[string]int
	// unmarked are jobs whose mark somebody has removed.
	unmarked map[uint32]bool
}

// NewIndex returns an empty index for a Kubernetes cluster.
func NewIndex(cluster string) *Index {
	return &Index{
		cluster: cluster, jobs: map[uint32]slurm.Job{}, marks: map[uint32]workload.Mark{},
		byID: map[types.UID]map[uint32]bool{}, pending: map[string]int{}, unmarked: map[uint32]bool{},
	}
}

// Cluster returns the identity of the Kubernetes cluster.
func (x *Index) Cluster() string { return x.cluster }

// Put adds or replaces a job. It returns false for a job of somebody else, which
// then isn't in the index, whatever had its id before.
func (x *Index) Put(j slurm.Job) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.put(j)
}

// View is where the index has its jobs from.
type View interface {
	Job(id uint32) (slurm.Job, bool)
}

// Follow makes the index have a job as the view has it now, and returns the job,
// false if the view has none. Whoever read the view first and put the job into the
// index then could undo what another has put there meanwhile, and nobody would tell.
func (x *Index) Follow(v View, id uint32) (slurm.Job, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	j, known := v.Job(id)
	if known {
		x.put(j)
	} else {
		x.drop(id)
	}
	return j, known
}

func (x *Index) put(j slurm.Job) bool {
	if old, ok := x.jobs[j.ID]; ok && old.SLUID == j.SLUID && old.AdminComment == j.AdminComment && slices.Equal(old.Flags, j.Flags) {
		x.count(old, -1)
		x.jobs[j.ID] = j
		x.count(j, 1)
		delete(x.unmarked, j.ID)
		return true
	}
	mark, ours := workload.Owned(j, x.cluster)
	old := x.jobs[j.ID]
	x.drop(j.ID)
	if !ours && lostMark(old, j) {
		j.AdminComment = old.AdminComment
		if mark, ours = workload.Owned(j, x.cluster); ours {
			x.unmarked[j.ID] = !j.States.JobEnded() // one that has ended takes no comment any more
		}
	}
	if ours {
		x.insert(j, mark)
	}
	return ours
}

func (x *Index) insert(j slurm.Job, mark workload.Mark) {
	x.jobs[j.ID], x.marks[j.ID] = j, mark
	x.count(j, 1)
	for _, uid := range uids(mark) {
		if x.byID[uid] == nil {
			x.byID[uid] = map[uint32]bool{}
		}
		x.byID[uid][j.ID] = true
	}
}

// count counts a job among those that wait, or no more.
func (x *Index) count(j slurm.Job, n int) {
	if waits(j) {
		x.pending[j.Partition] += n
	}
}

// lostMark tells whether a job is the one that bore the bridge's mark before, and
// somebody has overwritten it. As nobody's it would hold its nodes for ever, and its
// pods would count as without a job.
func lostMark(old, now slurm.Job) bool {
	if old.SLUID == "" || old.SLUID != now.SLUID {
		return false
	}
	c, other := workload.ParseComment(now)
	return !other || c.Mark == nil
}

// Unmarked returns the jobs whose mark is to be written again, with it, by id. Until
// that is done the index has them as they were.
func (x *Index) Unmarked() []slurm.Job {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []slurm.Job
	for id, missing := range x.unmarked {
		if missing {
			out = append(out, x.jobs[id])
		}
	}
	slices.SortFunc(out, byID)
	return out
}

// Drop removes a job that Slurm doesn't know any more.
func (x *Index) Drop(id uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(id)
}

func (x *Index) drop(id uint32) {
	old, ok := x.jobs[id]
	if !ok {
		return
	}
	mark := x.marks[id]
	delete(x.jobs, id)
	delete(x.marks, id)
	delete(x.unmarked, id)
	x.count(old, -1)
	for _, uid := range uids(mark) {
		if delete(x.byID[uid], id); len(x.byID[uid]) == 0 {
			delete(x.byID, uid)
		}
	}
}

// waits tells whether a job waits for its turn, so that slurmctld starts no later
// one of its partition before it. One that is held, or waits for something of its
// own, such as another job or a limit of its account, is in nobody's way.
func waits(j slurm.Job) bool {
	if !j.States.Has(slurm.JobPending) {
		return false
	}
	switch j.Reason {
	case "JobHeldAdmin", "JobHeldUser", "Dependency", "DependencyNeverSatisfied", "BeginTime":
		return false
	}
	return !strings.HasPrefix(j.Reason, "Assoc") && !strings.HasPrefix(j.Reason, "QOS")
}

// Pending returns how many jobs wait for a partition.
func (x *Index) Pending(partition string) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.pending[partition]
}

// Get returns a job by its id.
func (x *Index) Get(id uint32) (slurm.Job, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	j, ok := x.jobs[id]
	return j, ok
}

// Naming returns the jobs that carry one of the UIDs, of a pod or a workload, by id.
func (x *Index) Naming(ids ...types.UID) []slurm.Job {
	x.mu.RLock()
	defer x.mu.RUnlock()
	found := map[uint32]bool{}
	var out []slurm.Job
	for _, uid := range ids {
		for id := range x.byID[uid] {
			if !found[id] {
				found[id] = true
				out = append(out, x.jobs[id])
			}
		}
	}
	slices.SortFunc(out, byID)
	return out
}

// All returns all jobs, by id.
func (x *Index) All() []slurm.Job {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make([]slurm.Job, 0, len(x.jobs))
	for _, j := range x.jobs {
		out = append(out, j)
	}
	slices.SortFunc(out, byID)
	return out
}

func byID(a, b slurm.Job) int { return cmp.Compare(a.ID, b.ID) }

// uids are the UIDs that a job carries. A place that is kept for a pod to come has none.
func uids(m workload.Mark) []types.UID {
	all := append([]types.UID{m.Workload}, m.Pods...)
	return slices.DeleteFunc(all, func(uid types.UID) bool { return uid == "" })
}
