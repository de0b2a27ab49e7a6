package submit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// groupTold is what a group's owner was told last. The group itself shows it only after a while.
type groupTold struct {
	held held
	at   time.Time
}

// tellGroup says on the object that holds pods together how they stand: in its
// status where that has a place for it, and by an event where the reason changes.
// It returns when a text is due that it is too early for.
func (s *Submitter) tellGroup(ctx context.Context, o workload.Observed) (again time.Duration, err error) {
	if o.Object == nil {
		return 0, nil
	}
	last := s.lastGroupTold(o)
	now := last
	h, ok := s.standing(o)
	if ok && h.reason == last.held.reason {
		again = max(0, last.at.Add(refreshEvery).Sub(s.Now()))
	}
	switch {
	case !ok || h == last.held:
		again = 0
	case again == 0:
		now.held, now.at = h, s.Now()
		if o.PodGroup != nil && o.Group.Key.Kind == workload.KindPodGroup {
			err = s.writeScheduled(ctx, o, h)
		}
		if err == nil && h.reason != last.held.reason {
			kind := corev1.EventTypeNormal
			if h.warn {
				kind = corev1.EventTypeWarning
			}
			s.Events.Eventf(o.Object, nil, kind, h.reason, "Scheduling", "%s", h.text)
		}
	}
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[groupID{o.Group.Key, o.Group.UID}] = now
	return again, nil
}

// groupID is a workload of a key. UID is empty where the group doesn't exist.
type groupID struct {
	key workload.Key
	uid types.UID
}

func (s *Submitter) lastGroupTold(o workload.Observed) groupTold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groups[groupID{o.Group.Key, o.Group.UID}]
}

// forgetGroups drops what is kept of the workloads of a key but those that there are.
func (s *Submitter) forgetGroups(key workload.Key, observed []workload.Observed) {
	if key.Kind == workload.KindPod {
		return
	}
	there := map[types.UID]bool{}
	for _, o := range observed {
		there[o.Group.UID] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uid := range s.groupUIDs[key] {
		if !there[uid] {
			delete(s.groups, groupID{key, uid})
		}
	}
	delete(s.groupUIDs, key)
	for uid := range there {
		s.groupUIDs[key] = append(s.groupUIDs[key], uid)
	}
}

// standing returns what is to be told of a group: what its first pod without a node
// is told, or that as many as must start together have one. It returns false where there is nothing to tell yet.
func (s *Submitter) standing(o workload.Observed) (held, bool) {
	placed, waiting := 0, 0
	var first held
	job := ""
	for _, pod := range o.Pods {
		if !workload.Live(pod) {
			continue
		}
		a, ok := s.Table.Get(pod.UID)
		if ok || pod.Spec.NodeName != "" {
			placed++
			if job == "" && ok {
				job = strconv.FormatUint(uint64(a.JobID), 10)
			}
			job = cmp.Or(job, pod.Labels[v1beta1.LabelJobID]) // the table forgets pods that are bound
			continue
		}
		if waiting++; waiting > 1 {
			continue
		}
		t := s.lastTold(pod)
		first = held{reason: t.reason, text: s.Table.Why(pod.UID), warn: warns(t.reason)}
		if t.reason == reasonQueued {
			first.text = t.text // keepTelling bounds how often that changes
		}
	}
	switch {
	case o.Group.UID != "" && placed >= o.Group.MinCount && (waiting == 0 || !o.Group.Independent):
	case waiting > 0:
		return first, first.reason != ""
	default:
		return held{}, false
	}
	text := s.SchedulerName + " has given all pods their nodes"
	if waiting > 0 {
		text = s.SchedulerName + " has given the pods that must start together their nodes"
	}
	if job != "" && !o.Group.Independent {
		text += ", by Slurm job " + job
	}
	return held{reason: reasonAllocated, text: text}, true
}

// warns tells whether somebody has to do something.
func warns(reason string) bool {
	switch reason {
	case reasonNoNode, reasonInvalid, reasonRefused, reasonEnded, reasonNoPlace:
		return true
	}
	return false
}

// writeScheduled writes the conditions of a PodGroup of scheduling.k8s.io.
func (s *Submitter) writeScheduled(ctx context.Context, o workload.Observed, h held) error {
	reason := workload.ReasonUnschedulable
	switch h.reason {
	case reasonAllocated:
		reason = workload.ReasonScheduled
	case reasonAway, reasonInvalid, reasonRefused, reasonNoPlace:
		reason = workload.ReasonSchedulerError
	}
	var conditions []metav1.Condition
	if c, changed := o.PodGroup.Scheduled(h.reason == reasonAllocated, reason, h.text, s.Now()); changed {
		conditions = append(conditions, c)
	}
	if c, changed := o.PodGroup.Undisrupted(h.text, s.Now()); changed && h.reason == reasonAllocated {
		conditions = append(conditions, c)
	}
	if len(conditions) == 0 {
		return nil
	}
	version, ok := s.Sources.Custom.podGroups.resource()
	if !ok {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": o.PodGroup.UID},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return fmt.Errorf("condition of %s: %w", o.Group.Key, err)
	}
	_, err = s.Sources.Custom.dynamic.Resource(version).Namespace(o.PodGroup.Namespace).
		Patch(ctx, o.PodGroup.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // another group of that name by now, or none
	}
	return fmt.Errorf("write the condition of %s: %w", o.Group.Key, err)
}

// tellGroups says on all workloads of a key how they stand.
func (s *Submitter) tellGroups(ctx context.Context, key workload.Key, observed []workload.Observed) (time.Duration, error) {
	var again time.Duration
	var errs []error
	for _, o := range observed {
		after, err := s.tellGroup(ctx, o)
		errs = append(errs, err)
		again = sooner(again, after)
	}
	s.forgetGroups(key, observed)
	return again, errors.Join(errs...)
}

// sooner returns the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
