package demand

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func number(n int) slurm.Number { return slurm.NumberOf(uint64(n)) }

// set is a NodeSet of 4-CPU workers, alone in a partition of its name.
func set(name string, replicas, most int32) Set {
	return Set{Name: name, Max: most, Replicas: replicas, IdleTime: 5 * time.Minute, Partitions: []string{name},
		Shape: Shape{CPUs: 4, Threads: 1, Memory: 8000, Features: []string{name}}}
}

// node is a registered worker of a set, idle for a minute.
func node(s *Set, states ...string) *slurm.Node {
	n := &slurm.Node{Name: fmt.Sprintf("%s-%d", s.Name, len(s.Workers)), States: slurm.StatesOf(append(states, "DYNAMIC_NORM")...),
		Partitions: s.Partitions, Features: s.Shape.Features, CPUs: s.Shape.CPUs, EffectiveCPUs: s.Shape.CPUs, Threads: 1, RealMemory: s.Shape.Memory,
		LastBusy: now.Add(-time.Minute), SlurmdStartTime: now.Add(-time.Hour)}
	for _, g := range s.Shape.GRES {
		n.GRES = strings.TrimPrefix(n.GRES+","+g.String(), ",")
	}
	if n.States.Has(slurm.NodeAllocated) {
		n.AllocCPUs, n.AllocMemory = n.CPUs, n.RealMemory
	}
	s.Workers = append(s.Workers, Worker{Node: n, Since: now.Add(-time.Hour)})
	return n
}

// job waits for a CPU and 100 MiB in a partition.
func job(id uint32, partition string, change ...func(*slurm.Job)) slurm.Job {
	j := slurm.Job{ID: id, Partition: partition, States: slurm.StatesOf(slurm.JobPending), Reason: "Resources", Priority: number(1000),
		SubmitTime: now.Add(-10 * time.Second), EligibleTime: now.Add(-10 * time.Second), Tasks: number(1), CPUs: number(1), TRESRequested: "cpu=1,mem=100M,node=1,billing=1",
		Asked: slurm.JobAsks{CPUsPerTask: number(1), MemoryPerNode: number(100)}}
	for _, f := range change {
		f(&j)
	}
	return j
}

func nodes(n int) func(*slurm.Job) {
	return func(j *slurm.Job) { j.TRESRequested = fmt.Sprintf("cpu=%d,node=%d", n, n); j.Tasks = number(n) }
}
func cpus(n int) func(*slurm.Job)       { return func(j *slurm.Job) { j.Asked.CPUsPerTask = number(n) } }
func reason(s string) func(*slurm.Job)  { return func(j *slurm.Job) { j.Reason = s } }
func gpus(s string) func(*slurm.Job)    { return func(j *slurm.Job) { j.Asked.TRESPerNode = s } }
func want(expr string) func(*slurm.Job) { return func(j *slurm.Job) { j.Asked.Constraints = expr } }

func gpuSet(name string, replicas, most int32) Set {
	s := set(name, replicas, most)
	s.Shape.GRES = gres("gpu:a100:2")
	return s
}

func jobs(n int, partition string, change ...func(*slurm.Job)) (out []slurm.Job) {
	for i := range n {
		out = append(out, job(uint32(i+1), partition, change...))
	}
	return out
}

func TestDecisions(t *testing.T) {
	for name, tc := range map[string]struct {
		facts func() Facts
		want  []Decision
	}{
		"nothing to do": {
			func() Facts { return Facts{Sets: []Set{set("a", 0, 8)}} },
			[]Decision{{Name: "a", State: Steady, Message: "no waiting job needs another worker"}},
		},
		"jobs share workers": {
			func() Facts { return Facts{Sets: []Set{set("a", 0, 8)}, Jobs: jobs(12, "a")} },
			[]Decision{{Name: "a", Replicas: 3, State: Growing, Served: 12, Message: "12 waiting jobs need 3 more workers: scaling from 0 to 3"}},
		},
		"capped": {
			func() Facts { return Facts{Sets: []Set{set("a", 0, 2)}, Jobs: jobs(12, "a", cpus(4))} },
			[]Decision{{Name: "a", Replicas: 2, State: Growing, Served: 2, Message: "2 waiting jobs need 2 more workers: scaling from 0 to 2; 10 jobs wait for workers to get free, as maxReplicas allows 2 (first: job 3)"}},
		},
		"all at once or not at all": {
			func() Facts { return Facts{Sets: []Set{set("a", 0, 3)}, Jobs: jobs(1, "a", nodes(4))} },
			[]Decision{{Name: "a", State: Steady, Message: "no waiting job needs another worker; job 1 needs 4 workers, and maxReplicas allows 3"}},
		},
		"several nodes": {
			func() Facts { return Facts{Sets: []Set{set("a", 0, 8)}, Jobs: jobs(1, "a", nodes(4))} },
			[]Decision{{Name: "a", Replicas: 4, State: Growing, Served: 1, Message: "1 waiting job needs 4 more workers: scaling from 0 to 4"}},
		},
		"tasks over nodes": {
			func() Facts {
				return Facts{Sets: []Set{set("a", 0, 8)}, Jobs: jobs(1, "a", cpus(3), func(j *slurm.Job) { j.Tasks = number(5) })}
			},
			[]Decision{{Name: "a", Replicas: 5, State: Growing, Served: 1, Message: "1 waiting job needs 5 more workers: scaling from 0 to 5"}},
		},
		"an array": {
			func() Facts {
				return Facts{Sets: []Set{set("a", 0, 8)}, Jobs: jobs(1, "a", cpus(4), func(j *slurm.Job) { j.ArrayJobID, j.ArrayTasks = number(1), "0-4,7" })}
			},
			[]Decision{{Name: "a", Replicas: 6, State: Growing, Served: 6, Message: "6 waiting jobs need 6 more workers: scaling from 0 to 6"}},
		},
		"an array's limit": {
			func() Facts {
				return Facts{Sets: []Set{set("a", 0, 8)}, Jobs: append(jobs(1, "a", cpus(4), func(j *slurm.Job) { j.ArrayJobID, j.ArrayTasks = number(1), "1-9%3" }),
					job(2, "a", func(j *slurm.Job) { j.ArrayJobID, j.States, j.Nodes = number(1), slurm.StatesOf("RUNNING"), "other" }))}
			},
			[]Decision{{Name: "a", Replicas: 2, State: Growing, Served: 2, Message: "2 waiting jobs need 2 more workers: scaling from 0 to 2"}},
		},
		"a device that nobody has": {
			func() Facts {
				return Facts{Sets: []Set{gpuSet("a", 0, 8)}, Jobs: jobs(1, "a", gpus("gres/gpu:h100:1"))}
			},
			[]Decision{{Name: "a", State: Steady, Message: "no waiting job needs another worker; job 1 asks for gpu:h100:1 on a node, which no worker has"}},
		},
		"devices": {
			func() Facts { return Facts{Sets: []Set{gpuSet("a", 0, 8)}, Jobs: jobs(3, "a", gpus("gres/gpu:1"))} },
			[]Decision{{Name: "a", Replicas: 2, State: Growing, Served: 3, Message: "3 waiting jobs need 2 more workers: scaling from 0 to 2"}},
		},
		"devices of the whole job": {
			func() Facts {
				return Facts{Sets: []Set{gpuSet("a", 0, 8)}, Jobs: jobs(1, "a", func(j *slurm.Job) { j.Asked.TRESPerJob, j.Tasks = "gres/gpu:5", number(3) })}
			},
			[]Decision{{Name: "a", Replicas: 3, State: Growing, Served: 1, Message: "1 waiting job needs 3 more workers: scaling from 0 to 3"}},
		},
		"a feature that nobody has": {
			func() Facts { return Facts{Sets: []Set{set("a", 0, 8)}, Jobs: jobs(2, "a", want("nvlink&a"))} },
			[]Decision{{Name: "a", State: Steady, Message: "no waiting job needs another worker; job 1 asks for the features nvlink&a, which no worker has; 1 other job can't run here either"}},
		},
		"what workers can't help": {
			func() Facts {
				return Facts{Sets: []Set{set("a", 0, 8)}, Jobs: []slurm.Job{
					job(1, "a", reason("QOSMaxCpuPerUserLimit")), job(2, "a", reason("QOSMaxCpuPerUserLimit")),
					job(3, "a", reason("JobHeldUser"), func(j *slurm.Job) { j.Priority = number(0) }),
					job(4, "a", reason("Dependency")), job(5, "a", reason("Licenses")), job(6, "a", reason("AssocGrpCpuLimit")),
					job(7, "a", func(j *slurm.Job) { j.EligibleTime = now.Add(time.Hour) }),
					job(8, "a", func(j *slurm.Job) { j.Reservation = "maint" }), job(9, "a", reason("PartitionTimeLimit")),
				}}
			},
			[]Decision{{Name: "a", State: Steady, Message: "no waiting job needs another worker; 9 jobs wait for something else than workers (first: job 1, its QOS has reached its limit of CPUs of one user (QOSMaxCpuPerUserLimit))"}},
		},
		"what is free comes first": {
			func() Facts {
				s := set("a", 2, 8)
				node(&s, slurm.NodeIdle)
				node(&s, slurm.NodeAllocated)
				return Facts{Sets: []Set{s}, Jobs: jobs(6, "a")}
			},
			[]Decision{{Name: "a", Replicas: 3, State: Growing, Served: 2, Message: "2 waiting jobs need 1 more worker: scaling from 2 to 3"}},
		},
		"workers that start": {
			func() Facts {
				s := set("a", 3, 8)
				s.Workers = []Worker{{Since: now.Add(-time.Second)}, {Since: now.Add(-time.Second)}}
				return Facts{Sets: []Set{s}, Jobs: jobs(12, "a")}
			},
			[]Decision{{Name: "a", Replicas: 3, State: Steady, Message: "12 waiting jobs need workers that are starting"}},
		},
		"workers that never come": {
			func() Facts {
				s := set("a", 1, 2)
				s.Workers = []Worker{{Since: now.Add(-time.Hour)}}
				return Facts{Sets: []Set{s}, Jobs: jobs(5, "a")}
			},
			[]Decision{{Name: "a", Replicas: 2, Served: 4, State: Growing, Message: "4 waiting jobs need 1 more worker: scaling from 1 to 2; 1 job waits for workers to get free, as maxReplicas allows 2 (first: job 5); 1 worker has not registered with Slurm within 10m0s"}},
		},
		"idle for long": {
			func() Facts {
				s := set("a", 3, 8)
				node(&s, slurm.NodeIdle).LastBusy = now.Add(-5 * time.Minute)
				node(&s, slurm.NodeAllocated)
				node(&s, slurm.NodeIdle)
				return Facts{Sets: []Set{s}}
			},
			[]Decision{{Name: "a", Replicas: 2, State: Shrinking, Message: "1 worker has been without a job for 5m0s: scaling from 3 to 2"}},
		},
		"to zero": {
			func() Facts {
				s := set("a", 2, 8)
				node(&s, slurm.NodeIdle).LastBusy = now.Add(-6 * time.Minute)
				node(&s, slurm.NodeIdle).LastBusy = now.Add(-6 * time.Minute)
				return Facts{Sets: []Set{s}}
			},
			[]Decision{{Name: "a", State: Shrinking, Message: "2 workers have been without a job for 5m0s: scaling from 2 to 0"}},
		},
		"idle, but a job will come": {
			func() Facts {
				s := set("a", 1, 8)
				node(&s, slurm.NodeIdle).LastBusy = now.Add(-6 * time.Minute)
				return Facts{Sets: []Set{s}, Jobs: jobs(1, "a")}
			},
			[]Decision{{Name: "a", Replicas: 1, State: Steady, Message: "no waiting job needs another worker"}},
		},
		"the least": {
			func() Facts { s := set("a", 0, 8); s.Min = 2; return Facts{Sets: []Set{s}} },
			[]Decision{{Name: "a", Replicas: 2, State: Growing, Message: "minReplicas is 2: scaling from 0 to 2"}},
		},
		"the most": {
			func() Facts { return Facts{Sets: []Set{set("a", 9, 8)}} },
			[]Decision{{Name: "a", Replicas: 8, State: Shrinking, Message: "maxReplicas is 8: scaling from 9 to 8"}},
		},
		"a scale-in under way": {
			func() Facts {
				s := set("a", 1, 8)
				for range 2 {
					node(&s, slurm.NodeIdle, slurm.NodeDrain).LastBusy = now.Add(-6 * time.Minute)
					s.Workers[len(s.Workers)-1].Leaving = true
				}
				node(&s, slurm.NodeAllocated)
				return Facts{Sets: []Set{s}}
			},
			[]Decision{{Name: "a", Replicas: 1, State: Steady, Message: "no waiting job needs another worker"}},
		},
		"a drained worker is no room": {
			func() Facts {
				s := set("a", 1, 8)
				node(&s, slurm.NodeIdle, slurm.NodeDrain)
				return Facts{Sets: []Set{s}, Jobs: jobs(1, "a")}
			},
			[]Decision{{Name: "a", Replicas: 2, Served: 1, State: Growing, Message: "1 waiting job needs 1 more worker: scaling from 1 to 2"}},
		},
		"the cheaper set": {
			func() Facts {
				a, b := gpuSet("a", 0, 8), set("b", 0, 8)
				a.Partitions, b.Partitions = []string{"all"}, []string{"all"}
				return Facts{Sets: []Set{a, b}, Jobs: jobs(1, "all")}
			},
			[]Decision{
				{Name: "a", State: Steady, Message: "no waiting job needs another worker"},
				{Name: "b", Replicas: 1, Served: 1, State: Growing, Message: "1 waiting job needs 1 more worker: scaling from 0 to 1"},
			},
		},
		"the preferred set": {
			func() Facts {
				a, b := gpuSet("a", 0, 8), set("b", 0, 8)
				a.Partitions, b.Partitions, a.Priority = []string{"all"}, []string{"all"}, 1
				return Facts{Sets: []Set{a, b}, Jobs: jobs(1, "all")}
			},
			[]Decision{
				{Name: "a", Replicas: 1, Served: 1, State: Growing, Message: "1 waiting job needs 1 more worker: scaling from 0 to 1"},
				{Name: "b", State: Steady, Message: "no waiting job needs another worker"},
			},
		},
		"a job over two sets": {
			func() Facts {
				a, b := set("a", 0, 2), set("b", 0, 3)
				a.Partitions, b.Partitions = []string{"all"}, []string{"all"}
				return Facts{Sets: []Set{a, b}, Jobs: jobs(1, "all", nodes(5))}
			},
			[]Decision{
				{Name: "a", Replicas: 2, Served: 1, State: Growing, Message: "1 waiting job needs 2 more workers: scaling from 0 to 2"},
				{Name: "b", Replicas: 3, Served: 1, State: Growing, Message: "1 waiting job needs 3 more workers: scaling from 0 to 3"},
			},
		},
		"a bracket's nodes are of one kind": {
			func() Facts {
				a, b := set("a", 0, 2), set("b", 0, 3)
				a.Partitions, b.Partitions = []string{"all"}, []string{"all"}
				return Facts{Sets: []Set{a, b}, Jobs: jobs(1, "all", nodes(3), want("[a|b]"))}
			},
			[]Decision{
				{Name: "a", State: Steady, Message: "no waiting job needs another worker"},
				{Name: "b", Replicas: 3, Served: 1, State: Growing, Message: "1 waiting job needs 3 more workers: scaling from 0 to 3"},
			},
		},
		"nodes outside of all sets": {
			func() Facts {
				s := set("a", 0, 2)
				other := *node(&s, slurm.NodeIdle)
				s.Workers = nil
				return Facts{Sets: []Set{s}, Others: []slurm.Node{other}, Jobs: jobs(4, "a")}
			},
			[]Decision{{Name: "a", State: Steady, Message: "no waiting job needs another worker"}},
		},
		"a heterogeneous job has all or nothing": {
			func() Facts {
				het := func(j *slurm.Job) { j.HetJobID = number(1) }
				return Facts{Sets: []Set{set("a", 0, 3)}, Jobs: []slurm.Job{job(1, "a", het, nodes(2)), job(2, "a", het, nodes(2), cpus(4)), job(3, "a")}}
			},
			[]Decision{{Name: "a", Replicas: 1, Served: 1, State: Growing, Message: "1 waiting job needs 1 more worker: scaling from 0 to 1; 1 job waits for workers to get free (first: job 2)"}},
		},
		"a large job beside busy workers that get free soon": {
			func() Facts {
				s := set("a", 1, 3)
				node(&s, slurm.NodeAllocated)
				return Facts{Sets: []Set{s}, Jobs: []slurm.Job{job(2, "a", nodes(3)), running(1, "a-0", 5*time.Minute)}}
			},
			[]Decision{{Name: "a", Replicas: 3, Served: 1, State: Growing, Message: "1 waiting job needs 2 more workers: scaling from 1 to 3"}},
		},
		"a large job beside busy workers that don't": {
			func() Facts {
				s := set("a", 1, 3)
				node(&s, slurm.NodeAllocated)
				return Facts{Sets: []Set{s}, Jobs: []slurm.Job{job(2, "a", nodes(3)), running(1, "a-0", 5*time.Hour)}}
			},
			[]Decision{{Name: "a", Replicas: 1, State: Steady, Message: "1 job waits for workers to get free (first: job 2)"}},
		},
		"an unknown size": {
			func() Facts {
				s := set("a", 0, 3)
				s.Shape.CPUs, s.Shape.Memory = 0, 0
				return Facts{Sets: []Set{s}, Jobs: jobs(50, "a", cpus(16))}
			},
			[]Decision{{Name: "a", Replicas: 1, Served: 50, State: Growing, Message: "50 waiting jobs need 1 more worker: scaling from 0 to 1"}},
		},
		"a job that waits beside room seems to need more": {
			func() Facts {
				s := set("a", 1, 3)
				n := node(&s, slurm.NodeMixed)
				n.AllocCPUs = 1
				return Facts{Sets: []Set{s}, Jobs: jobs(1, "a", func(j *slurm.Job) {
					j.SubmitTime, j.EligibleTime = now.Add(-2*time.Minute), now.Add(-2*time.Minute)
				})}
			},
			[]Decision{{Name: "a", Replicas: 2, Served: 1, State: Growing, Message: "1 waiting job needs 1 more worker: scaling from 1 to 2"}},
		},
		"patience": {
			func() Facts {
				s := set("a", 0, 3)
				s.PendingTime = time.Minute
				return Facts{Sets: []Set{s}, Jobs: jobs(1, "a")}
			},
			[]Decision{{Name: "a", State: Steady, Message: "1 job waits for workers to get free (first: job 1)"}},
		},
		"memory": {
			func() Facts {
				return Facts{Sets: []Set{set("a", 0, 8)}, Jobs: jobs(3, "a", func(j *slurm.Job) { j.Asked.MemoryPerNode = number(5000) })}
			},
			[]Decision{{Name: "a", Replicas: 3, Served: 3, State: Growing, Message: "3 waiting jobs need 3 more workers: scaling from 0 to 3"}},
		},
		"more memory than there is": {
			func() Facts {
				return Facts{Sets: []Set{set("a", 0, 8)}, Jobs: jobs(1, "a", func(j *slurm.Job) { j.Asked.MemoryPerNode = number(9000) })}
			},
			[]Decision{{Name: "a", State: Steady, Message: "no waiting job needs another worker; job 1 asks for 9000 MiB of memory on a node, more than any worker has"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := tc.facts()
			f.Now = now
			if diff := cmp.Diff(tc.want, Make(f).Decisions); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// running is a job on a node that has so long to go.
func running(id uint32, node string, left time.Duration) slurm.Job {
	return slurm.Job{ID: id, States: slurm.StatesOf(slurm.JobRunning), Nodes: node, TimeLimit: number(60), EndTime: now.Add(left)}
}
