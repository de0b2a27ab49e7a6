package measure

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GangAPI is the API by which pods say that they start together.
type GangAPI string

// The APIs of gangs. GangNone makes pods without any.
const (
	GangCoscheduling GangAPI = "coscheduling"
	GangBuiltin      GangAPI = "builtin"
	GangNone         GangAPI = "none"
)

const (
	gangLabel         = "bench-gang"
	labelCoscheduling = "scheduling.x-k8s.io/pod-group"
)

// group returns the group and version of an API's PodGroup; builtin is the version in use of the built-in one.
func (a GangAPI) group(builtin string) schema.GroupVersion {
	if a == GangCoscheduling {
		return schema.GroupVersion{Group: "scheduling.x-k8s.io", Version: "v1alpha1"}
	}
	return schema.GroupVersion{Group: "scheduling.k8s.io", Version: builtin}
}

// Gangs is some groups of pods.
type Gangs struct {
	API         GangAPI
	Count, Size int
	// Version of the built-in API.
	Version string
}

// Make creates the PodGroups and returns their pods, which aren't created yet.
func (g Gangs) Make(ctx context.Context, k *Kube, l Load) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for i := range g.Count {
		name := fmt.Sprintf("%s-g%d", l.Run, i)
		labels := map[string]string{gangLabel: name}
		if g.API == GangCoscheduling {
			labels[labelCoscheduling] = name
		}
		if g.API != GangNone {
			if _, err := k.Dynamic.Resource(g.API.group(g.Version).WithResource("podgroups")).Namespace(l.Namespace).
				Create(ctx, g.podGroup(name, l), metav1.CreateOptions{}); err != nil {
				return nil, fmt.Errorf("create PodGroup %s: %w", name, err)
			}
		}
		for j := range g.Size {
			p, err := l.Pod(fmt.Sprintf("%s-%d", name, j), labels)
			if err != nil {
				return nil, err
			}
			if g.API == GangBuiltin {
				p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
			}
			pods = append(pods, p)
		}
	}
	return pods, nil
}

func (g Gangs) podGroup(name string, l Load) *unstructured.Unstructured {
	annotations := map[string]any{}
	for k, v := range l.Annotations {
		annotations[k] = v
	}
	spec := map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(g.Size)}}}
	if g.API == GangCoscheduling {
		spec = map[string]any{"minMember": int64(g.Size), "minResources": map[string]any{"cpu": l.CPU, "memory": l.Memory}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": g.API.group(g.Version).String(), "kind": "PodGroup",
		"metadata": map[string]any{
			"name": name, "namespace": l.Namespace, "labels": map[string]any{RunLabel: l.Run}, "annotations": annotations,
		},
		"spec": spec,
	}}
}

// Remove deletes the PodGroups.
func (g Gangs) Remove(ctx context.Context, k *Kube, l Load) error {
	if g.API == GangNone {
		return nil
	}
	err := k.Dynamic.Resource(g.API.group(g.Version).WithResource("podgroups")).Namespace(l.Namespace).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: RunLabel + "=" + l.Run})
	if err != nil {
		return fmt.Errorf("delete the PodGroups of run %s: %w", l.Run, err)
	}
	return nil
}

// GangTimes is how gangs were bound.
type GangTimes struct {
	Complete, Partly int
	// Whole is from a gang's first creation to its last member bound, Spread from its first to its last.
	Whole, Spread Quantiles
	// Each is Whole one by one.
	Each []time.Duration
}

// GangTimes sums up how the pods of gangs were bound.
func (t *Tracker) GangTimes(g Gangs, l Load) GangTimes {
	var out GangTimes
	var whole, spread []time.Duration
	t.Read(func(s *Seen) {
		for i := range g.Count {
			var created, begun, last time.Time
			n := 0
			for j := range g.Size {
				p := s.Pods[fmt.Sprintf("%s-g%d-%d", l.Run, i, j)]
				if p == nil || p.Bound.IsZero() {
					continue
				}
				n++
				created, begun, last = earlier(created, p.Created), earlier(begun, p.Bound), later(last, p.Bound)
			}
			switch n {
			case g.Size:
				out.Complete++
				whole, spread = append(whole, last.Sub(created)), append(spread, last.Sub(begun))
			case 0:
			default:
				out.Partly++
			}
		}
	})
	out.Each = whole
	out.Whole, out.Spread = QuantilesOf(whole), QuantilesOf(spread)
	return out
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
