package view

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// occupants are the jobs on a Slurm node, those of a bridge by their pods there, by their first core.
func (m *Model) occupants(node string) []Occupant {
	var out []Occupant
	for _, j := range m.on[node] {
		granted, known := m.allocations[j.ID][node]
		pods := m.podsOn(j, node)
		if len(pods) == 0 {
			o := Occupant{Job: j.ID, Name: Text(j.Name), User: j.User, Ready: true}
			if c, ok := m.comments[j.ID]; ok {
				o.Name, o.Pod, o.Ready = c.Pods[0], true, false
			}
			if known {
				o.Cores, o.GRES = tres.FormatIndexes(granted.Cores), gresText(granted.GRES)
			}
			out = append(out, o)
			continue
		}
		for _, pod := range pods {
			o := Occupant{Job: j.ID, Name: pod.Namespace + "/" + pod.Name, Pod: true, User: j.User, Cores: pod.Annotations[v1beta1.AnnotationCores], Ready: pod.Status.Phase == corev1.PodRunning}
			if _, err := tres.ParseIndexes(o.Cores); err != nil {
				o.Cores = ""
			}
			if known && len(pods) == 1 {
				o.Cores, o.GRES = cmp.Or(o.Cores, tres.FormatIndexes(granted.Cores)), gresText(granted.GRES)
			}
			out = append(out, o)
		}
	}
	slices.SortStableFunc(out, func(a, b Occupant) int {
		return cmp.Or(cmp.Compare(firstCore(a.Cores), firstCore(b.Cores)), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// podsOn are the pods of a job on a Slurm node.
func (m *Model) podsOn(j *slurm.Job, node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range m.podsOf[j.ID] {
		if workload.Terminal(pod) {
			continue
		}
		at := pod.Annotations[v1beta1.AnnotationNodeName]
		if at == "" {
			at = cmp.Or(pod.Spec.NodeName, pod.Annotations[v1beta1.AnnotationNode])
		}
		if at == node {
			out = append(out, pod)
		}
	}
	return out
}

// firstCore is the lowest core of a list, beyond all others for none.
func firstCore(cores string) int {
	list, err := tres.ParseIndexes(cores)
	if err != nil || len(list) == 0 {
		return 1 << 30
	}
	return list[0]
}

func gresText(list []slurm.GRESAllocation) string {
	var out []tres.GRES
	for _, g := range list {
		out = append(out, tres.GRES{Name: g.Name, Type: g.Type, Count: g.Count, Indexes: g.Indexes})
	}
	return tres.FormatGRES(out)
}
