package nodeset

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// event is something that happens to the world by itself or by people.
func (w *world) event() {
	spec := &w.facts.NodeSet.Spec
	switch w.rnd.Intn(18) {
	case 0:
		n := int32(w.rnd.Intn(5))
		spec.Replicas = &n
		w.note("scale to %d", n)
	case 1:
		spec.ExtraConf = fmt.Sprintf("Weight=%d", 1+w.rnd.Intn(3))
		w.note("template with %s", spec.ExtraConf)
	case 2:
		w.slurmUp = !w.slurmUp
		w.note("slurm answers: %v", w.slurmUp)
	case 3, 4:
		w.startJob()
	case 5:
		w.endJob()
	case 6:
		w.failPod()
	case 7:
		w.adminDrain()
	case 8:
		w.nodeEvent()
	case 9:
		if w.rnd.Intn(4) == 0 {
			w.switchMode()
		}
	case 10:
		if w.rnd.Intn(3) == 0 {
			spec.UpdateStrategy.Type = []v1beta1.UpdateStrategyType{v1beta1.UpdateRolling, v1beta1.UpdateOnDelete}[w.rnd.Intn(2)]
			w.note("updates by %s", spec.UpdateStrategy.Type)
		}
	case 11:
		w.schedule()
	case 12:
		w.lies = !w.lies
		w.note("slurm's answers are wrong: %v", w.lies)
	default:
		w.kubelet()
	}
}

func (w *world) switchMode() {
	spec := &w.facts.NodeSet.Spec
	if spec.ScalingMode == v1beta1.ScalingModeDaemonSet {
		spec.ScalingMode = v1beta1.ScalingModeStatefulSet
	} else {
		spec.ScalingMode = v1beta1.ScalingModeDaemonSet
	}
	w.note("mode %s", spec.ScalingMode)
}

// anyOf is one of a map's keys, "" for none.
func anyOf[V any](w *world, m map[string]V) string {
	if len(m) == 0 {
		return ""
	}
	return slices.Sorted(maps.Keys(m))[w.rnd.Intn(len(m))]
}

// nodeEvent happens to a Kubernetes node.
func (w *world) nodeEvent() {
	name := anyOf(w, w.facts.Nodes)
	node := w.facts.Nodes[name]
	switch w.rnd.Intn(5) {
	case 0:
		if len(w.facts.Nodes) < 6 {
			w.addNode()
		}
	case 1:
		if len(w.facts.Nodes) < 3 {
			return
		}
		w.note("Kubernetes node %s is lost", name)
		delete(w.facts.Nodes, name)
		for _, pod := range w.pods {
			if pod.Spec.NodeName == name {
				w.lose(pod, false)
			}
		}
	case 2:
		if node.Annotations[v1beta1.AnnotationHostnameOverride] == "" {
			node.Annotations[v1beta1.AnnotationHostnameOverride] = "other-" + name[:2]
		} else {
			delete(node.Annotations, v1beta1.AnnotationHostnameOverride)
		}
		w.note("Kubernetes node %s has host name %s", name, daemonHostname(node))
	default:
		node.Spec.Unschedulable = !node.Spec.Unschedulable
		w.note("Kubernetes node %s is cordoned: %v", name, node.Spec.Unschedulable)
	}
}

func (w *world) startJob() {
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[name]
		pod := w.podOf(name)
		if pod != nil && workernode.Ready(pod) && pod.DeletionTimestamp == nil && n.States.Has(slurm.NodeIdle) &&
			!n.States.Has(slurm.NodeDrain) && !n.States.Has(slurm.NodeDown) && w.rnd.Intn(2) == 0 {
			w.jobs[name]++
			w.note("a job starts on %s", name)
			return
		}
	}
}

func (w *world) endJob() {
	if name := anyOf(w, w.jobs); w.jobs[name] > 0 {
		w.jobs[name]--
		w.note("a job ends on %s", name)
	}
}

func (w *world) failPod() {
	pod := w.pods[anyOf(w, w.pods)]
	switch {
	case pod == nil || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil:
	case w.rnd.Intn(2) == 0:
		setReady(pod, false, w.facts.Now)
		w.note("pod %s isn't ready", pod.Name)
	default:
		pod.Status.Phase = corev1.PodFailed
		w.jobs[SlurmNode(pod)] = 0
		w.note("pod %s fails", pod.Name)
	}
}

func (w *world) adminDrain() {
	n := w.nodes[anyOf(w, w.nodes)]
	switch {
	case n == nil:
	case n.Reason == "admin":
		w.adminResumes(n)
	case !n.States.Has(slurm.NodeDrain):
		n.States, n.Reason = slurm.StatesOf(append([]string{slurm.NodeDrain}, n.States...)...), "admin"
		w.note("the administrator drains %s", n.Name)
	}
}

func (w *world) adminResumes(n *slurm.Node) {
	words := without(n.States, slurm.NodeDrain)
	if !n.States.Has(slurm.NodeNotResponding) {
		words = append(without(n.States, slurm.NodeDrain, slurm.NodeDown), slurm.NodeIdle)
	}
	n.States, n.Reason = slurm.StatesOf(words...), ""
	w.note("the administrator resumes %s", n.Name)
}

func (w *world) round() Plan {
	f := w.observe()
	plan := Make(f)
	w.rnd.Shuffle(len(f.Pods), func(i, j int) { f.Pods[i], f.Pods[j] = f.Pods[j], f.Pods[i] })
	if again := Make(f); !reflect.DeepEqual(plan, again) {
		w.fail("another plan for the same facts: %v and %v", plan, again)
	}
	w.carryOut(plan)
	w.facts.NodeSet.Status, w.facts.NodeSet.Finalizers = plan.Status, plan.Finalizers
	w.facts.Now = w.facts.Now.Add(time.Second)
	return plan
}

// settle lets all jobs end and everything come up, and checks that the NodeSet becomes what it should be.
func (w *world) settle() {
	w.note("settle")
	w.slurmUp, w.lies = true, false
	w.facts.NodeSet.Spec.UpdateStrategy.Type = v1beta1.UpdateRolling
	if n := int32(len(w.facts.Nodes)); w.facts.NodeSet.Spec.Replicas == nil || *w.facts.NodeSet.Spec.Replicas > n {
		w.facts.NodeSet.Spec.Replicas = &n
	}
	clear(w.jobs)
	for _, node := range w.facts.Nodes {
		node.Spec.Unschedulable = false
	}
	for _, n := range w.nodes {
		if n.Reason == "admin" {
			w.adminResumes(n)
		}
	}
	var plan Plan
	for range 200 {
		if plan = w.round(); len(plan.Steps) == 0 && plan.Status.ReadyReplicas == plan.Status.Desired {
			break
		}
		w.kubelet()
	}
	if len(plan.Steps) > 0 {
		w.fail("never settles: %v", plan.Steps)
	}
	if s := plan.Status; s.ReadyReplicas != s.Desired || s.UpdatedReplicas != s.Desired || s.Replicas != s.Desired {
		w.fail("settled at %+v", s)
	}
	for _, pod := range w.pods {
		if n := w.nodes[SlurmNode(pod)]; n == nil || workernode.OwnsReason(n.Reason) {
			w.fail("node of %s is left %+v", pod.Name, n)
		}
	}
	if w.reservation != nil {
		w.fail("reservation %s is left", w.reservation.Name)
	}
	if len(w.facts.Revisions) != 1 {
		w.fail("%d revisions are left", len(w.facts.Revisions))
	}
}

// end deletes the NodeSet, and checks that it goes in bounded time, jobs or not.
func (w *world) end() {
	w.note("delete")
	for range 3 {
		w.startJob()
	}
	w.round()
	w.facts.NodeSet.DeletionTimestamp = &metav1.Time{Time: w.facts.Now}
	w.slurmUp = w.rnd.Intn(2) == 0
	for i := 0; ; i++ {
		plan := w.round()
		if len(plan.Finalizers) == 0 {
			return
		}
		if i > 100 {
			w.fail("never goes: %v", plan.Finalizers)
		}
		if w.rnd.Intn(4) == 0 {
			w.endJob()
		}
		w.kubelet()
		w.facts.Now = w.facts.Now.Add(10 * time.Second)
	}
}

// TestSequences runs seeded random histories. Always: no pod with a job is deleted, none
// without Slurm's answer, no reason of an administrator is touched, no more workers are out of
// service for an update than may be, no object is written twice in a step, and the same facts
// give the same plan; a scheduled update stays in its window, which opens once; and all of that
// also while Slurm's answers are old or lack nodes. In the end: as many ready and current pods as wanted, no drain of ours
// left, one revision; and a deletion that ends. SLINKY_SEEDS is how many histories.
func TestSequences(t *testing.T) {
	seeds := int64(100)
	if n, err := strconv.ParseInt(os.Getenv("SLINKY_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	for seed := range seeds {
		w := newWorld(t, seed)
		w.note("seed %d", seed)
		for range 60 {
			w.event()
			if w.rnd.Intn(3) > 0 {
				w.round()
			}
		}
		w.settle()
		w.end()
	}
}
