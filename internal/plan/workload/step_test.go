package workload

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/slurm"
)

// job returns a job of cluster c1 that names pods.
func job(id uint32, state string, pods ...string) slurm.Job {
	c := Comment{Mark: &Mark{Cluster: "c1", Workload: "uid-g"}}
	for _, p := range pods {
		c.Pods = append(c.Pods, "ns/"+p)
		c.Mark.Pods = append(c.Mark.Pods, types.UID("uid-"+p))
	}
	j := slurm.Job{ID: id, States: slurm.StatesOf(state), Flags: []string{slurm.FlagExternalJob}, AdminComment: c.Encode()}
	if state == slurm.JobRunning {
		j.Nodes = "n[1-9]"
	}
	return j
}

func onNode(p *corev1.Pod)   { p.Spec.NodeName = "n1" }
func ended(p *corev1.Pod)    { p.Status.Phase = corev1.PodFailed }
func deleting(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
func gated(p *corev1.Pod)    { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x"}} }
func named(id string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{"scheduler.slinky.slurm.net/slurm-jobid": id}
	}
}

func TestNext(t *testing.T) {
	foreign := job(9, slurm.JobRunning, "a")
	foreign.AdminComment = strings.Replace(foreign.AdminComment, `"c1"`, `"c2"`, 1)
	gang := Group{Key: Key{Kind: KindPodGroup, Namespace: "ns", Name: "g"}, UID: "uid-g", MinCount: 2}
	single := Group{Key: Key{Kind: KindPod, Namespace: "ns", Name: "a", UID: "uid-a"}, UID: "uid-a", MinCount: 1}
	independent := gang
	independent.Independent = true
	absent := gang
	absent.UID = ""
	for name, c := range map[string]struct {
		group Group
		pods  []*corev1.Pod
		jobs  []slurm.Job
		want  []string
	}{
		"a new pod":                        {single, []*corev1.Pod{pod("a")}, nil, []string{"Submit a"}},
		"a pod behind a gate":              {single, []*corev1.Pod{pod("a", gated)}, nil, nil},
		"a pod on its way out":             {single, []*corev1.Pod{pod("a", deleting)}, nil, nil},
		"a pod whose job waits":            {single, []*corev1.Pod{pod("a")}, []slurm.Job{job(1, slurm.JobPending, "a")}, []string{"Queued a job 1"}},
		"a pod whose job runs":             {single, []*corev1.Pod{pod("a")}, []slurm.Job{job(1, slurm.JobRunning, "a")}, []string{"Place a job 1"}},
		"a pod whose job is suspended":     {single, []*corev1.Pod{pod("a")}, []slurm.Job{job(1, slurm.JobSuspended, "a")}, []string{"Queued a job 1"}},
		"a pod whose job ended":            {single, []*corev1.Pod{pod("a")}, []slurm.Job{job(1, slurm.JobTimeout, "a")}, []string{"Submit a"}},
		"a bound pod":                      {single, []*corev1.Pod{pod("a", onNode)}, []slurm.Job{job(1, slurm.JobRunning, "a")}, nil},
		"a job of another cluster":         {single, []*corev1.Pod{pod("a")}, []slurm.Job{foreign}, []string{"Submit a"}},
		"two jobs":                         {single, []*corev1.Pod{pod("a")}, []slurm.Job{job(1, slurm.JobPending, "a"), job(2, slurm.JobPending, "a")}, []string{"Cancel job 2", "Queued a job 1"}},
		"two jobs, one runs":               {single, []*corev1.Pod{pod("a")}, []slurm.Job{job(1, slurm.JobPending, "a"), job(2, slurm.JobRunning, "a")}, []string{"Place a job 2", "Cancel job 1"}},
		"two jobs, the pod names one":      {single, []*corev1.Pod{pod("a", named("1"))}, []slurm.Job{job(1, slurm.JobPending, "a"), job(2, slurm.JobRunning, "a")}, []string{"Cancel job 2", "Queued a job 1"}},
		"half a gang":                      {gang, []*corev1.Pod{pod("a")}, nil, []string{"Wait a: PodGroup ns/g has 1 of the 2 pods that must start together"}},
		"half a gang behind a gate":        {gang, []*corev1.Pod{pod("a"), pod("b", gated)}, nil, []string{"Wait a: PodGroup ns/g has 1 of the 2 pods that must start together, and 1 more behind scheduling gates"}},
		"ended members don't count":        {gang, []*corev1.Pod{pod("a"), pod("b", ended), pod("c", deleting)}, nil, []string{"Wait a: PodGroup ns/g has 1 of the 2 pods that must start together"}},
		"a whole gang":                     {gang, []*corev1.Pod{pod("b"), pod("a")}, nil, []string{"Submit a b"}},
		"a gang without its PodGroup":      {absent, []*corev1.Pod{pod("a"), pod("b")}, nil, []string{"Wait a b: PodGroup ns/g doesn't exist"}},
		"a gang half bound":                {gang, []*corev1.Pod{pod("a", onNode), pod("b")}, []slurm.Job{job(1, slurm.JobRunning, "a", "b")}, []string{"Place b job 1"}},
		"a gang that lost one while":       {gang, []*corev1.Pod{pod("a"), pod("c")}, []slurm.Job{job(1, slurm.JobPending, "a", "b")}, []string{"Update a c job 1"}},
		"a replaced member":                {gang, []*corev1.Pod{pod("a", onNode), pod("b", ended, onNode), pod("c")}, []slurm.Job{job(1, slurm.JobRunning, "a", "b")}, []string{"Rejoin c job 1 as uid-a uid-c"}},
		"a further member":                 {gang, []*corev1.Pod{pod("a", onNode), pod("b", onNode), pod("c")}, []slurm.Job{job(1, slurm.JobRunning, "a", "b")}, []string{"Submit c"}},
		"a new generation":                 {gang, []*corev1.Pod{pod("a", ended, onNode), pod("b", ended, onNode), pod("c"), pod("d")}, []slurm.Job{job(1, slurm.JobRunning, "a", "b")}, []string{"Submit c d"}},
		"independent members of one group": {independent, []*corev1.Pod{pod("a"), pod("b")}, nil, []string{"Submit a", "Submit b"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range Next(Observed{Group: c.group, Pods: c.pods, Jobs: c.jobs, Cluster: "c1"}) {
				got = append(got, text(s))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func text(s Step) string {
	out := string(s.Kind)
	for _, p := range s.Pods {
		out += " " + p.Name
	}
	if s.Job.ID != 0 {
		out += fmt.Sprintf(" job %d", s.Job.ID)
	}
	switch {
	case s.Kind == StepRejoin:
		out += " as"
		for _, uid := range s.Mark.Pods {
			out += " " + string(uid)
		}
	case s.Reason != "" && len(s.Pods) > 0:
		out += ": " + s.Reason
	}
	return out
}

// TestNextInvariants checks over random situations what must always hold.
func TestNextInvariants(t *testing.T) {
	states := []string{slurm.JobPending, slurm.JobRunning, slurm.JobCancelled, slurm.JobSuspended}
	changes := []func(*corev1.Pod){func(*corev1.Pod) {}, onNode, ended, deleting, gated}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := Group{Key: Key{Kind: KindPodGroup, Namespace: "ns", Name: "g"}, UID: "uid-g", MinCount: 1 + r.IntN(4), Independent: r.IntN(4) == 0}
		var pods []*corev1.Pod
		names := []string{"a", "b", "c", "d", "e"}
		for _, n := range names {
			if r.IntN(4) > 0 {
				pods = append(pods, pod(n, changes[r.IntN(len(changes))]))
			}
		}
		var jobs []slurm.Job
		for id := range r.IntN(4) {
			r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			jobs = append(jobs, job(uint32(id+1), states[r.IntN(len(states))], names[:1+r.IntN(3)]...))
		}
		check(t, seed, g, pods, jobs)
	}
}

func check(t *testing.T, seed uint64, g Group, pods []*corev1.Pod, jobs []slurm.Job) {
	t.Helper()
	steps := Next(Observed{Group: g, Pods: pods, Jobs: jobs, Cluster: "c1"})
	again := Next(Observed{Group: g, Pods: pods, Jobs: jobs, Cluster: "c1"})
	if d := cmp.Diff(steps, again); d != "" {
		t.Errorf("seed %d: not the same twice: %s", seed, d)
	}
	seen := map[types.UID]bool{}
	for _, s := range steps {
		for _, p := range s.Pods {
			if seen[p.UID] {
				t.Errorf("seed %d: pod %s is in two steps", seed, p.Name)
			}
			seen[p.UID] = true
			if !Live(p) || p.Spec.NodeName != "" || s.Kind == StepSubmit && len(p.Spec.SchedulingGates) > 0 {
				t.Errorf("seed %d: step %s for pod %s that needs none", seed, s.Kind, p.Name)
			}
		}
		if s.Kind != StepSubmit {
			continue
		}
		if s.Least < 1 || s.Least > len(s.Pods) {
			t.Errorf("seed %d: %d of %d pods must start together", seed, s.Least, len(s.Pods))
		}
		for _, p := range s.Pods {
			for _, j := range jobs {
				if !j.States.JobEnded() && strings.Contains(j.AdminComment, string(p.UID)) {
					t.Errorf("seed %d: pod %s is submitted although job %d covers it", seed, p.Name, j.ID)
				}
			}
		}
	}
}
