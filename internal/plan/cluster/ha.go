package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Slurm itself says which slurmctld is the active one: only that one answers /readyz, while
// /livez is answered by all. So a pod of slurmctld is Ready if and only if it is the active
// controller, and the kubelet moves the Service's endpoint without slurmrestd, and without
// the operator.

// PodLabel is a label to set on a pod of slurmctld; an empty value removes it.
type PodLabel struct {
	Pod   *corev1.Pod
	Value string
}

// Control is how the slurmctld pods stand, and what to do about them.
type Control struct {
	// Active is the pod in control, nil where none is.
	Active *corev1.Pod
	// Standby are the live pods that wait to take over.
	Standby []*corev1.Pod
	// Outdated are the pods with an older template.
	Outdated []*corev1.Pod
	Labels   []PodLabel
	// Replace is the pod to delete so that it is made anew, nil for none; Why says why.
	Replace *corev1.Pod
	Why     string
	// Again is when to look again, 0 for when something changes.
	Again time.Duration
}

// stuckAfter is how long an outdated pod may be broken until it is deleted: Kubernetes waits
// for a broken pod for ever, also when its template has been mended.
const stuckAfter = 30 * time.Second

// ControlOf plans the slurmctld pods. live is the StatefulSet as it is, nil where there is none.
func ControlOf(c *v1beta1.Controller, live *appsv1.StatefulSet, pods []corev1.Pod, now time.Time) Control {
	out := Control{}
	if live == nil {
		return out
	}
	mine := podsOf(live, pods)
	ha := c.Replicas() > 1
	for _, p := range mine {
		out.sort(p, ha)
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] != live.Status.UpdateRevision {
			out.Outdated = append(out.Outdated, p)
		}
	}
	if live.Status.UpdateRevision == "" || live.Status.ObservedGeneration < live.Generation {
		return out
	}
	out.replace(mine, int(c.Replicas()), ha, now)
	return out
}

// podsOf are the StatefulSet's pods, the highest ordinal first.
func podsOf(live *appsv1.StatefulSet, pods []corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range pods {
		if metav1.IsControlledBy(&pods[i], live) {
			out = append(out, &pods[i])
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return cmp.Compare(ordinal(b), ordinal(a)) })
	return out
}

func ordinal(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:])
	if err != nil {
		return -1
	}
	return n
}

// sort finds out what a pod is, and how it has to be labelled. Without high availability the
// template has the label.
func (out *Control) sort(p *corev1.Pod, ha bool) {
	active := p.DeletionTimestamp == nil && podReady(p)
	switch {
	case active && (out.Active == nil || !ha):
		out.Active = p
	case started(p):
		active = false
		out.Standby = append(out.Standby, p)
	default:
		active = false
	}
	value := ""
	if active || !ha {
		value = "true"
	}
	if p.DeletionTimestamp == nil && p.Labels[v1beta1.LabelControllerActive] != value {
		out.Labels = append(out.Labels, PodLabel{p, value})
	}
}

// replace rolls a new template out, one pod at a time: what is broken first, then the
// standbys, the active controller last and only while another could take over.
func (out *Control) replace(pods []*corev1.Pod, want int, ha bool, now time.Time) {
	for _, p := range out.Outdated {
		if p.DeletionTimestamp != nil || started(p) {
			continue
		}
		if left := p.CreationTimestamp.Add(stuckAfter).Sub(now); left > 0 {
			out.Again = left
			continue
		}
		out.Replace, out.Why = p, "it doesn't start, and its template has changed since"
		return
	}
	if !ha || len(out.Outdated) == 0 {
		return // Kubernetes rolls a single slurmctld out by itself
	}
	if len(pods) < want || slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil || !started(p) }) {
		return
	}
	for _, p := range out.Outdated {
		if p != out.Active {
			out.Replace, out.Why = p, "its template has changed, and it is not the active controller"
			return
		}
	}
	out.Replace, out.Why = out.Active, "its template has changed, and the other controllers are up to date"
}

// Message says how the controllers stand.
func (out Control) Message(c *v1beta1.Controller) string {
	want := int(c.Replicas())
	if out.Active == nil {
		if want > 1 && len(out.Standby) > 0 {
			return fmt.Sprintf("no slurmctld is in control: %d of %d run, and a standby takes over after SlurmctldTimeout; see pod %s", len(out.Standby), want, c.PodName(0))
		}
		return "slurmctld is not ready yet: see pod " + c.PodName(0)
	}
	if want == 1 {
		return "slurmctld answers"
	}
	return fmt.Sprintf("slurmctld answers: %s is in control, %d of %d standbys run", out.Active.Name, len(out.Standby), want-1)
}

// Settled tells whether all controllers run, with the newest template.
func (out Control) Settled(c *v1beta1.Controller) bool {
	return out.Active != nil && len(out.Standby) >= int(c.Replicas())-1 && len(out.Outdated) == 0
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// started tells whether slurmctld has answered /livez since it was started.
func started(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == v1beta1.NameSlurmctld && s.Started != nil && *s.Started && s.State.Running != nil
	})
}
