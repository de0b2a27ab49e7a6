package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/slurm"
)

// Outcome is how the pods of a job ended. Slurm knows one end alone of an external
// job that didn't end by itself, CANCELLED, so the job carries this in its comments.
type Outcome struct {
	Succeeded int `json:"succeeded,omitempty"`
	Failed    int `json:"failed,omitempty"`
	// Unknown counts the pods that were deleted before they told.
	Unknown int `json:"unknown,omitempty"`
	// ExitCode is the highest of all containers, 1 where a pod failed without one.
	ExitCode int32 `json:"exitCode"`
	// Failures are the first that failed, in rank order.
	Failures []Failure `json:"failures,omitempty"`
}

// Failure is why one pod failed.
type Failure struct {
	// Pod is "namespace/name".
	Pod       string `json:"pod"`
	Container string `json:"container,omitempty"`
	ExitCode  int32  `json:"exitCode,omitempty"`
	// Reason is Kubernetes' word, as OOMKilled, Evicted or DeadlineExceeded.
	Reason string `json:"reason,omitempty"`
}

// failuresTold bounds a job's comment; the counts tell of all pods.
const failuresTold = 8

// PodEnd is how one pod ended. The zero value is a pod that never told.
type PodEnd struct {
	Phase   corev1.PodPhase
	Failure Failure
}

// EndOf returns how a pod ended.
func EndOf(pod *corev1.Pod) PodEnd {
	if pod == nil || !Terminal(pod) {
		return PodEnd{}
	}
	e := PodEnd{Phase: pod.Status.Phase}
	if e.Phase != corev1.PodFailed {
		return e
	}
	e.Failure = Failure{Pod: pod.Namespace + "/" + pod.Name, Reason: podReason(pod)}
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for _, s := range statuses {
		t := s.State.Terminated
		if t == nil || t.ExitCode <= e.Failure.ExitCode {
			continue
		}
		e.Failure.Container, e.Failure.ExitCode = s.Name, t.ExitCode
		if t.Reason != "" && t.Reason != "Error" {
			e.Failure.Reason = cmp.Or(podReason(pod), t.Reason)
		}
	}
	return e
}

// podReason is why Kubernetes ended a pod, "" where its containers ended by themselves.
func podReason(pod *corev1.Pod) string {
	if pod.Status.Reason != "" {
		return pod.Status.Reason
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}

// OutcomeOf sums up how pods ended, in rank order.
func OutcomeOf(ends []PodEnd) Outcome {
	var o Outcome
	for _, e := range ends {
		switch e.Phase {
		case corev1.PodSucceeded:
			o.Succeeded++
		case corev1.PodFailed:
			o.Failed++
			o.ExitCode = max(o.ExitCode, e.Failure.ExitCode, 1)
			if len(o.Failures) < failuresTold {
				o.Failures = append(o.Failures, e.Failure)
			}
		default:
			o.Unknown++
		}
	}
	return o
}

// String is one line for people, as "2 pods succeeded, 1 failed: default/a-1 (exit code 137, OOMKilled)".
func (o Outcome) String() string {
	var parts []string
	add := func(n int, text string) {
		if n == 0 {
			return
		}
		pods := ""
		if len(parts) == 0 {
			pods = " pods"
			if n == 1 {
				pods = " pod"
			}
		}
		parts = append(parts, fmt.Sprintf("%d%s %s", n, pods, text))
	}
	add(o.Succeeded, "succeeded")
	add(o.Failed, "failed")
	add(o.Unknown, "deleted early")
	s := strings.Join(parts, ", ")
	if len(o.Failures) == 0 {
		return s
	}
	failures := make([]string, len(o.Failures))
	for i, f := range o.Failures {
		failures[i] = f.String()
	}
	s += ": " + strings.Join(failures, ", ")
	if more := o.Failed - len(o.Failures); more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

func (f Failure) String() string {
	var why []string
	if f.ExitCode != 0 {
		why = append(why, fmt.Sprintf("exit code %d", f.ExitCode))
	}
	if f.Reason != "" {
		why = append(why, f.Reason)
	}
	if len(why) == 0 {
		return f.Pod
	}
	return f.Pod + " (" + strings.Join(why, ", ") + ")"
}

// Ended returns a job's admin comment with how its pods ended.
func Ended(job slurm.Job, o Outcome) string {
	c, _ := ParseComment(job)
	c.End = &o
	return c.Encode()
}
