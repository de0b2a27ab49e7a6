package view

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// NotFoundError is about a name that neither world knows.
type NotFoundError struct{ Text string }

func (e NotFoundError) Error() string { return e.Text }

// Found is what a user means by a name: either a pod or job, or a node.
type Found struct {
	Facts explain.Facts
	Node  *Node
}

// Find finds what a user names: "4711" is a Slurm job; "pod/NAME", "job/NAME" and
// "podgroup/NAME" are of a namespace, unless they are "NAMESPACE/NAME" of a pod;
// "node/NAME" is a node of either world. A bare name is a pod's, or else that of a Job or
// group with pods, or else a node's. Of several pods, the one that waits is meant.
func (m *Model) Find(namespace, target string) (Found, error) {
	if id, ok := JobID(target); ok {
		f, err := m.findJob(id)
		return Found{Facts: f}, err
	}
	kind, name, ok := strings.Cut(target, "/")
	if !ok {
		kind, name = "", target
	}
	kind = strings.ToLower(kind)
	if kind == "node" || kind == "nodes" || kind == "no" {
		return m.findNode(name)
	}
	if pod := m.findPod(namespace, kind, name); pod != nil {
		return Found{Facts: m.podFacts(pod)}, nil
	}
	if kind == "" {
		if found, err := m.findNode(name); err == nil {
			return found, nil
		}
	}
	switch k := m.Kubernetes; {
	case k.Absent:
		return Found{}, NotFoundError{fmt.Sprintf("there is no Kubernetes cluster to find %q in: name a kubeconfig, or a Slurm job by its number", target)}
	case !k.Known:
		return Found{}, fmt.Errorf("find %q: %s", target, k.Error)
	case k.Lacks(PartPods):
		return Found{}, fmt.Errorf("find %q: the pods can't be read: %s", target, k.why(PartPods))
	}
	return Found{}, NotFoundError{fmt.Sprintf("namespace %s has no pod, and no Job or group with pods, that is called %q, and no node is (another namespace: --namespace)", namespace, target)}
}

// JobID reads the number of a Slurm job.
func JobID(target string) (uint32, bool) {
	id, err := strconv.ParseUint(target, 10, 32)
	return uint32(id), err == nil && id > 0
}

func (m *Model) explained(f explain.Facts) explain.Facts {
	f.SchedulerName, f.Now, f.Associations, f.QOS = m.SchedulerName, m.Taken, m.Slurm.Associations, m.Slurm.QOS
	if m.Slurm.Known {
		f.Queue = m.queue
	} else {
		f.SlurmError = m.Slurm.Error
	}
	return f
}

func (m *Model) findJob(id uint32) (explain.Facts, error) {
	if !m.Slurm.Known {
		return explain.Facts{}, fmt.Errorf("ask Slurm for job %d: %s", id, m.Slurm.Error)
	}
	if j := m.jobAt[id]; j != nil {
		f := explain.Facts{Job: j}
		if pods := m.podsOf[id]; len(pods) == 1 && len(m.comments[id].Pods) == 1 {
			f.Pod = pods[0]
		}
		return m.explained(f), nil
	}
	return explain.Facts{}, NotFoundError{fmt.Sprintf("ask Slurm for job %d: Slurm has no such job; it forgets one some minutes after its end, and accounting keeps it: "+
		"sacct --jobs=%d --format=JobID,State,DerivedExitCode,AdminComment%%200", id, id)}
}

func (m *Model) findPod(namespace, kind, name string) *corev1.Pod {
	if name == "" {
		return nil
	}
	if namespace == "" { // only a pod's whole name says enough
		return m.pods[kind+"/"+name]
	}
	var best *corev1.Pod
	for i := range m.Kubernetes.Pods {
		pod := &m.Kubernetes.Pods[i]
		isPod := kind == "" || kind == "pod" || kind == "pods" || kind == "po"
		switch {
		case kind != "" && pod.Namespace == kind && pod.Name == name:
			return pod
		case pod.Namespace != namespace:
		case isPod && pod.Name == name:
			return pod
		case belongs(pod, kind, name) && (best == nil || weight(pod) > weight(best)):
			best = pod
		}
	}
	return best
}

// belongs tells whether a pod is of a Job, of another owner or of a group that a user names; any kind for "".
func belongs(pod *corev1.Pod, kind, name string) bool {
	group := pod.Labels[workload.LabelCoscheduling]
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		group = *g.PodGroupName
	}
	if group == name && (kind == "" || kind == "podgroup" || kind == "podgroups") {
		return true
	}
	for _, o := range pod.OwnerReferences {
		if lower := strings.ToLower(o.Kind); o.Name == name && (kind == "" || kind == lower || kind == lower+"s") {
			return true
		}
	}
	return false
}

// weight is how much a pod of several needs an explanation.
func weight(pod *corev1.Pod) int {
	switch {
	case workload.Live(pod) && pod.Spec.NodeName == "":
		return 3
	case !workload.Terminal(pod) && pod.DeletionTimestamp != nil:
		return 2
	case workload.Live(pod):
		return 1
	}
	return 0
}

// podFacts finds the job of a pod: a living one before one that has ended, and of those the
// one that the pod names, or else the newest.
func (m *Model) podFacts(pod *corev1.Pod) explain.Facts {
	f := explain.Facts{Pod: pod}
	best := -1
	for _, j := range m.jobsOf[pod] {
		if workload.RefusedAtOnce(*j) {
			continue
		}
		weight := 0
		if !j.States.JobEnded() {
			weight += 2
		}
		if strconv.FormatUint(uint64(j.ID), 10) == pod.Labels[v1beta1.LabelJobID] {
			weight++
		}
		if weight >= best {
			f.Job, best = j, weight
		}
	}
	return m.explained(f)
}

func (m *Model) findNode(name string) (Found, error) {
	nodes := m.Nodes()
	if name == "" {
		nodes = nil
	}
	for _, n := range nodes {
		if n.Name == name || n.Kubernetes == name && n.Role != RoleWorker {
			return Found{Node: &n}, nil
		}
	}
	for _, n := range nodes {
		if n.Kubernetes == name {
			return Found{Node: &n}, nil
		}
	}
	return Found{}, NotFoundError{fmt.Sprintf("neither Kubernetes nor Slurm has a node that is called %q: slinky nodes lists them", name)}
}
