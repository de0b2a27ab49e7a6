package view

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// uncovered are the bridge's pods that no living job stands for: Slurm has not been asked,
// has refused them, can't be asked now, or has forgotten them.
func (m *Model) uncovered(ended bool) []Item {
	at := map[string]int{}
	var items []Item
	for i := range m.Kubernetes.Pods {
		pod := &m.Kubernetes.Pods[i]
		if pod.Spec.SchedulerName != m.SchedulerName || m.jobOf[string(pod.UID)] != nil {
			continue
		}
		if workload.Terminal(pod) && (!ended || pod.Labels[jobLabel] != "") {
			continue // its job tells of its end
		}
		item := m.podItem(pod)
		key := string(item.State) + "/" + pod.Namespace + "/" + groupName(pod)
		if n, ok := at[key]; ok && groupName(pod) != pod.Name {
			items[n].fold(item)
			items[n].Name = pod.Namespace + "/" + groupName(pod)
			continue
		}
		at[key] = len(items)
		items = append(items, item)
	}
	for i := range items {
		slices.Sort(items[i].Pods)
	}
	return items
}

func (m *Model) podItem(pod *corev1.Pod) Item {
	name := pod.Namespace + "/" + pod.Name
	item := Item{
		Kind: KindPod, Name: name, Pods: []string{name}, State: StateWaiting, Amounts: podAmounts(pod), NodeCount: 1, Submitted: pod.CreationTimestamp.Time,
		Account: pod.Annotations[v1beta1.AnnotationAccount], Partition: pod.Annotations[v1beta1.AnnotationPartition], QOS: pod.Annotations[v1beta1.AnnotationQOS],
	}
	c := condition(pod.Status.Conditions, v1beta1.ConditionSlurmScheduled)
	switch {
	case workload.Terminal(pod):
		item.State, item.Reason = StateEnded, string(pod.Status.Phase)
	case pod.DeletionTimestamp != nil:
		item.State, item.Reason = StateEnding, "it is being deleted"
	case pod.Spec.NodeName != "":
		item.Nodes = pod.Spec.NodeName
		item.State, item.PodsRunning = StateRunning, 1
		if m.Slurm.Known {
			item.State, item.Reason = StateNeedsAction, "it is on a node, and Slurm has no record of its job"
		}
	case len(pod.Spec.SchedulingGates) > 0:
		item.Reason, item.Word = "it has the scheduling gate "+pod.Spec.SchedulingGates[0].Name, "SchedulingGated"
	case c == nil:
		item.Reason = "the bridge has not said anything about it"
	default:
		item.Reason, item.Word = c.Message, c.Reason
		if explain.ConditionNeedsPerson(c.Reason) {
			item.State = StateNeedsAction
		}
	}
	return item
}

// podAmounts are what the containers of pods ask for together.
func podAmounts(pods ...*corev1.Pod) Amounts {
	var milli, bytes int64
	var a Amounts
	for _, pod := range pods {
		for _, c := range pod.Spec.Containers {
			cpu, memory := c.Resources.Requests[corev1.ResourceCPU], c.Resources.Requests[corev1.ResourceMemory]
			nvidia, amd := c.Resources.Limits["nvidia.com/gpu"], c.Resources.Limits["amd.com/gpu"]
			milli += max(0, cpu.MilliValue())
			bytes += max(0, memory.Value())
			a.GPUs += uint64(max(0, nvidia.Value()) + max(0, amd.Value()))
		}
	}
	a.CPUs, a.Memory = uint64(milli+999)/1000, uint64(bytes)>>20
	return a
}
