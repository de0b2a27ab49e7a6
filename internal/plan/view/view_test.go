package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// short is a line of the queue in the words that tests compare.
func short(i Item) string {
	s := fmt.Sprintf("%s %s %s job=%d jobs=%d pods=%d/%d cpus=%d nodes=%s", i.State, i.Kind, i.Name, i.Job, i.Jobs, i.PodsRunning, len(i.Pods), i.CPUs, i.Nodes)
	if i.Reason != "" {
		s += ": " + i.Reason
	}
	return s
}

func TestQueue(t *testing.T) {
	group := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} }
	}
	says := func(reason, text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: v1beta1.ConditionSlurmScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: text}}
		}
	}
	cases := map[string]struct {
		make  func(f *Facts)
		ended bool
		want  []string
	}{
		"nothing": {make: func(*Facts) {}},
		"a native job that runs and one that waits": {
			make: func(f *Facts) {
				f.job(2, slurm.JobPending, reason("Priority"))
				f.job(1, slurm.JobRunning, on("metal"))
			},
			want: []string{
				"Running job job-1 job=1 jobs=1 pods=0/0 cpus=2 nodes=metal",
				"Waiting job job-2 job=2 jobs=1 pods=0/0 cpus=2 nodes=: jobs of higher priority wait for the same nodes (Priority)",
			},
		},
		"what needs somebody comes first": {
			make: func(f *Facts) {
				f.job(1, slurm.JobRunning, on("metal"))
				f.job(2, slurm.JobPending, reason("JobHeldUser"))
			},
			want: []string{
				"NeedsAction job job-2 job=2 jobs=1 pods=0/0 cpus=2 nodes=: its user holds it (JobHeldUser)",
				"Running job job-1 job=1 jobs=1 pods=0/0 cpus=2 nodes=metal",
			},
		},
		"a group is one line, by its name": {
			make: func(f *Facts) {
				f.pod("train-0", func(p *corev1.Pod) { bound("k1", "0-1")(p); group("train")(p) })
				f.pod("train-1", func(p *corev1.Pod) { bound("k2", "0-1")(p); group("train")(p) })
				f.job(7, slurm.JobRunning, both(bridged("train-0", "train-1"), on("k[1-2]")))
			},
			want: []string{"Running group ml/train job=7 jobs=1 pods=2/2 cpus=2 nodes=k[1-2]"},
		},
		"a group one of whose pods has no node yet": {
			make: func(f *Facts) {
				f.pod("train-0", bound("k1", "0-1"))
				f.pod("train-1", nil)
				f.job(7, slurm.JobRunning, both(bridged("train-0", "train-1"), on("k[1-2]")))
			},
			want: []string{"Starting group ml/train-0 job=7 jobs=1 pods=1/2 cpus=2 nodes=k[1-2]: its pods are about to be bound"},
		},
		"a container that can't start is told": {
			make: func(f *Facts) {
				f.pod("a", func(p *corev1.Pod) {
					bound("k1", "")(p)
					p.Status.Phase = corev1.PodPending
					p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
				})
				f.job(7, slurm.JobRunning, both(bridged("a"), on("k1")))
			},
			want: []string{"Starting pod ml/a job=7 jobs=1 pods=0/1 cpus=2 nodes=k1: container c of a waits: ErrImagePull"},
		},
		"pods without a job": {
			make: func(f *Facts) {
				f.pod("a", says("NoUsableNode", "no node fits"))
				f.pod("b", says("SlurmUnavailable", "Slurm doesn't answer"))
				f.pod("c", nil)
				f.pod("other", func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" })
			},
			want: []string{
				"NeedsAction pod ml/a job=0 jobs=0 pods=0/1 cpus=2 nodes=: no node fits",
				"Waiting pod ml/b job=0 jobs=0 pods=0/1 cpus=2 nodes=: Slurm doesn't answer",
				"Waiting pod ml/c job=0 jobs=0 pods=0/1 cpus=2 nodes=: the bridge has not said anything about it",
			},
		},
		"an array is one line for what waits and one for what runs": {
			make: func(f *Facts) {
				array := func(j *slurm.Job) { j.Name, j.ArrayJobID = "sweep", slurm.NumberOf(10) }
				f.job(10, slurm.JobPending, func(j *slurm.Job) { array(j); j.ArrayTasks, j.Reason = "3-9:2,12%2", "Resources" })
				f.job(11, slurm.JobRunning, both(array, on("metal")))
				f.job(12, slurm.JobRunning, both(array, on("w-0")))
			},
			want: []string{
				"Running array sweep job=10 jobs=2 pods=0/0 cpus=4 nodes=metal,w-0",
				"Waiting array sweep job=10 jobs=5 pods=0/0 cpus=10 nodes=: no suitable nodes are free now (Resources)",
			},
		},
		"what has ended is there if asked for": {
			ended: true,
			make: func(f *Facts) {
				f.job(1, slurm.JobTimeout, on("metal"))
				f.job(2, slurm.JobFailed, func(j *slurm.Job) { j.EndTime = j.SubmitTime }) // no allocation at once: it never was a job
			},
			want: []string{"Ended job job-1 job=1 jobs=1 pods=0/0 cpus=2 nodes=metal: Slurm job 1 reached its time limit"},
		},
		"what has ended isn't there otherwise": {make: func(f *Facts) { f.job(1, slurm.JobTimeout, on("metal")) }},
		"the pod of that name was made again": {
			make: func(f *Facts) {
				f.pod("a", func(p *corev1.Pod) { p.UID = "another" })
				f.job(7, slurm.JobRunning, both(bridged("a"), on("k1")))
			},
			want: []string{
				"Running pod ml/a job=7 jobs=1 pods=0/1 cpus=2 nodes=k1",
				"Waiting pod ml/a job=0 jobs=0 pods=0/1 cpus=2 nodes=: the bridge has not said anything about it",
			},
		},
		"a pod on a node whose job Slurm has forgotten": {
			make: func(f *Facts) { f.pod("a", bound("k1", "0")) },
			want: []string{"NeedsAction pod ml/a job=0 jobs=0 pods=1/1 cpus=2 nodes=k1: it is on a node, and Slurm has no record of its job"},
		},
		"the same while Slurm is away is no alarm": {
			make: func(f *Facts) { f.pod("a", bound("k1", "0")); f.Slurm = Slurm{Source: Source{Error: "no route"}} },
			want: []string{"Running pod ml/a job=0 jobs=0 pods=1/1 cpus=2 nodes=k1"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := world()
			tc.make(&f)
			var got []string
			for _, i := range New(f).Queue(tc.ended) {
				got = append(got, short(i))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("want -, got +\n%s", diff)
			}
		})
	}
}

func TestTimesOfTheQueue(t *testing.T) {
	f := world()
	f.job(1, slurm.JobPending, func(j *slurm.Job) { j.Reason, j.StartTime = "Resources", now.Add(time.Hour) })
	f.job(2, slurm.JobPending, func(j *slurm.Job) { j.Reason, j.StartTime = "Resources", now.Add(365*24*time.Hour) })
	f.job(3, slurm.JobPending, func(j *slurm.Job) { j.Reason, j.StartTime = "Resources", now.Add(-time.Hour) })
	var got []string
	for _, i := range New(f).Queue(false) {
		got = append(got, fmt.Sprintf("%d %v %d/%d", i.Job, i.Start.Equal(now.Add(time.Hour)), i.Place, i.Of))
		if i.Job != 1 && !i.Start.IsZero() {
			t.Errorf("job %d is expected at %v", i.Job, i.Start)
		}
	}
	if diff := cmp.Diff([]string{"1 true 1/3", "2 false 2/3", "3 false 3/3"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNodes(t *testing.T) {
	f := world()
	f.Slurm.Nodes[1].States, f.Slurm.Nodes[1].Reason = slurm.StatesOf("IDLE", "DRAIN", "EXTERNAL"), "slurm-bridge: it is cordoned in Kubernetes"
	f.Kubernetes.Nodes[1].Spec.Unschedulable = true
	f.Slurm.Nodes[3].States, f.Slurm.Nodes[3].Reason, f.Slurm.Nodes[3].ReasonUser = slurm.StatesOf("DOWN", "NOT_RESPONDING"), "bad disk", "root"
	f.pod("a", bound("k1", "2-3"))
	f.pod("b", bound("k1", "0-1"))
	f.pod("alone", func(p *corev1.Pod) { bound("k1", "")(p); p.Spec.SchedulerName = "default-scheduler" })
	f.job(7, slurm.JobRunning, both(bridged("a", "b"), on("k1")))
	f.job(8, slurm.JobRunning, on("w-0"))
	f.Slurm.Allocations = []slurm.Allocation{{JobID: 8, Nodes: []slurm.NodeAllocation{{Node: "w-0", Cores: []int{1, 2}, GRES: []slurm.GRESAllocation{{Name: "gpu", Count: 1, Indexes: []int{3}}}}}}}
	var got []string
	for _, n := range New(f).Nodes() {
		s := fmt.Sprintf("%s %s %s kube=%s slurm=%s worker=%s cpus=%d/%d others=%d", n.Name, n.Role, n.Health, n.Kubernetes, n.Slurm, n.Worker, n.Used.CPUs, n.Total.CPUs, n.OtherPods)
		for _, o := range n.Occupants {
			s += fmt.Sprintf(" [%d %s %s %s]", o.Job, o.Name, o.Cores, o.GRES)
		}
		for _, c := range n.Causes {
			s += " <" + c.String() + ">"
		}
		got = append(got, s)
	}
	want := []string{
		"k1 external up kube=k1 slurm=k1 worker= cpus=0/8 others=1 [7 ml/b 0-1 ] [7 ml/a 2-3 ]",
		"k2 external drained kube=k2 slurm=k2 worker= cpus=0/8 others=0 <drained in Slurm by bridge: it is cordoned in Kubernetes> <cordoned in Kubernetes>",
		"k3 kubernetes up kube=k3 slurm= worker= cpus=0/8 others=0",
		"metal slurm down kube= slurm=metal worker= cpus=0/4 others=0 <down in Slurm by root: bad disk>",
		"w-0 worker up kube=k3 slurm=w-0 worker=slurm/w-0 cpus=0/4 others=0 [8 job-8 1-2 gpu:1(IDX:3)]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

func TestCoreMap(t *testing.T) {
	n := Node{Sockets: 2, CoresPerSocket: 4, Occupants: []Occupant{{Name: "a", Cores: "0-1"}, {Name: "b", Cores: "4,99"}, {Name: "c"}}}
	cores, complete := n.CoreMap()
	if diff := cmp.Diff([]int{0, 0, -1, -1, 1, -1, -1, -1}, cores); diff != "" || complete {
		t.Errorf("complete %v, %s", complete, diff)
	}
	if cores, _ := (Node{Sockets: 1 << 30, CoresPerSocket: 1 << 30}).CoreMap(); cores != nil {
		t.Errorf("a node without bound is drawn with %d cores", len(cores))
	}
}

func TestStatus(t *testing.T) {
	f := world()
	f.pod("a", bound("k1", "0-1"))
	f.job(7, slurm.JobRunning, both(bridged("a"), on("k1")))
	f.job(8, slurm.JobRunning, on("metal"))
	f.job(9, slurm.JobPending, reason("Resources"))
	f.job(10, slurm.JobPending, reason("Resources"))
	f.job(11, slurm.JobPending, reason("JobHeldAdmin"))
	f.use("k1", 2)
	f.use("metal", 2)
	f.Slurm.Nodes[1].States, f.Slurm.Nodes[1].Reason = slurm.StatesOf("IDLE", "DRAIN", "EXTERNAL"), "fan"
	s := New(f).Status()
	if s.Use == nil {
		t.Fatal("the use isn't known")
	}
	got := map[string]uint64{"total": s.Use.Total.CPUs, "jobs": s.Use.Jobs.CPUs, "pods": s.Use.Pods.CPUs, "free": s.Use.Free.CPUs, "away": s.Use.Away.CPUs, "asked": s.Use.Asked.CPUs}
	want := map[string]uint64{"total": 24, "jobs": 2, "pods": 2, "free": 12, "away": 8, "asked": 6}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if diff := cmp.Diff([]Reason{
		{Word: "Resources", Text: "no suitable nodes are free now (Resources)", Count: 2},
		{Word: "JobHeldAdmin", Text: "an administrator holds it (JobHeldAdmin)", Count: 1, NeedsAction: true},
	}, s.Waiting); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if len(s.Problems) != 2 || s.Problems[0].Where != "node k2" || !strings.HasPrefix(s.Problems[1].Where, "job 11") {
		t.Errorf("problems are %+v", s.Problems)
	}
}

// TestOldIsNotShownAsFresh: what isn't known is never counted as if it were.
func TestOldIsNotShownAsFresh(t *testing.T) {
	f := world()
	f.Slurm.Known, f.Slurm.Error, f.Slurm.Read = false, "no route to host", now.Add(-10*time.Minute)
	m := New(f)
	s := m.Status()
	if s.Use != nil || s.Slurm.Known || s.Slurm.Nodes[HealthUp] != 0 {
		t.Errorf("the status is %+v", s.Slurm)
	}
	if len(s.Problems) == 0 || s.Problems[0].Where != "Slurm" || !strings.Contains(s.Problems[0].What, "it last answered 10 min ago") {
		t.Errorf("problems are %+v", s.Problems)
	}
	for _, n := range m.Nodes() {
		if n.Slurm != "" && n.Health != HealthUnknown {
			t.Errorf("node %s is %s", n.Name, n.Health)
		}
	}
}

func TestFind(t *testing.T) {
	f := world()
	f.pod("train-0", func(p *corev1.Pod) {
		bound("k1", "0")(p)
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "train"}}
	})
	f.pod("train-1", func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "train"}} })
	f.pod("k2", nil)
	f.job(7, slurm.JobRunning, both(bridged("train-0"), on("k1")))
	m := New(f)
	for target, want := range map[string]string{
		"7": "train-0 7", "train-0": "train-0 7", "pod/train-0": "train-0 7", "ml/train-0": "train-0 7", "job/train": "train-1 0", "train": "train-1 0", "k2": "k2 0", "node/k2": "node k2",
		"k3": "node k3", "metal": "node metal", "w-0": "node w-0", "other/train-0": "error", "8": "error", "nope": "error", "node/nope": "error", "": "error",
	} {
		found, err := m.Find("ml", target)
		got := "error"
		switch {
		case err == nil && found.Node != nil:
			got = "node " + found.Node.Name
		case err == nil:
			id := uint32(0)
			if found.Facts.Job != nil {
				id = found.Facts.Job.ID
			}
			got = fmt.Sprintf("%s %d", found.Facts.Pod.Name, id)
		}
		if got != want {
			t.Errorf("%q finds %s, want %s (%v)", target, got, want, err)
		}
	}
}

func TestTop(t *testing.T) {
	f := world()
	f.pod("a", bound("k1", "0"))
	f.job(7, slurm.JobRunning, both(bridged("a"), on("k1")))
	f.job(8, slurm.JobRunning, both(on("metal"), func(j *slurm.Job) { j.TRESAllocated = "cpu=4,mem=2G,gres/gpu:h100=3" }))
	f.job(9, slurm.JobPending, nil)
	want := []Owner{
		{World: "Slurm", Name: "alice", Running: 1, Waiting: 1, Has: Amounts{4, 2048, 3}, Asks: Amounts{2, 1024, 0}},
		{World: "Kubernetes", Name: "ml", Running: 1, Has: Amounts{2, 1024, 0}},
	}
	if diff := cmp.Diff(want, New(f).Top()); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

// TestSameFactsSameBytes: the order in which the worlds list things changes nothing.
func TestSameFactsSameBytes(t *testing.T) {
	f := world()
	f.pod("a", bound("k1", "0"))
	f.pod("b", nil)
	f.job(7, slurm.JobRunning, both(bridged("a"), on("k1")))
	f.job(8, slurm.JobPending, reason("Resources"))
	f.job(9, slurm.JobPending, reason("Priority"))
	text := func(f Facts) string {
		m := New(f)
		out, err := json.Marshal([]any{m.Status(), m.Queue(true), m.Nodes(), m.Top(), m.Plans()})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	first := text(f)
	g := f
	g.Slurm.Jobs, g.Slurm.Nodes, g.Kubernetes.Pods = reversed(f.Slurm.Jobs), reversed(f.Slurm.Nodes), reversed(f.Kubernetes.Pods)
	if diff := cmp.Diff(first, text(g)); diff != "" {
		t.Error(diff)
	}
}

func reversed[T any](list []T) []T {
	out := make([]T, 0, len(list))
	for i := range list {
		out = append(out, list[len(list)-1-i])
	}
	return out
}
