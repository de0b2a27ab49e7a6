package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PodTrouble is a sentence on what keeps a daemon's pod from running, with the daemon's own
// last words where it has ended; empty where nothing is known to be wrong.
func PodTrouble(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return fmt.Sprintf("pod %s is not placed on a node: %s", pod.Name, c.Message)
		}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if text := containerTrouble(s); text != "" {
			return fmt.Sprintf("pod %s, container %s %s", pod.Name, s.Name, text)
		}
	}
	return ""
}

func containerTrouble(s corev1.ContainerStatus) string {
	if s.Ready {
		return ""
	}
	ended := s.State.Terminated
	if ended == nil {
		ended = s.LastTerminationState.Terminated
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
