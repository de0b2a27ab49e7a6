package view

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const scheduler = "slurm-bridge-scheduler"

// world is a small cluster: two external nodes, a worker on the third, and a node of Slurm alone.
func world() Facts {
	f := Facts{Taken: now, SchedulerName: scheduler}
	f.Kubernetes = Kubernetes{Source: Source{Known: true, Read: now}, Version: "v1.37.0"}
	f.Slurm = Slurm{Source: Source{Known: true, Read: now}, Controllers: []slurm.Ping{{Hostname: "ctl", Mode: "primary", Primary: true, Responding: true}}}
	for i := 1; i <= 3; i++ {
		f.Kubernetes.Nodes = append(f.Kubernetes.Nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("k%d", i)},
			Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("16Gi")},
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		})
	}
	external := func(name string) slurm.Node {
		return slurm.Node{Name: name, States: slurm.StatesOf("IDLE", "EXTERNAL"), Partitions: []string{"bridge"}, CPUs: 8, EffectiveCPUs: 8, Sockets: 2, Cores: 4, Threads: 1,
			RealMemory: 16384, GRES: "gpu:4"}
	}
	f.Slurm.Nodes = []slurm.Node{
		external("k1"), external("k2"),
		{Name: "w-0", States: slurm.StatesOf("IDLE"), Partitions: []string{"cpu"}, CPUs: 4, EffectiveCPUs: 4, Sockets: 1, Cores: 4, Threads: 1, RealMemory: 8192,
			Comment: `{"namespace":"slurm","podName":"w-0","node":"k3","nodeSetName":"w"}`},
		{Name: "metal", States: slurm.StatesOf("IDLE"), Partitions: []string{"cpu"}, CPUs: 4, EffectiveCPUs: 4, RealMemory: 8192},
	}
	return f
}

func (f *Facts) pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Time{Time: now.Add(-time.Minute)}},
		Spec: corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1Gi")}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(&p)
	}
	f.Kubernetes.Pods = append(f.Kubernetes.Pods, p)
	return &f.Kubernetes.Pods[len(f.Kubernetes.Pods)-1]
}

// bound puts a pod on a node, with cores.
func bound(node, cores string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
		p.Annotations = map[string]string{v1beta1.AnnotationCores: cores}
	}
}

func (f *Facts) job(id uint32, states string, change func(*slurm.Job)) {
	j := slurm.Job{ID: id, Name: fmt.Sprintf("job-%d", id), User: "alice", Account: "physics", Partition: "cpu", States: slurm.StatesOf(states), CPUs: slurm.NumberOf(2),
		SubmitTime: now.Add(-time.Hour), TRESRequested: "cpu=2,mem=1G,node=1", NodeCount: slurm.NumberOf(1), Priority: slurm.NumberOf(uint64(1000 - id))}
	if states == slurm.JobRunning {
		j.TRESAllocated, j.StartTime, j.TimeLimit, j.EndTime = j.TRESRequested, now.Add(-time.Minute), slurm.NumberOf(60), now.Add(59*time.Minute)
	}
	if change != nil {
		change(&j)
	}
	f.Slurm.Jobs = append(f.Slurm.Jobs, j)
}

// bridged makes a job the bridge's, for pods.
func bridged(pods ...string) func(*slurm.Job) {
	return func(j *slurm.Job) {
		c := workload.Comment{Mark: &workload.Mark{Cluster: "here", Workload: "w"}}
		for _, p := range pods {
			c.Pods = append(c.Pods, "ml/"+p)
			c.Mark.Pods = append(c.Mark.Pods, types.UID("uid-"+p))
		}
		j.AdminComment, j.Flags, j.Partition, j.User = c.Encode(), []string{slurm.FlagExternalJob}, "bridge", "slurm"
	}
}

func both(changes ...func(*slurm.Job)) func(*slurm.Job) {
	return func(j *slurm.Job) {
		for _, c := range changes {
			c(j)
		}
	}
}

func on(nodes string) func(*slurm.Job)    { return func(j *slurm.Job) { j.Nodes = nodes } }
func reason(word string) func(*slurm.Job) { return func(j *slurm.Job) { j.Reason = word } }

// use makes Slurm's count of what is used on a node follow.
func (f *Facts) use(node string, cpus int) {
	for i := range f.Slurm.Nodes {
		if f.Slurm.Nodes[i].Name == node {
			f.Slurm.Nodes[i].AllocCPUs = cpus
		}
	}
}
