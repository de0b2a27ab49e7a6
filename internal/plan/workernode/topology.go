package workernode

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Topology is where a worker on a Kubernetes node is in Slurm's topology, empty for nowhere:
// what the node's annotation says, else its labels, else the NodeSet's template.
func Topology(set *v1beta1.NodeSet, n *corev1.Node) string {
	if t := strings.TrimSpace(n.Annotations[v1beta1.AnnotationTopology]); t != "" {
		return t
	}
	var out []string
	for _, t := range set.Spec.TopologyFromLabels {
		if at := place(t, n.Labels); at != "" {
			out = append(out, at)
		}
	}
	if len(out) > 0 {
		return strings.Join(out, ",")
	}
	return strings.TrimSpace(set.Spec.Template.Metadata.Annotations[v1beta1.AnnotationTopology])
}

// place is TOPOLOGY:SWITCH:SWITCH, the form in which Slurm makes switches that don't exist;
// empty where the labels give no place.
func place(t v1beta1.LabelTopology, labels map[string]string) string {
	path := []string{t.Topology}
	if t.Root != "" {
		path = append(path, t.Root)
	}
	for _, key := range t.Labels {
		name := labels[key]
		// A switch below itself would be a circle.
		if !placeName(name) || slices.Contains(path[1:], name) {
			return ""
		}
		path = append(path, name)
	}
	return strings.Join(path, ":")
}

// placeName refuses what slurmctld ends at the sight of: its lists of hosts overflow at
// numbers of twenty digits.
func placeName(name string) bool {
	const digits = "0123456789"
	return name != "" && len(name)-len(strings.TrimRight(name, digits)) < 18
}

func (p *planner) topology() (want string, known bool) {
	if p.Kube == nil {
		return "", false
	}
	return Topology(p.NodeSet, p.Kube), true
}

// annotateTopology puts the topology where slurmd reads it when it starts again.
func (p *planner) annotateTopology() {
	want, known := p.topology()
	have := p.Pod.Annotations[v1beta1.AnnotationTopology]
	// The pod's own is removed last: it tells that what Slurm has comes from here.
	clearing := want == "" && p.Known && p.Registered && p.Slurm.Topology != ""
	if !known || want == have || clearing {
		return
	}
	var value *string
	if want != "" {
		value = &want
	}
	p.annotate(v1beta1.AnnotationTopology, value)
	p.plan.Why = append(p.plan.Why, "Kubernetes node "+p.Kube.Name+" is at "+want)
}

// sameTopology compares lists of topology:place, whatever their order.
func sameTopology(a, b string) bool {
	if a == b {
		return true
	}
	x, y := strings.Split(a, ","), strings.Split(b, ",")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
