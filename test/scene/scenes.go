package scene

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/slurm"
)

// Empty is a cluster without work.
func Empty() view.Facts {
	m := newMaker()
	m.nodes(4, 4)
	return m.Facts
}

// Full is a cluster with pods and jobs side by side, a queue, and a few things that are wrong.
func Full() view.Facts {
	m := newMaker()
	m.nodes(12, 4)
	m.add(job{namespace: "llm", group: "pretrain", account: "research", partition: "slurm-bridge", nodes: gpuNodes(1, 4), cores: 32, gpus: 4, ran: 26 * time.Hour, limit: 72 * time.Hour})
	m.add(job{namespace: "vision", group: "finetune", account: "research", partition: "slurm-bridge", nodes: gpuNodes(5, 6), cores: 16, gpus: 2, ran: 40 * time.Minute, limit: 4 * time.Hour})
	m.add(job{namespace: "vision", group: "eval", account: "research", partition: "slurm-bridge", nodes: gpuNodes(5, 5), cores: 8, gpus: 1, ran: 12 * time.Minute, limit: time.Hour})
	m.add(job{namespace: "serving", group: "batch-infer", account: "product", partition: "slurm-bridge", nodes: gpuNodes(7, 7), cores: 6, gpus: 1, ran: 3 * time.Minute, limit: 30 * time.Minute})
	m.add(job{name: "cfd-wing", user: "maria", account: "aero", partition: "batch", nodes: []string{"cpu-0", "cpu-1", "cpu-2"}, cores: 32, ran: 5 * time.Hour, limit: 12 * time.Hour})
	m.add(job{name: "md-water", user: "tomas", account: "chem", partition: "batch", nodes: []string{"cpu-3"}, cores: 20, ran: 95 * time.Minute, limit: 6 * time.Hour})
	m.add(job{name: "postproc", user: "maria", account: "aero", partition: "batch", nodes: []string{"cpu-3"}, cores: 8, ran: 8 * time.Minute, limit: time.Hour})
	m.add(job{namespace: "llm", group: "ablation", account: "research", partition: "slurm-bridge", count: 4, cores: 32, gpus: 4, limit: 24 * time.Hour, reason: "Resources", start: 46 * time.Hour})
	m.add(job{namespace: "vision", group: "sweep", account: "research", partition: "slurm-bridge", count: 2, cores: 8, gpus: 1, limit: time.Hour, reason: "Priority"})
	m.add(job{name: "param-scan", user: "tomas", account: "chem", partition: "batch", cores: 4, limit: 2 * time.Hour, reason: "Resources", start: 55 * time.Minute, array: "12-99%20"})
	m.add(job{name: "cfd-mesh", user: "maria", account: "aero", partition: "batch", cores: 32, limit: 8 * time.Hour, reason: "AssocGrpCpuLimit"})
	m.add(job{name: "draft", user: "jon", account: "chem", partition: "batch", cores: 1, limit: time.Hour, reason: "JobHeldUser"})
	m.Kubernetes.Pods = append(m.Kubernetes.Pods, unplaced("llm", "typo", "NoUsableNode", "0 of 12 Slurm nodes can be used, 1 needed (12: nodeSelector or node affinity doesn't match)"))
	m.drained("gpu-009", "slinky: fan 3 is loud (anna)", true)
	m.drained("gpu-012", "NVLink errors", false)
	m.down("cpu-5", "Not responding")
	return m.Facts
}

// unplaced is a pod that no job stands for.
func unplaced(namespace, name, reason, text string) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u-typo", CreationTimestamp: metav1.Time{Time: Now.Add(-4 * time.Minute)}},
		Spec:       corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "main"}}},
	}
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: v1beta1.ConditionSlurmScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: text}}
	return p
}

func (m *maker) drained(name, reason string, both bool) {
	for i := range m.Slurm.Nodes {
		if n := &m.Slurm.Nodes[i]; n.Name == name {
			n.States = slurm.StatesOf(append(n.States, slurm.NodeDrain)...)
			n.Reason, n.ReasonUser, n.ReasonTime = reason, "root", Now.Add(-3*time.Hour)
		}
	}
	for i := range m.Kubernetes.Nodes {
		if n := &m.Kubernetes.Nodes[i]; both && n.Name == name {
			n.Spec.Unschedulable = true
			n.Annotations = map[string]string{v1beta1.AnnotationDrainedBy: "anna", v1beta1.AnnotationNodeCordonReason: "fan 3 is loud"}
		}
	}
}

func (m *maker) down(name, reason string) {
	for i := range m.Slurm.Nodes {
		if n := &m.Slurm.Nodes[i]; n.Name == name {
			n.States = slurm.StatesOf(slurm.NodeDown, slurm.NodeNotResponding)
			n.Reason, n.ReasonUser, n.ReasonTime = reason, "slurm", Now.Add(-20*time.Minute)
		}
	}
}

// Broken is Full some minutes after slurmrestd has gone: what was read of Slurm is old.
func Broken() view.Facts {
	f := Full()
	f.Slurm = view.Slurm{Source: view.Source{Error: "read jobs: unavailable: the API server says: no endpoints available for service \"slurm-restapi\"", Read: Now.Add(-6 * time.Minute)}, URL: f.Slurm.URL}
	f.Kubernetes.Pods = append(f.Kubernetes.Pods, daemon("slurm-restapi-7498c87cfb-rdmzv", v1beta1.NameSlurmrestd, "CrashLoopBackOff"))
	f.Kubernetes.Nodes[6].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Message: "Kubelet stopped posting node status."}}
	f.Kubernetes.Controllers[0].Conditions = []metav1.Condition{{Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse, Message: "slurmctld is ready, slurmrestd is not: pod slurm-restapi-7498c87cfb-rdmzv crashes"}}
	return f
}

func daemon(name, kind, waits string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: name, UID: "u-daemon", Labels: map[string]string{v1beta1.LabelName: kind}}}
	p.Spec.NodeName, p.Spec.SchedulerName = "gpu-001", corev1.DefaultSchedulerName
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: kind, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waits}}}}
	return p
}

// Hostile is a cluster whose users choose names and reasons to fool whoever looks at them.
func Hostile() view.Facts {
	m := newMaker()
	m.nodes(2, 2)
	const script, escape = "<script>alert(1)</script>", "\x1b]0;owned\x07\x1b[2J"
	m.add(job{name: script + escape, user: "\"><img src=x onerror=alert(1)>", account: "a", partition: "batch", nodes: []string{"cpu-0"}, cores: 4, ran: time.Minute, limit: time.Hour})
	m.add(job{name: "\u202egnp.exe", user: "eve", account: "a", partition: "batch", cores: 4, limit: time.Hour, reason: "'-alert(1)-'"})
	m.Kubernetes.Pods = append(m.Kubernetes.Pods, unplaced("ml", "odd", "NoUsableNode", "line one\nNothing is wrong."+escape))
	m.drained("gpu-001", "</td><script>alert(2)</script>"+escape, false)
	return m.Facts
}

// Large is a cluster of many nodes and jobs.
func Large(nodes, jobs int) view.Facts {
	m := newMaker()
	m.nodes(nodes, 32)
	for i := range m.Slurm.Nodes { // what charge would find one by one
		n := &m.Slurm.Nodes[i]
		if i%50 == 49 {
			n.States, n.Reason, n.ReasonUser = slurm.StatesOf(slurm.NodeDown), fmt.Sprintf("Kill task failed %d", i%7), "slurm"
		}
	}
	words := []string{"Resources", "Priority", "Priority", "Dependency", "AssocGrpCpuLimit", "JobHeldUser"}
	running := min(jobs/2, nodes)
	for i := range jobs {
		j := job{name: fmt.Sprintf("task-%d", i), user: fmt.Sprintf("user%02d", i%40), account: fmt.Sprintf("acct%d", i%9), partition: "batch", cores: 8, limit: 4 * time.Hour, ran: time.Duration(i%200) * time.Minute}
		if i%3 == 0 {
			j.namespace, j.group, j.partition, j.gpus = fmt.Sprintf("team-%d", i%12), fmt.Sprintf("work-%d", i), "slurm-bridge", 2
		}
		if i < running {
			m.addAt(j, i)
			continue
		}
		j.reason, j.ran = words[i%len(words)], 0
		m.add(j)
	}
	return m.Facts
}

// addAt adds a running job on the i-th node, which is found at once.
func (m *maker) addAt(j job, i int) {
	n := &m.Slurm.Nodes[i]
	n.AllocCPUs += j.cores
	n.AllocMemory += uint64(4*j.cores) << 10
	if n.GRES == "" {
		j.gpus = 0
	} else if j.gpus > 0 {
		n.GRESUsed = fmt.Sprintf("gpu:h100:%d", j.gpus)
	}
	if !n.States.Has(slurm.NodeDown) {
		n.States = slurm.StatesOf(append([]string{slurm.NodeMixed}, without(n.States, slurm.NodeIdle)...)...)
	}
	nodes := m.Slurm.Nodes
	m.Slurm.Nodes = nil // nothing to charge any more
	j.nodes = []string{n.Name}
	m.add(j)
	m.Slurm.Nodes = nodes
}

func without(states slurm.States, word string) []string {
	var out []string
	for _, s := range states {
		if s != word {
			out = append(out, s)
		}
	}
	return out
}
