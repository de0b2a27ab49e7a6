package scene

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Rolling is a cluster with all that planners go by: a NodeSet whose template has just changed,
// one of whose workers is busy, and pods and groups that wait for several reasons.
func Rolling() view.Facts {
	m := newMaker()
	m.nodes(4, 4)
	m.Bridge = &view.Bridge{Policy: mirror.Policy{Cluster: "here", SchedulerName: scheduler, Partition: "slurm-bridge"}, Groups: &view.Groups{OwnerKinds: map[string]string{"batch/v1 Job": ""}}}
	m.Bridge.Groups.PodGroups.Known = true
	for i := range m.Kubernetes.Nodes[:3] { // gpu-004 is about to leave
		m.Kubernetes.Nodes[i].Labels = map[string]string{v1beta1.LabelExternalNode: ""}
	}
	m.add(job{namespace: "llm", group: "pretrain", account: "research", partition: "slurm-bridge", nodes: gpuNodes(1, 3), cores: 32, gpus: 4, ran: 26 * time.Hour, limit: 72 * time.Hour})
	m.add(job{namespace: "llm", group: "ablation", account: "research", partition: "slurm-bridge", count: 2, cores: 32, gpus: 4, limit: 24 * time.Hour, reason: "Resources", start: 46 * time.Hour})
	m.add(job{name: "cfd-wing", user: "maria", account: "aero", partition: "batch", nodes: []string{"cpu-1"}, cores: 32, ran: 5 * time.Hour, limit: 12 * time.Hour})
	m.members("llm", "pretrain", 3, 0)
	m.members("llm", "ablation", 2, 0)
	m.members("vision", "sweep", 4, 2)
	m.members("vision", "eval", 2, 2)
	m.rolling()
	return m.Facts
}

// members makes a PodGroup of pods that are there, or of new ones.
func (m *maker) members(namespace, name string, minCount, pods int) {
	groups := &m.Bridge.Groups.PodGroups
	groups.Items = append(groups.Items, workload.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}, APIVersion: "scheduling.k8s.io/v1beta1", MinCount: minCount})
	for i := range pods {
		p := unplaced(namespace, fmt.Sprintf("%s-%d", name, i), "WaitingForMembers", "")
		p.UID = types.UID(namespace + "-" + p.Name)
		m.Kubernetes.Pods = append(m.Kubernetes.Pods, p)
	}
	for i := range m.Kubernetes.Pods {
		if p := &m.Kubernetes.Pods[i]; p.Namespace == namespace && p.GenerateName == "" && len(p.Name) > len(name) && p.Name[:len(name)+1] == name+"-" {
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		}
	}
}

// rolling makes the NodeSet cpu, of another template than that of its two workers.
func (m *maker) rolling() {
	n := v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: "cpu", UID: "set-cpu", Generation: 2}}
	n.Spec.ControllerRef.Name, n.Spec.Replicas = "slurm", new(int32(2))
	n.Spec.Slurmd = v1beta1.RawObject{JSON: []byte(`{"image":"redacted-2"}`)}
	n.Status.NodeSetHash = "1"
	yes := true
	owners := []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindNodeSet, Name: n.Name, UID: n.UID, Controller: &yes}}
	labels := func(hash string) map[string]string {
		return map[string]string{v1beta1.LabelName: v1beta1.NameSlurmd, v1beta1.LabelInstance: n.Name, v1beta1.LabelRevisionHash: hash}
	}
	revision := func(hash string, number int64) appsv1.ControllerRevision {
		r := appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: "cpu-" + hash, UID: types.UID(hash), Labels: labels(hash), OwnerReferences: owners}, Revision: number}
		r.Data.Raw = fmt.Appendf(nil, `{"spec":{"slurmd":{"image":"redacted-%s"},"ordinalPadding":0,"oversubscribeNode":false}}`, hash)
		return r
	}
	for i := range 2 {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: fmt.Sprintf("cpu-%d", i), UID: types.UID(fmt.Sprint("worker-", i)), Labels: labels("1"), OwnerReferences: owners,
			CreationTimestamp: metav1.Time{Time: Now.Add(-48 * time.Hour)}}}
		p.Spec.NodeName, p.Spec.Hostname = gpuNodes(2*i+2, 2*i+2)[0], p.Name
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: p.CreationTimestamp}}
		m.Kubernetes.Pods = append(m.Kubernetes.Pods, p)
	}
	for i := range m.Slurm.Nodes {
		if s := &m.Slurm.Nodes[i]; s.Name == "cpu-1" {
			s.States = slurm.StatesOf(slurm.NodeAllocated, "DYNAMIC_NORM")
		}
	}
	c := v1beta1.Controller{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: "slurm"}}
	m.Operator = &view.Operator{NodeSets: []v1beta1.NodeSet{n}, Controllers: []v1beta1.Controller{c}, Cluster: "slurm/slurm", Revisions: []appsv1.ControllerRevision{revision("1", 1), revision("2", 2)}}
}
