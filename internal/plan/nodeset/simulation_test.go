package nodeset

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// world is a model of Kubernetes and Slurm around one NodeSet.
type world struct {
	t     *testing.T
	rnd   *rand.Rand
	facts Facts
	pods  map[string]*corev1.Pod
	// jobs counts the running jobs of a Slurm node.
	jobs  map[string]int
	nodes map[string]*slurm.Node
	// slurmUp tells whether Slurm answers.
	slurmUp bool
	uid     int
	log     []string
}

func newWorld(t *testing.T, seed int64) *world {
	f := facts(3)
	f.Nodes["k"] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "k"}}
	return &world{
		t: t, rnd: rand.New(rand.NewSource(seed)), facts: f, slurmUp: true,
		pods: map[string]*corev1.Pod{}, jobs: map[string]int{}, nodes: map[string]*slurm.Node{},
	}
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nhistory:\n%s", fmt.Sprintf(format, args...), strings.Join(w.log, "\n"))
}

func (w *world) observe() Facts {
	f := w.facts
	f.Pods = nil
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		f.Pods = append(f.Pods, *w.pods[name].DeepCopy())
	}
	w.rnd.Shuffle(len(f.Pods), func(i, j int) { f.Pods[i], f.Pods[j] = f.Pods[j], f.Pods[i] })
	f.Slurm = SlurmFacts{Known: w.slurmUp, Why: "down"}
	if w.slurmUp {
		f.Slurm.Nodes = map[string]slurm.Node{}
		for name, n := range w.nodes {
			copied := *n
			if w.jobs[name] > 0 {
				copied.States = slurm.StatesOf(append([]string{slurm.NodeMixed}, without(n.States, slurm.NodeIdle)...)...)
			}
			f.Slurm.Nodes[name] = copied
		}
	}
	return f
}

func without(states slurm.States, word string) []string {
	return slices.DeleteFunc(slices.Clone([]string(states)), func(s string) bool { return s == word })
}

// event is something that happens to the world by itself or by people.
func (w *world) event() {
	pods := slices.Sorted(maps.Keys(w.pods))
	nodes := slices.Sorted(maps.Keys(w.nodes))
	switch w.rnd.Intn(10) {
	case 0:
		n := int32(w.rnd.Intn(5))
		w.facts.NodeSet.Spec.Replicas = &n
		w.note("scale to %d", n)
	case 1:
		w.facts.NodeSet.Spec.ExtraConf = fmt.Sprintf("Weight=%d", 1+w.rnd.Intn(3))
		w.note("template with %s", w.facts.NodeSet.Spec.ExtraConf)
	case 2:
		w.slurmUp = !w.slurmUp
		w.note("slurm answers: %v", w.slurmUp)
	case 3, 4:
		w.startJob(nodes)
	case 5:
		for _, name := range nodes {
			if w.jobs[name] > 0 {
				w.jobs[name]--
				w.note("a job ends on %s", name)
				break
			}
		}
	case 6:
		if len(pods) > 0 {
			pod := w.pods[pods[w.rnd.Intn(len(pods))]]
			pod.Status.Phase = corev1.PodFailed
			w.jobs[pod.Name] = 0
			w.note("pod %s fails", pod.Name)
		}
	case 7:
		w.adminDrain(nodes)
	default:
		w.kubelet(pods)
	}
}

func (w *world) startJob(nodes []string) {
	for _, i := range w.rnd.Perm(len(nodes)) {
		n := w.nodes[nodes[i]]
		if pod := w.pods[n.Name]; pod != nil && workernode.Ready(pod) && pod.DeletionTimestamp == nil && n.States.Has(slurm.NodeIdle) && !n.States.Has(slurm.NodeDrain) {
			w.jobs[n.Name]++
			w.note("a job starts on %s", n.Name)
			return
		}
	}
}

func (w *world) adminDrain(nodes []string) {
	if len(nodes) == 0 {
		return
	}
	n := w.nodes[nodes[w.rnd.Intn(len(nodes))]]
	switch {
	case n.States.Has(slurm.NodeDrain) && n.Reason == "admin":
		n.States, n.Reason = slurm.StatesOf(without(n.States, slurm.NodeDrain)...), ""
		w.note("the administrator resumes %s", n.Name)
	case !n.States.Has(slurm.NodeDrain):
		n.States, n.Reason = slurm.StatesOf(append([]string{slurm.NodeDrain}, n.States...)...), "admin"
		w.note("the administrator drains %s", n.Name)
	}
}

// kubelet moves every pod one step on.
func (w *world) kubelet(pods []string) {
	for _, name := range pods {
		pod := w.pods[name]
		switch {
		case pod.DeletionTimestamp != nil:
			delete(w.pods, name)
			if n := w.nodes[name]; n != nil {
				n.States = slurm.StatesOf(append([]string{slurm.NodeDown}, without(n.States, slurm.NodeIdle)...)...)
				if n.Reason == "" {
					n.Reason = v1beta1.OperatorReasonPrefix + "Pod is terminating"
				}
			}
			w.note("pod %s is gone", name)
		case pod.Status.Phase == "":
			pod.Status.Phase, pod.Spec.NodeName = corev1.PodRunning, "k"
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			if w.nodes[name] == nil {
				w.nodes[name] = &slurm.Node{Name: name, States: slurm.StatesOf(slurm.NodeIdle)}
			}
			w.note("pod %s is ready", name)
		}
	}
}

// carryOut does what a plan says, and checks it against the truth.
func (w *world) carryOut(plan Plan) {
	seen := map[string]bool{}
	for _, s := range plan.Steps {
		w.note("  %s", s)
		on := string(s.Action) + s.Node
		if s.Pod != nil {
			on = string(s.Action) + s.Pod.Name
		}
		if s.Revision != nil {
			on = "revision " + s.Revision.Name
		}
		if seen[on] {
			w.fail("step twice: %s", s)
		}
		seen[on] = true
		switch s.Action {
		case CreatePod:
			if w.pods[s.Pod.Name] != nil {
				w.fail("pod exists: %s", s)
			}
			w.uid++
			s.Pod.UID = types.UID(fmt.Sprint(w.uid))
			w.pods[s.Pod.Name] = s.Pod
		case DeletePod:
			w.checkDelete(s)
			w.pods[s.Pod.Name].DeletionTimestamp = &metav1.Time{Time: w.facts.Now}
		case Drain, Undrain, Resume, Describe:
			w.updateNode(s)
		case Forget:
			if w.jobs[s.Node] > 0 || w.pods[s.Node] != nil || !workernode.OwnsReason(w.nodes[s.Node].Reason) {
				w.fail("forgotten: %s", s)
			}
			delete(w.nodes, s.Node)
		case Mark:
			merge(w.pods[s.Pod.Name].Labels, s.Side.Labels)
			if w.pods[s.Pod.Name].Annotations == nil {
				w.pods[s.Pod.Name].Annotations = map[string]string{}
			}
			merge(w.pods[s.Pod.Name].Annotations, s.Side.Annotations)
		case Mirror:
			w.mirror(s)
		case CreateRevision:
			w.facts.Revisions = append(w.facts.Revisions, *s.Revision)
		case UpdateRevision:
			for i := range w.facts.Revisions {
				if w.facts.Revisions[i].Name == s.Revision.Name {
					w.facts.Revisions[i].Revision = s.Revision.Revision
				}
			}
		case DeleteRevision:
			w.facts.Revisions = slices.DeleteFunc(w.facts.Revisions, func(r appsv1.ControllerRevision) bool { return r.Name == s.Revision.Name })
		}
	}
}

// updateNode is what slurmctld does.
func (w *world) updateNode(s Step) {
	n, u := w.nodes[s.Node], s.Side.Update.Change
	if n.Reason == "admin" && u.State != "" && u.Reason != "admin" {
		w.fail("what an administrator set is changed: %s", s)
	}
	if u.Comment != nil {
		n.Comment = *u.Comment
	}
	base := slurm.NodeIdle
	if n.States.Has(slurm.NodeDown) {
		base = slurm.NodeDown
	}
	switch u.State {
	case "DRAIN":
		n.States, n.Reason = slurm.StatesOf(append([]string{slurm.NodeDrain}, n.States...)...), u.Reason
	case "UNDRAIN":
		n.States, n.Reason = slurm.StatesOf(append([]string{base}, without(n.States, slurm.NodeDrain)...)...), ""
	case "RESUME":
		n.States, n.Reason = slurm.StatesOf(slurm.NodeIdle), ""
	}
}

func merge(into map[string]string, changes map[string]*string) {
	for key, value := range changes {
		if value == nil {
			delete(into, key)
		} else {
			into[key] = *value
		}
	}
}

func (w *world) mirror(s Step) {
	status := &w.pods[s.Pod.Name].Status
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return slices.Contains(s.Side.Gone, c.Type) || slices.ContainsFunc(s.Side.Conditions, func(n corev1.PodCondition) bool { return n.Type == c.Type })
	})
	status.Conditions = append(status.Conditions, s.Side.Conditions...)
}

func (w *world) checkDelete(s Step) {
	pod := w.pods[s.Pod.Name]
	if pod == nil || pod.DeletionTimestamp != nil || pod.UID != s.Pod.UID {
		w.fail("no such pod: %s", s)
	}
	if pod.Status.Phase == corev1.PodFailed {
		return
	}
	if !w.slurmUp {
		w.fail("deleted while Slurm doesn't answer: %s", s)
	}
	if w.jobs[pod.Name] > 0 {
		w.fail("deleted with a running job: %s", s)
	}
}

func (w *world) round() Plan {
	f := w.observe()
	plan := Make(f)
	w.rnd.Shuffle(len(f.Pods), func(i, j int) { f.Pods[i], f.Pods[j] = f.Pods[j], f.Pods[i] })
	if diff := cmp.Diff(plan, Make(f)); diff != "" {
		w.fail("another plan for the same facts:\n%s", diff)
	}
	w.carryOut(plan)
	w.facts.Now = w.facts.Now.Add(time.Second)
	return plan
}

// settle lets all jobs end and everything come up, and checks that the NodeSet becomes what it should be.
func (w *world) settle() {
	w.note("settle")
	w.slurmUp = true
	clear(w.jobs)
	for range 60 {
		w.round()
		w.kubelet(slices.Sorted(maps.Keys(w.pods)))
	}
	plan := w.round()
	w.facts.NodeSet.Status = plan.Status
	if len(plan.Steps) > 0 {
		w.fail("never settles: %v", plan.Steps)
	}
	if s := plan.Status; s.ReadyReplicas != s.Desired || s.UpdatedReplicas != s.Desired || s.Replicas != s.Desired {
		w.fail("settled at %+v", s)
	}
	for name := range w.pods {
		if n := w.nodes[name]; n == nil || workernode.OwnsReason(n.Reason) {
			w.fail("node %s is left %+v", name, n)
		}
	}
}

// TestSequences runs seeded random histories. Always: no pod with a job is deleted, none
// without Slurm's answer, no reason of an administrator is touched, the same facts give
// the same plan. In the end: as many ready and current pods as wanted, no drain of ours left.
func TestSequences(t *testing.T) {
	for seed := range int64(60) {
		w := newWorld(t, seed)
		for range 120 {
			w.event()
			if w.rnd.Intn(3) > 0 {
				w.round()
			}
		}
		w.settle()
	}
}
