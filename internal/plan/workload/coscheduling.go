package workload

import (
	corev1 "k8s.io/api/core/v1"
)

// Counts is the status of a PodGroup of scheduling.x-k8s.io, as its own project's controller keeps it.
type Counts struct {
	Phase     string `json:"phase"`
	Running   int    `json:"running"`
	Succeeded int    `json:"succeeded"`
	Failed    int    `json:"failed"`
}

// Phases of a PodGroup of scheduling.x-k8s.io.
const (
	phasePending    = "Pending"
	phaseScheduling = "Scheduling"
	phaseRunning    = "Running"
	phaseFinished   = "Finished"
	phaseFailed     = "Failed"
)

// CountsOf returns the status of a PodGroup with a least number of members.
func CountsOf(minCount int, pods []*corev1.Pod) Counts {
	var c Counts
	for _, pod := range pods {
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			c.Succeeded++
		case pod.Status.Phase == corev1.PodFailed:
			c.Failed++
		case pod.Status.Phase == corev1.PodRunning:
			c.Running++
		}
	}
	switch {
	case len(pods) < minCount:
		c.Phase = phasePending
	case c.Succeeded >= minCount:
		c.Phase = phaseFinished
	case c.Failed > 0 && c.Failed+c.Running+c.Succeeded >= minCount:
		c.Phase = phaseFailed
	case c.Running+c.Succeeded >= minCount:
		c.Phase = phaseRunning
	default:
		c.Phase = phaseScheduling
	}
	return c
}
