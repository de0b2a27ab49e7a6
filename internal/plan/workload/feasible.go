package workload

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/device"
)

// demands is one pod's demands, prepared once for many nodes.
type demands struct {
	pod      *corev1.Pod
	affinity nodeaffinity.RequiredNodeAffinity
	requests corev1.ResourceList
	volumes  []*nodeaffinity.NodeSelector
	// elsewhere are resources that a node may have in ResourceSlices, not in its allocatable.
	elsewhere []corev1.ResourceName
	// broken is why no node can be used at all.
	broken string
}

func newDemands(pod *corev1.Pod, v Volumes, served func(*corev1.Pod, corev1.ResourceName) bool) demands {
	c := demands{
		pod: pod, affinity: nodeaffinity.GetRequiredNodeAffinity(pod),
		requests: resource.PodRequests(pod, resource.PodResourcesOptions{}),
		broken:   v.Missing,
	}
	for name := range c.requests {
		if deviceClass(name) || served != nil && served(pod, name) {
			c.elsewhere = append(c.elsewhere, name)
		}
	}
	for _, s := range v.Selectors {
		selector, err := nodeaffinity.NewNodeSelector(s)
		if err != nil {
			c.broken = "the node affinity of a volume is invalid: " + err.Error()
			continue
		}
		c.volumes = append(c.volumes, selector)
	}
	return c
}

// reject returns why a node doesn't suit the pod, "" if it does.
func (c demands) reject(n *NodeFacts) string {
	if c.broken != "" {
		return c.broken
	}
	if ok, err := c.affinity.Match(n.Node); err != nil || !ok {
		return "nodeSelector or node affinity doesn't match"
	}
	for t := range n.Node.Spec.Taints {
		taint := &n.Node.Spec.Taints[t]
		if lasting(taint) && !tolerates(c.pod, taint) {
			return "taint " + taint.Key + " isn't tolerated"
		}
	}
	for _, v := range c.volumes {
		if !v.Match(n.Node) {
			return "a volume of the pod can't be reached from there"
		}
	}
	if name, ok := lacking(c.requests, c.elsewhere, n); ok {
		return "too little " + string(name)
	}
	return ""
}

// lasting tells whether a taint keeps pods off a node for more than a moment.
// The node's own condition and cordon become its state in Slurm; the bridge's
// taint is tolerated by every pod that it places.
func lasting(t *corev1.Taint) bool {
	return t.Effect != corev1.TaintEffectPreferNoSchedule &&
		t.Key != v1beta1.TaintManagedNode &&
		!strings.HasPrefix(t.Key, "node.kubernetes.io/")
}

func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Logger{}, taint, false)
	})
}

// lacking returns a resource of which the node has too little, even when no job
// runs there. That holds for every resource which Slurm doesn't count as well:
// ephemeral storage, huge pages, devices of any plugin.
func lacking(requests corev1.ResourceList, elsewhere []corev1.ResourceName, n *NodeFacts) (corev1.ResourceName, bool) {
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		want := requests[name]
		if want.IsZero() || slices.Contains(elsewhere, name) && !device.Plugin(n.Node, name) {
			continue
		}
		if free := n.free(name); free.Cmp(want) < 0 {
			return name, true
		}
	}
	return "", false
}

// deviceClass tells whether a resource is served from ResourceSlices, not from a node's allocatable.
func deviceClass(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
}
