package nodeset

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

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
	// slurmUp tells whether Slurm answers, lies whether what it answers is wrong.
	slurmUp, lies bool
	// before are the nodes of an earlier answer.
	before      map[string]slurm.Node
	reservation *slurm.Reservation
	uid, made   int
	log         []string
}

func newWorld(t *testing.T, seed int64) *world {
	w := &world{
		t: t, rnd: rand.New(rand.NewSource(seed)), facts: facts(3), slurmUp: true,
		pods: map[string]*corev1.Pod{}, jobs: map[string]int{}, nodes: map[string]*slurm.Node{},
	}
	w.facts.NotBefore = map[string]time.Time{}
	for range 4 {
		w.addNode()
	}
	return w
}

func (w *world) addNode() {
	name := fmt.Sprintf("k%d.example.com", w.made)
	w.made++
	w.facts.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	w.note("Kubernetes node %s comes", name)
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nhistory:\n%s", fmt.Sprintf(format, args...), strings.Join(w.log, "\n"))
}

// observe is what the operator sees.
func (w *world) observe() Facts {
	f := w.facts
	f.Pods = nil
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		f.Pods = append(f.Pods, *w.pods[name].DeepCopy())
	}
	w.rnd.Shuffle(len(f.Pods), func(i, j int) { f.Pods[i], f.Pods[j] = f.Pods[j], f.Pods[i] })
	f.Slurm = SlurmFacts{Known: w.slurmUp, Why: "down"}
	if !w.slurmUp {
		return f
	}
	f.Slurm.Nodes, f.Slurm.Deadlines = map[string]slurm.Node{}, map[string]time.Time{}
	for name, n := range w.nodes {
		copied := *n
		if w.jobs[name] > 0 {
			copied.States = slurm.StatesOf(append([]string{slurm.NodeMixed}, without(n.States, slurm.NodeIdle)...)...)
			f.Slurm.Deadlines[name] = time.Unix(2_000_000+int64(w.jobs[name]), 0)
		}
		f.Slurm.Nodes[name] = copied
	}
	w.window(f.Slurm.Nodes)
	f.Slurm.ReservationKnown, f.Slurm.Reservation = NeedsReservation(f.NodeSet), w.reservation
	truth := maps.Clone(f.Slurm.Nodes)
	if w.lies {
		w.lie(f.Slurm.Nodes)
	}
	if w.rnd.Intn(3) == 0 || w.before == nil {
		w.before = truth
	}
	return f
}

func without(states slurm.States, words ...string) []string {
	return slices.DeleteFunc(slices.Clone([]string(states)), func(s string) bool { return slices.Contains(words, s) })
}

// podOf is the pod whose slurmd is a Slurm node's, nil for none.
func (w *world) podOf(node string) *corev1.Pod {
	for _, pod := range w.pods {
		if SlurmNode(pod) == node && pod.Status.Phase == corev1.PodRunning && pod.Spec.NodeName != "" {
			return pod
		}
	}
	return nil
}

// kubelet moves every pod one step on.
func (w *world) kubelet() {
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		pod := w.pods[name]
		switch {
		case pod.DeletionTimestamp != nil:
			w.lose(pod, true)
		case pod.Status.Phase == "":
			w.start(pod)
		case pod.Status.Phase == corev1.PodRunning && !workernode.Ready(pod):
			setReady(pod, true, w.facts.Now)
		}
	}
}

// start is the scheduler and slurmd: the pod goes to a free node, and registers.
func (w *world) start(pod *corev1.Pod) {
	used := map[string]bool{}
	for _, p := range w.pods {
		used[p.Spec.NodeName] = true
	}
	for _, name := range slices.Sorted(maps.Keys(w.facts.Nodes)) {
		node := w.facts.Nodes[name]
		target := targetNode(pod)
		tolerates := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == corev1.TaintNodeUnschedulable })
		if used[name] || target != "" && target != name || node.Spec.Unschedulable && !tolerates {
			continue
		}
		pod.Spec.NodeName, pod.Status.Phase = name, corev1.PodRunning
		setReady(pod, true, w.facts.Now)
		w.note("pod %s is ready on %s as %s", pod.Name, name, SlurmNode(pod))
		n := w.nodes[SlurmNode(pod)]
		switch {
		case n == nil:
			n = &slurm.Node{Name: SlurmNode(pod), States: slurm.StatesOf(slurm.NodeIdle)}
		case n.States.Has(slurm.NodeNotResponding):
			n.States = slurm.StatesOf(append([]string{slurm.NodeIdle}, without(n.States, slurm.NodeDown, slurm.NodeNotResponding)...)...)
			if !n.States.Has(slurm.NodeDrain) {
				n.Reason = "" // ReturnToService=2
			}
		}
		w.nodes[n.Name] = n
		return
	}
}

func setReady(pod *corev1.Pod, is bool, now time.Time) {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(now)})
}

// lose takes a pod away: with its preStop hook, or all of a sudden.
func (w *world) lose(pod *corev1.Pod, hook bool) {
	delete(w.pods, pod.Name)
	w.note("pod %s is gone", pod.Name)
	n := w.nodes[SlurmNode(pod)]
	if n == nil || pod.Spec.NodeName == "" {
		return
	}
	w.jobs[n.Name] = 0
	n.States = slurm.StatesOf(append([]string{slurm.NodeDown}, without(n.States, slurm.NodeIdle)...)...)
	switch {
	case !hook:
		n.States = slurm.StatesOf(append([]string{slurm.NodeNotResponding}, n.States...)...)
	case n.Reason == "":
		n.Reason = v1beta1.ReasonPodTerminating
	}
}

// carryOut does what a plan says, and checks it against the truth.
func (w *world) carryOut(plan Plan) {
	written := map[string]bool{}
	for _, s := range plan.Steps {
		w.note("  %s", s)
		for _, on := range objects(s) {
			if written[on] {
				w.fail("%s is written twice: %s", on, s)
			}
			written[on] = true
		}
		w.checkWindow(s)
		if w.lies && !w.mayWrite(s) && slices.Contains([]Action{DeletePod, Forget, Drain, Undrain, Resume, Describe}, s.Action) {
			w.note("  not done: Slurm says something else now")
			continue
		}
		w.do(s)
	}
	w.checkUnavailable(plan)
}

// objects are what a step writes to.
func objects(s Step) []string {
	switch s.Action {
	case Wait:
		return nil
	case CreatePod, DeletePod, Mark, Mirror:
		return []string{"pod " + s.Pod.Name}
	case CreateRevision, UpdateRevision, DeleteRevision:
		return []string{"revision " + s.Revision.Name}
	case CreateReservation, UpdateReservation, DeleteReservation:
		return []string{"reservation " + s.Reservation.Name}
	}
	return []string{"Slurm node " + s.Node}
}

func (w *world) do(s Step) {
	switch s.Action {
	case CreatePod:
		if w.pods[s.Pod.Name] != nil {
			w.fail("pod exists: %s", s)
		}
		w.uid++
		s.Pod.UID = types.UID(fmt.Sprint(w.uid))
		s.Pod.CreationTimestamp = metav1.NewTime(w.facts.Now)
		w.pods[s.Pod.Name] = s.Pod
	case DeletePod:
		w.checkDelete(s)
		w.pods[s.Pod.Name].DeletionTimestamp = &metav1.Time{Time: w.facts.Now}
		if s.Failed {
			w.facts.NotBefore[s.Slot] = w.facts.Now.Add(2 * time.Second)
		}
	case Drain, Undrain, Resume, Describe:
		w.updateNode(s)
	case Forget:
		if w.jobs[s.Node] > 0 || w.podOf(s.Node) != nil || w.nodes[s.Node].Reason == "admin" {
			w.fail("forgotten: %s", s)
		}
		delete(w.nodes, s.Node)
	case Mark:
		if w.pods[s.Pod.Name].Annotations == nil {
			w.pods[s.Pod.Name].Annotations = map[string]string{}
		}
		merge(w.pods[s.Pod.Name].Labels, s.Side.Labels)
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
	case CreateReservation, UpdateReservation, DeleteReservation:
		w.reserve(s)
	case DeleteRevision:
		w.facts.Revisions = slices.DeleteFunc(slices.Clone(w.facts.Revisions), func(r appsv1.ControllerRevision) bool { return r.Name == s.Revision.Name })
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

// checkDelete: only the deadline of a deletion ends jobs, and nothing is deleted on no answer.
func (w *world) checkDelete(s Step) {
	pod := w.pods[s.Pod.Name]
	if pod == nil || pod.DeletionTimestamp != nil || pod.UID != s.Pod.UID {
		w.fail("no such pod: %s", s)
	}
	if pod.Status.Phase == corev1.PodFailed {
		return
	}
	if s.Force {
		d := w.facts.NodeSet.DeletionTimestamp
		if d == nil || w.facts.Now.Before(d.Add(DeletionDrainTimeout)) {
			w.fail("forced before the deadline: %s", s)
		}
		return
	}
	if !w.slurmUp {
		w.fail("deleted while Slurm doesn't answer: %s", s)
	}
	if w.jobs[SlurmNode(pod)] > 0 && w.podOf(SlurmNode(pod)) == pod {
		w.fail("deleted with a running job: %s", s)
	}
}

// checkUnavailable: an update never takes more workers out of service than it may.
func (w *world) checkUnavailable(plan Plan) {
	n := w.facts.NodeSet
	if n.Spec.UpdateStrategy.Type == v1beta1.UpdateOnDelete || n.DeletionTimestamp != nil {
		return
	}
	updated, lost := map[string]bool{}, map[string]bool{}
	for _, s := range plan.Steps {
		name := ""
		switch {
		case s.Pod != nil && (s.Action == DeletePod || s.Action == Wait):
			name = s.Pod.Name
		case s.Action == Drain:
			if pod := w.podOf(s.Node); pod != nil {
				name = pod.Name
			}
		}
		pod := w.pods[name]
		switch {
		case pod == nil:
		case strings.Contains(s.Reason, "update to the new pod template") && workernode.Ready(pod):
			updated[name] = true
		case s.Action == DeletePod || strings.Contains(s.Reason, "is to be removed"):
			lost[name] = true
		}
	}
	if len(updated) == 0 {
		return
	}
	serving := 0
	for name, pod := range w.pods {
		current := (pod.Labels[v1beta1.LabelNodeSetScalingMode] == string(v1beta1.ScalingModeDaemonSet)) == (n.Spec.ScalingMode == v1beta1.ScalingModeDaemonSet)
		if current && !lost[name] && !updated[name] && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && workernode.Ready(pod) {
			serving++
		}
	}
	most := max(1, (int(plan.Status.Desired)+3)/4)
	if unavailable := int(plan.Status.Desired) - serving; unavailable > most {
		w.fail("%d of %d workers are unavailable while %v are updated", unavailable, plan.Status.Desired, slices.Sorted(maps.Keys(updated)))
	}
}
