package submit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// fieldManager owns the fields that the bridge writes to pods.
const fieldManager = "slurm-bridge"

// refreshEvery is how often a text is written again while its reason stays the
// same: a group counts its members one by one, which may not become a stream of writes.
const refreshEvery = 3 * time.Second

// comingFor is how long the members of a group may take to come before its pods are told that it
// waits for them: while a group is being made that is no news, and costs two writes for each member.
const comingFor = 2 * time.Second

// held is why a pod waits: one word, and a sentence for its owner.
type held struct {
	reason, text string
	warn         bool
	// word is Slurm's reason, for a job that waits.
	word string
}

// blocks tells whether a job can't be asked for until nodes, claims or devices change.
func (h held) blocks() bool { return h.reason == reasonNoNode || h.reason == reasonClaims }

// told is what a pod's owner was told last. The pod itself shows it only after a while.
type told struct {
	reason, text string
	at           time.Time
	// word is Slurm's reason that the text explains, "" where it isn't known.
	word string
	// sluid is of the job that the pod knows to wait for it, "" for none.
	sluid string
}

func (s *Submitter) lastTold(pod *corev1.Pod) told {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.told[pod.UID]; ok {
		return t
	}
	if c := condition(pod); c != nil && c.Status == corev1.ConditionFalse {
		record, _, _ := workload.RecordOf(pod)
		return told{reason: c.Reason, text: c.Message, at: c.LastProbeTime.Time, sluid: record.SLUID}
	}
	return told{}
}

// Waiting counts the pods that wait, by the reason that they were told.
func (s *Submitter) Waiting() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for _, t := range s.told {
		if t.reason != "" {
			out[t.reason]++
		}
	}
	return out
}

// Placed is how many pods have a node from Slurm and are not bound yet.
func (s *Submitter) Placed() int { return s.Table.Len() }

func (s *Submitter) setTold(pod *corev1.Pod, t told) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[pod.UID] = t
}

// hold keeps pods back and tells why, on each pod. It returns when the text is due to be written.
func (s *Submitter) hold(ctx context.Context, pods []*corev1.Pod, h held) (time.Duration, error) {
	return s.holdFor(ctx, slurm.Job{}, pods, h)
}

// holdFor is hold for pods that wait for a job, which they keep in mind: should somebody overwrite its mark, they know it.
func (s *Submitter) holdFor(ctx context.Context, job slurm.Job, pods []*corev1.Pod, h held) (time.Duration, error) {
	var again time.Duration
	var errs []error
	for _, pod := range pods {
		s.Table.Hold(pod.UID, h.text)
		s.occupants.unplaced(pod.UID)
		last := s.lastTold(pod)
		if last.reason == h.reason && (job.SLUID == "" || job.SLUID == last.sluid) {
			if last.text == h.text || h.reason == reasonQueued {
				continue // keepTelling sees to what changes while a job is queued
			}
			if wait := last.at.Add(refreshEvery).Sub(s.Now()); wait > 0 {
				again = sooner(again, wait)
				continue
			}
		}
		if wait := pod.CreationTimestamp.Add(comingFor).Sub(s.Now()); wait > 0 && h.reason == reasonMembers && last.reason == "" {
			again = sooner(again, wait)
			continue
		}
		mark, _ := workload.Owned(job, s.Index.Cluster())
		if err := s.setCondition(ctx, pod, corev1.ConditionFalse, h.reason, h.text, workload.RecordFor(job, mark, pod.UID)); err != nil {
			errs = append(errs, err)
			continue
		}
		s.setTold(pod, told{reason: h.reason, text: h.text, at: s.Now(), word: h.word, sluid: job.SLUID})
		if last.reason != h.reason {
			s.event(pod, h)
		}
	}
	return again, errors.Join(errs...)
}

func (s *Submitter) event(pod *corev1.Pod, h held) {
	kind := corev1.EventTypeNormal
	if h.warn {
		kind = corev1.EventTypeWarning
	}
	s.Events.Eventf(pod, nil, kind, h.reason, "Scheduling", "%s", h.text)
}

// allocated corrects the condition of a pod that had to wait. A pod that got its
// node at once has none, and is spared the write.
func (s *Submitter) allocated(ctx context.Context, pod *corev1.Pod, a scheduler.Allocation) error {
	if s.lastTold(pod).reason == "" {
		return nil
	}
	text := fmt.Sprintf("Slurm job %d gives node %s", a.JobID, a.Node)
	s.setTold(pod, told{})
	s.event(pod, held{reason: reasonAllocated, text: text})
	return s.setCondition(ctx, pod, corev1.ConditionTrue, reasonAllocated, text, "")
}

func condition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1beta1.ConditionSlurmScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// setCondition writes what a pod is told, and in the same call what it keeps of its job, "" for nothing new.
func (s *Submitter) setCondition(ctx context.Context, pod *corev1.Pod, status corev1.ConditionStatus, reason, text, record string) error {
	now := metav1.NewTime(s.Now())
	c := corev1.PodCondition{
		Type: v1beta1.ConditionSlurmScheduled, Status: status, Reason: reason, Message: text,
		LastProbeTime: now, LastTransitionTime: now,
	}
	if old := condition(pod); old != nil && old.Status == status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	meta := map[string]any{"uid": pod.UID}
	if record != "" {
		meta["annotations"] = map[string]string{v1beta1.AnnotationJob: record}
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta, "status": map[string]any{"conditions": []corev1.PodCondition{c}}})
	if err != nil {
		return fmt.Errorf("condition of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	_, err = s.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // another pod of that name by now, or none
	}
	if err != nil {
		return fmt.Errorf("tell pod %s/%s why it waits: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
