package view

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/internal/plan/redact"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// SlimPod returns what of a pod the planners and people need. What may hold a secret stays
// behind: commands, environments, probes, volumes, and annotations of others.
func SlimPod(p *corev1.Pod) corev1.Pod {
	s := corev1.Pod{ObjectMeta: slimMeta(p.ObjectMeta)}
	s.Spec = corev1.PodSpec{
		NodeName: p.Spec.NodeName, SchedulerName: p.Spec.SchedulerName, NodeSelector: p.Spec.NodeSelector, Affinity: p.Spec.Affinity,
		Tolerations: p.Spec.Tolerations, TopologySpreadConstraints: p.Spec.TopologySpreadConstraints, SchedulingGates: p.Spec.SchedulingGates,
		SchedulingGroup: p.Spec.SchedulingGroup, Priority: p.Spec.Priority, PriorityClassName: p.Spec.PriorityClassName, Overhead: p.Spec.Overhead,
		Resources: p.Spec.Resources, ResourceClaims: p.Spec.ResourceClaims, Hostname: p.Spec.Hostname, HostNetwork: p.Spec.HostNetwork,
		RestartPolicy: p.Spec.RestartPolicy, ActiveDeadlineSeconds: p.Spec.ActiveDeadlineSeconds, Containers: slimContainers(p.Spec.Containers), InitContainers: slimContainers(p.Spec.InitContainers),
	}
	s.Status = corev1.PodStatus{
		Phase: p.Status.Phase, Conditions: p.Status.Conditions, Reason: p.Status.Reason, Message: p.Status.Message, StartTime: p.Status.StartTime,
		NominatedNodeName: p.Status.NominatedNodeName,
	}
	for _, c := range p.Status.ContainerStatuses {
		s.Status.ContainerStatuses = append(s.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: c.Ready, Started: c.Started, RestartCount: c.RestartCount, State: slimState(c.State),
		})
	}
	return s
}

// SlimTemplate returns what of a template of pods the planners need.
func SlimTemplate(t corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	p := SlimPod(&corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec})
	return corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
}

func slimContainers(list []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range list {
		out = append(out, corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
	}
	return out
}

// slimState leaves out messages: a program may have written them itself.
func slimState(s corev1.ContainerState) corev1.ContainerState {
	switch {
	case s.Waiting != nil:
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: s.Waiting.Reason}}
	case s.Terminated != nil:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: s.Terminated.ExitCode, Signal: s.Terminated.Signal, Reason: s.Terminated.Reason, FinishedAt: s.Terminated.FinishedAt,
		}}
	}
	return s
}

// SlimNode returns what of a node the planners and people need.
func SlimNode(n *corev1.Node) corev1.Node {
	s := corev1.Node{ObjectMeta: slimMeta(n.ObjectMeta)}
	s.Spec = corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints}
	s.Status = corev1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable, Conditions: n.Status.Conditions, Addresses: n.Status.Addresses}
	s.Status.NodeInfo = corev1.NodeSystemInfo{
		KubeletVersion: n.Status.NodeInfo.KubeletVersion, OSImage: n.Status.NodeInfo.OSImage, KernelVersion: n.Status.NodeInfo.KernelVersion,
		Architecture: n.Status.NodeInfo.Architecture, ContainerRuntimeVersion: n.Status.NodeInfo.ContainerRuntimeVersion,
	}
	return s
}

func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	s := redact.Meta(m)
	s.Generation = 0
	for key, value := range m.Annotations {
		if workload.Reads(key) {
			if s.Annotations == nil {
				s.Annotations = map[string]string{}
			}
			s.Annotations[key] = value
		}
	}
	return s
}

// SlimJob returns what of a job the planners and people need. Comments are free text of
// users; only the bridge's own is kept.
func SlimJob(j slurm.Job) slurm.Job {
	j.Comment = ""
	if _, ok := workload.ParseComment(j); !ok {
		j.AdminComment = ""
	}
	return j
}

// SlimSlurmNode does the same for a node of Slurm: of its free texts only the marks of the
// operator and the bridge are kept.
func SlimSlurmNode(n slurm.Node) slurm.Node {
	if _, worker := workernode.MarkOf(slurm.Node{Comment: n.Comment}); !worker {
		n.Comment = ""
	}
	if _, worker := workernode.MarkOf(slurm.Node{Extra: n.Extra}); !worker && mirror.MarkOf(&n) == nil {
		n.Extra = ""
	}
	return n
}
