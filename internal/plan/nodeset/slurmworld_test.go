package nodeset

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// lie makes Slurm's answer a wrong one: some nodes are missing, and some are as they were a while ago.
func (w *world) lie(nodes map[string]slurm.Node) {
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		old, known := w.before[name]
		switch w.rnd.Intn(4) {
		case 0:
			delete(nodes, name)
		case 1:
			if known {
				nodes[name] = old
			}
		}
	}
}

// mayWrite is what the operator asks Slurm again right before it acts: a plan may be made from
// an answer that is old or wrong.
func (w *world) mayWrite(s Step) bool {
	n := w.nodes[s.Node]
	if s.Node == "" || s.Force || n == nil {
		return s.Force || s.Action == DeletePod
	}
	truth := *n
	if w.jobs[s.Node] > 0 {
		truth.States = slurm.StatesOf(append([]string{slurm.NodeMixed}, without(n.States, slurm.NodeIdle)...)...)
	}
	ours := workernode.OwnsReason(truth.Reason)
	switch s.Action {
	case DeletePod:
		return workernode.Draining(truth) && !workernode.Busy(truth)
	case Forget:
		mark, _ := workernode.MarkOf(truth)
		lost := mark.NodeSetUID == string(w.facts.NodeSet.UID) && truth.States.Has(slurm.NodeDown, slurm.NodeNotResponding)
		return !workernode.Busy(truth) && (ours && workernode.Draining(truth) || lost)
	case Drain:
		return truth.Reason == "" || ours || truth.Reason == s.Side.Update.Change.Reason
	case Undrain, Resume:
		return ours
	}
	return true
}

// schedule lets the NodeSet update in a maintenance window that begins soon.
func (w *world) schedule() {
	start := metav1.NewTime(w.facts.Now.Add(time.Duration(w.rnd.Intn(20)-2) * time.Second))
	w.facts.NodeSet.Spec.UpdateStrategy = v1beta1.NodeSetUpdateStrategy{Type: v1beta1.UpdateScheduled,
		ScheduledUpdate: &v1beta1.ScheduledUpdate{StartTime: &start, Duration: &metav1.Duration{Duration: time.Minute}}}
	w.note("an update is scheduled for %s", start)
}

// window is what slurmctld does to the nodes of a reservation, which ends by itself.
func (w *world) window(nodes map[string]slurm.Node) {
	r := w.reservation
	if r == nil || w.facts.Now.Before(r.StartTime) {
		return
	}
	if !w.facts.Now.Before(r.EndTime) {
		w.note("the maintenance window is over")
		w.reservation = nil
		return
	}
	names, err := hostlist.Expand(r.Nodes)
	if err != nil {
		w.fail("reserved nodes: %v", err)
	}
	for _, name := range names {
		if n, known := nodes[name]; known {
			n.States, n.Reservation = slurm.StatesOf(append([]string{slurm.NodeMaintenance}, n.States...)...), r.Name
			nodes[name] = n
		}
	}
}

// reserve is what slurmctld does about a request, which may come too late.
func (w *world) reserve(s Step) {
	r := s.Reservation
	switch s.Action {
	case CreateReservation:
		if w.reservation != nil || !r.StartTime.After(w.facts.Now) || len(r.Nodes) == 0 {
			w.fail("a reservation that is there, is over or has no nodes: %s", s)
		}
		minutes, _ := r.Duration.Get()
		w.reservation = &slurm.Reservation{Name: r.Name, Nodes: hostlist.Compress(r.Nodes), Flags: r.Flags,
			StartTime: r.StartTime, EndTime: r.StartTime.Add(time.Duration(minutes) * time.Minute)}
	case UpdateReservation:
		if w.reservation == nil {
			return
		}
		if !r.StartTime.IsZero() {
			length := w.reservation.EndTime.Sub(w.reservation.StartTime)
			w.reservation.StartTime, w.reservation.EndTime = r.StartTime, r.StartTime.Add(length)
		}
		if len(r.Nodes) > 0 {
			w.reservation.Nodes = hostlist.Compress(r.Nodes)
		}
	default:
		w.reservation = nil
	}
}

// checkWindow: a scheduled update takes no healthy worker out of service outside of its window.
func (w *world) checkWindow(s Step) {
	if w.facts.NodeSet.Spec.UpdateStrategy.Type != v1beta1.UpdateScheduled || s.Action != Drain && s.Action != DeletePod {
		return
	}
	open := w.reservation != nil && !w.facts.Now.Before(w.reservation.StartTime)
	if strings.Contains(s.Reason, "update in the maintenance window") && !open && !w.lies { // an old answer shows an old window
		w.fail("out of the window: %s", s)
	}
	if pod := w.pods[nameOf(s)]; strings.Contains(s.Reason, "update to the new pod template") && pod != nil && workernode.Ready(pod) {
		w.fail("a healthy worker, without a window: %s", s)
	}
}

func nameOf(s Step) string {
	if s.Pod == nil {
		return ""
	}
	return s.Pod.Name
}
