package demand

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
)

// scene makes a cluster by chance: a few sets, some in shared partitions, and jobs for them.
func scene(r *rand.Rand) Facts {
	f := Facts{Now: now}
	for i := range 1 + r.IntN(4) {
		s := set(fmt.Sprintf("s%d", i), 0, int32(1+r.IntN(8)))
		s.Partitions = append(s.Partitions, []string{"all", "most", "few"}[r.IntN(3)])
		s.Shape.CPUs, s.Shape.Threads = 1+r.IntN(8)*2, 1+r.IntN(2)
		s.Shape.Features = append(s.Shape.Features, []string{"x", "y"}[r.IntN(2)])
		s.Priority = int32(r.IntN(2))
		s.Min = int32(r.IntN(2))
		if r.IntN(3) == 0 {
			s.Shape.GRES = gres("gpu:a100:4")
		}
		s.Replicas = int32(r.IntN(int(s.Max) + 1))
		for range s.Replicas {
			switch r.IntN(4) {
			case 0:
				s.Workers = append(s.Workers, Worker{Since: now.Add(-time.Duration(r.IntN(1200)) * time.Second)})
			case 1:
				node(&s, slurm.NodeAllocated)
			default:
				node(&s, slurm.NodeIdle).LastBusy = now.Add(-time.Duration(r.IntN(600)) * time.Second)
			}
		}
		f.Sets = append(f.Sets, s)
	}
	for i := range r.IntN(40) {
		f.Jobs = append(f.Jobs, randomJob(r, uint32(i+1)))
	}
	return f
}

func randomJob(r *rand.Rand, id uint32) slurm.Job {
	partition := []string{"all", "most", "few", "s0", "s1", "s2", "all,few"}[r.IntN(7)]
	j := job(id, partition, nodes(1+r.IntN(1+r.IntN(6))), cpus(1+r.IntN(6)))
	j.Priority = number(1 + r.IntN(5))
	j.Asked.Constraints = []string{"", "", "x", "y", "x|y", "[x|y]", "nosuch"}[r.IntN(7)]
	j.Asked.TRESPerNode = []string{"", "", "", "gres/gpu:1", "gres/gpu:a100:3", "gres/gpu:h100:1"}[r.IntN(6)]
	j.Asked.Exclusive = r.IntN(5) == 0
	j.Reason = []string{"Resources", "Priority", "None", "ReqNodeNotAvail", "PartitionConfig", "Dependency", "Licenses"}[r.IntN(7)]
	if r.IntN(6) == 0 {
		j.ArrayJobID, j.ArrayTasks = number(int(id)), fmt.Sprintf("0-%d", r.IntN(10))
	}
	return j
}

func sum(p Plan) (n int32) {
	for _, d := range p.Decisions {
		n += d.Replicas
	}
	return n
}

// seeds calls f with many scenes.
func seeds(t *testing.T, f func(t *testing.T, r *rand.Rand, f Facts)) {
	n := uint64(1000)
	if testing.Short() {
		n = 200
	}
	for seed := range n {
		r := rand.New(rand.NewPCG(seed, 7))
		facts := scene(r)
		f(t, r, facts)
		if t.Failed() {
			t.Fatalf("seed %d: %+v", seed, facts)
		}
	}
}

func TestWithinBounds(t *testing.T) {
	seeds(t, func(t *testing.T, r *rand.Rand, f Facts) {
		for i, d := range Make(f).Decisions {
			s := f.Sets[i]
			if d.Name != s.Name || d.Replicas < s.Min || d.Replicas > max(s.Min, s.Max) {
				t.Errorf("set %s: %d workers, of %d to %d", s.Name, d.Replicas, s.Min, s.Max)
			}
			busy := 0
			for _, w := range s.Workers {
				if w.Node != nil && w.Node.States.Has(slurm.NodeAllocated) {
					busy++
				}
			}
			if int(d.Replicas) < min(busy, int(s.Max)) {
				t.Errorf("set %s: %d workers wanted, but %d have jobs", s.Name, d.Replicas, busy)
			}
			if d.Message == "" {
				t.Errorf("set %s says nothing", s.Name)
			}
		}
	})
}

func TestSameFactsSamePlan(t *testing.T) {
	seeds(t, func(t *testing.T, r *rand.Rand, f Facts) {
		first := Make(f)
		shuffled := f
		shuffled.Jobs = slices.Clone(f.Jobs)
		r.Shuffle(len(shuffled.Jobs), func(i, j int) {
			shuffled.Jobs[i], shuffled.Jobs[j] = shuffled.Jobs[j], shuffled.Jobs[i]
		})
		for i := range f.Sets {
			// The order of workers doesn't matter either.
			shuffled.Sets[i].Workers = slices.Clone(f.Sets[i].Workers)
		}
		if diff := cmp.Diff(first, Make(f)); diff != "" {
			t.Errorf("the same facts again: %s", diff)
		}
		if diff := cmp.Diff(first, Make(shuffled)); diff != "" {
			t.Errorf("the jobs in another order: %s", diff)
		}
	})
}

// One more job of the lowest priority takes nothing from the others.
func TestMoreJobsNeverWantLess(t *testing.T) {
	seeds(t, func(t *testing.T, r *rand.Rand, f Facts) {
		before := Make(f)
		last := randomJob(r, 1000)
		last.Priority, last.SubmitTime = number(1), now
		f.Jobs = append(f.Jobs, last)
		after := Make(f)
		for i := range before.Decisions {
			if after.Decisions[i].Replicas < before.Decisions[i].Replicas {
				t.Errorf("set %d: %d workers, and %d with one more job %+v", i, before.Decisions[i].Replicas, after.Decisions[i].Replicas, last)
			}
		}
	})
}

// Jobs that nothing can serve make no worker start and keep none from going.
func TestUnservableJobsWantNothing(t *testing.T) {
	seeds(t, func(t *testing.T, r *rand.Rand, f Facts) {
		without := f
		without.Jobs = nil
		for i := range f.Jobs {
			j := &f.Jobs[i]
			switch r.IntN(4) {
			case 0:
				j.Asked.Constraints = "nosuch"
			case 1:
				j.Asked.TRESPerNode = "gres/gpu:h100:1"
			case 2:
				nodes(100)(j)
			default:
				j.Reason = "QOSMaxJobsPerUserLimit"
			}
		}
		if a, b := sum(Make(f)), sum(Make(without)); a != b {
			t.Errorf("%d workers for jobs that can't run, %d without these", a, b)
		}
	})
}

// If a plan is carried out and all workers come up, the next one changes nothing more upwards, and
// once the jobs are gone and the idle time is over, only the least number stays.
func TestConverges(t *testing.T) {
	seeds(t, func(t *testing.T, r *rand.Rand, f Facts) {
		carry := func(p Plan) {
			for i, d := range p.Decisions {
				s := &f.Sets[i]
				s.Replicas = d.Replicas
				s.Workers = slices.DeleteFunc(s.Workers, func(w Worker) bool { return w.Node == nil })
				for len(s.Workers) > int(d.Replicas) {
					s.Workers = s.Workers[:len(s.Workers)-1]
				}
				for len(s.Workers) < int(d.Replicas) {
					node(s, slurm.NodeIdle).LastBusy = f.Now
				}
			}
		}
		carry(Make(f))
		second := Make(f)
		for i, d := range second.Decisions {
			if d.Replicas > f.Sets[i].Replicas && d.State == Growing && len(f.Jobs) == 0 {
				t.Errorf("set %s grows from %d to %d without a job", d.Name, f.Sets[i].Replicas, d.Replicas)
			}
		}
		f.Jobs = nil
		for i := range f.Sets {
			for _, w := range f.Sets[i].Workers {
				w.Node.States, w.Node.AllocCPUs, w.Node.AllocMemory = slurm.StatesOf(slurm.NodeIdle), 0, 0
			}
		}
		f.Now = f.Now.Add(time.Hour)
		carry(Make(f))
		for i, d := range Make(f).Decisions {
			if d.Replicas != f.Sets[i].Min || d.State != Steady {
				t.Errorf("set %s: %d workers (%s) without any job, want %d", d.Name, d.Replicas, d.State, f.Sets[i].Min)
			}
		}
	})
}

// BenchmarkMake plans for 10,000 jobs and 50 sets of 40 workers each.
func BenchmarkMake(b *testing.B) {
	for _, kinds := range []int{20, 10_000} {
		f := Facts{Now: now}
		for i := range 50 {
			s := set(fmt.Sprintf("s%d", i), 20, 40)
			s.Partitions = []string{fmt.Sprintf("p%d", i%10)}
			s.Shape.CPUs = 64
			for range 20 {
				node(&s, slurm.NodeAllocated)
			}
			f.Sets = append(f.Sets, s)
		}
		for i := range 10_000 {
			f.Jobs = append(f.Jobs, job(uint32(i+1), fmt.Sprintf("p%d", i%10), nodes(1+i%3), cpus(1+i%7),
				func(j *slurm.Job) { j.Asked.MemoryPerNode = number(100 + i%kinds) }))
		}
		b.Run(fmt.Sprintf("kinds=%d", kinds), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Make(f)
			}
		})
	}
}
