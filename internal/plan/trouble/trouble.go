// Package trouble tells in a sentence what is wrong with a daemon's pod.
package trouble

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Of is a sentence on what keeps a daemon's pod from running, with the daemon's own
// last words where it has ended; empty where nothing is known to be wrong.
func Of(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return fmt.Sprintf("pod %s is not placed on a node: %s", pod.Name, c.Message)
		}
	}
	return ofContainers(pod, 0)
}

// OfWorker is a sentence on containers that don't run. One that has ended once isn't worth it:
// slurmd does so while slurmctld comes up. Neither is a worker that isn't placed yet: there may
// be more of them than Kubernetes has nodes for now.
func OfWorker(pod *corev1.Pod) string { return ofContainers(pod, 2) }

// ofContainers leaves out containers that have ended less often than enough.
func ofContainers(pod *corev1.Pod, enough int32) string {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if text := ofContainer(s, enough); text != "" {
			return fmt.Sprintf("pod %s, container %s %s", pod.Name, s.Name, text)
		}
	}
	return ""
}

// goesOn is in the last line of a container whose slurmctld has refused its configuration, where the image has one that worked;
// what follows is its time.
const goesOn = "it goes on with the configuration of "

// Fallback is a sentence on a slurmctld that runs with an older configuration because it refused
// the one that it was given; empty where it has that one.
func Fallback(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		ended := s.LastTerminationState.Terminated
		if s.State.Running == nil || ended == nil {
			continue
		}
		_, since, fell := strings.Cut(ended.Message, goesOn)
		if !fell {
			continue
		}
		since, _, _ = strings.Cut(since, "\n")
		return fmt.Sprintf("slurmctld refuses its configuration and works on with the configuration of %s: %s. Correct spec.extraConf or the files of spec.configFileRefs; to try the same again, delete pod %s",
			strings.TrimSpace(since), lastWords(ended.Message), pod.Name)
	}
	return ""
}

func ofContainer(s corev1.ContainerStatus, enough int32) string {
	if s.Ready {
		return ""
	}
	ended, times := s.State.Terminated, s.RestartCount+1
	if ended == nil {
		ended, times = s.LastTerminationState.Terminated, s.RestartCount
		if s.State.Running == nil {
			times++ // it waits to be started again
		}
	}
	if ended != nil && times < enough {
		return ""
	}
	if ended != nil && ended.ExitCode != 0 {
		text := fmt.Sprintf("ended with code %d", ended.ExitCode)
		if ended.Reason == "OOMKilled" {
			text = "was killed: it needs more memory than its limit"
		}
		if s.RestartCount > 1 {
			text += fmt.Sprintf(", and was started %d times since", s.RestartCount)
		}
		if words := lastWords(ended.Message); words != "" {
			text += ": " + words
		}
		return text
	}
	// A container that waits for its turn isn't in trouble.
	if w := s.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" && w.Reason != "" {
		return fmt.Sprintf("can't start (%s): %s", w.Reason, w.Message)
	}
	return ""
}

// lastWords picks what a daemon complained about last.
func lastWords(log string) string {
	var lines, complaints []string
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "entrypoint: ") {
			continue
		}
		// "[2026-05-01T10:00:00.123] error: ..." and "slurmctld: error: ..." begin alike.
		if _, text, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(line, "[") {
			line = text
		}
		lines = append(lines, line)
		if strings.Contains(line, "error: ") || strings.Contains(line, "fatal: ") {
			complaints = append(complaints, line)
		}
	}
	if len(complaints) == 0 {
		complaints = lines[max(0, len(lines)-1):]
	}
	return strings.Join(slices.Compact(complaints[max(0, len(complaints)-3):]), "; ")
}
