package robust

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

const (
	// labelWorkload and labelGroup tell the test whose a pod is: a number, and the gang's name.
	labelWorkload = "workload"
	labelGroup    = "gang"
)

// shape is how the pods of a workload are to start.
type shape struct {
	// cpus are those of each pod; several pods are a gang.
	cpus []int64
	// apart: each pod on a node of its own.
	apart bool
	// coscheduling: the gang is a PodGroup of that plugin, else of Kubernetes.
	coscheduling bool
}

// shapeOf returns the shape of a workload: half of them are gangs.
func shapeOf(workload int, random func(n int64) int64) shape {
	cpus := 1 + random(3)
	switch workload % 8 {
	case 1:
		return shape{cpus: []int64{cpus, cpus}}
	case 3:
		return shape{cpus: []int64{cpus, cpus, cpus}, apart: true}
	case 5:
		return shape{cpus: []int64{3, 1, 1, 1}, coscheduling: true}
	case 7:
		return shape{cpus: []int64{cpus, cpus}, apart: true, coscheduling: true}
	default:
		return shape{cpus: []int64{cpus}}
	}
}

// group is the PodGroup of a gang.
func (s shape) group(name string) *unstructured.Unstructured {
	annotations := map[string]any{v1beta1.AnnotationExclusive: "false"}
	if s.apart {
		annotations[v1beta1.AnnotationMinNodes] = strconv.Itoa(len(s.cpus))
	}
	metadata := map[string]any{"name": name, "namespace": namespace, "annotations": annotations}
	size := int64(len(s.cpus))
	if s.coscheduling {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": map[string]any{"minMember": size},
		}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata,
		"spec": map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": size}}},
	}}
}

// pods are those of an attempt of a workload.
func (s shape) pods(workload int, name string) []*corev1.Pod {
	if len(s.cpus) == 1 {
		return []*corev1.Pod{newPod(workload, name, s.cpus[0])}
	}
	var out []*corev1.Pod
	for i, cpus := range s.cpus {
		p := newPod(workload, fmt.Sprintf("%s-%d", name, i), cpus)
		p.Labels[labelGroup] = name
		p.Annotations = nil // those of the PodGroup count
		s.join(p, name)
		out = append(out, p)
	}
	return out
}

// join makes a pod a member of the gang's PodGroup.
func (s shape) join(p *corev1.Pod, name string) {
	if s.coscheduling {
		p.Labels[workload.LabelCoscheduling] = name
		return
	}
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
}

func newPod(workload int, name string, cpus int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace,
			Labels: map[string]string{labelWorkload: strconv.Itoa(workload)}, Annotations: map[string]string{v1beta1.AnnotationExclusive: "false"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: config.DefaultSchedulerName, TerminationGracePeriodSeconds: new(int64(2)),
			Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}}}},
		},
	}
}
