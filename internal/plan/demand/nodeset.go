package demand

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/conf"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// SetOf is a NodeSet with spec.autoscaling as the plan sees it.
func SetOf(n *v1beta1.NodeSet, c *v1beta1.Controller, pods []corev1.Pod, nodes map[string]slurm.Node) (Set, error) {
	a := n.Spec.Autoscaling
	name, err := n.SlurmName()
	if err != nil {
		return Set{}, fmt.Errorf("spec.%w", err)
	}
	s := Set{Name: n.Name, Max: a.MaxReplicas, Replicas: 1, Priority: a.Priority, IdleTime: 5 * time.Minute, SlurmName: name}
	if a.MinReplicas != nil {
		s.Min = *a.MinReplicas
	}
	if n.Spec.Replicas != nil {
		s.Replicas = max(0, *n.Spec.Replicas)
	}
	if a.IdleTime != nil {
		s.IdleTime = a.IdleTime.Duration
	}
	if a.PendingTime != nil {
		s.PendingTime = a.PendingTime.Duration
	}
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		w := Worker{Since: pod.CreationTimestamp.Time}
		if node, ok := nodes[nodeset.SlurmNode(pod)]; ok {
			w.Node = &node
			w.Leaving = workernode.Draining(node) && workernode.OwnsReason(node.Reason)
		}
		s.Workers = append(s.Workers, w)
	}
	if s.Shape, err = shapeOf(n, s); err != nil {
		return s, err
	}
	s.Partitions = partitions(n, c, s, nodes)
	return s, nil
}

// shapeOf finds out what a worker offers: what the user says, else what registered workers have, else
// what the specification tells, else what workers had when there were some.
func shapeOf(n *v1beta1.NodeSet, s Set) (Shape, error) {
	told, err := specified(n)
	if err != nil {
		return told, err
	}
	shape, seen := registered(s.Workers)
	if !seen {
		shape = Shape{Threads: 1}
		if status := n.Status.Autoscaling; status != nil && status.Worker != nil {
			shape = shape.or(capacity(status.Worker))
		}
		shape = told.or(shape)
	}
	if c := n.Spec.Autoscaling.Capacity; c != nil {
		asked := capacity(c)
		asked.Threads = shape.Threads
		shape = asked.or(shape)
		told.Features = append(told.Features, c.Features...)
	}
	features := map[string]bool{s.SlurmName: true}
	for _, f := range slices.Concat(told.Features, shape.Features) {
		features[f] = true
	}
	shape.Features = slices.Sorted(maps.Keys(features))
	return shape, nil
}

// or takes what s doesn't know from other.
func (s Shape) or(other Shape) Shape {
	if s.CPUs == 0 {
		s.CPUs = other.CPUs
	}
	if s.Threads == 0 {
		s.Threads = other.Threads
	}
	if s.Memory == 0 {
		s.Memory = other.Memory
	}
	if len(s.GRES) == 0 {
		s.GRES = other.GRES
	}
	if len(s.Features) == 0 {
		s.Features = other.Features
	}
	return s
}

// registered is what all workers that have registered offer at least.
func registered(workers []Worker) (shape Shape, ok bool) {
	for _, w := range workers {
		if w.Node == nil || w.Node.CPUs == 0 || w.Node.SlurmdStartTime.IsZero() {
			continue
		}
		one := ShapeOf(*w.Node)
		if !ok {
			shape, ok = one, true
			continue
		}
		shape.CPUs, shape.Memory = min(shape.CPUs, one.CPUs), min(shape.Memory, one.Memory)
		if len(one.GRES) < len(shape.GRES) {
			shape.GRES = one.GRES
		}
		shape.Features = slices.DeleteFunc(slices.Clone(shape.Features), func(f string) bool { return !slices.Contains(one.Features, f) })
	}
	return shape, ok
}

func capacity(c *v1beta1.NodeSetCapacity) Shape {
	s := Shape{CPUs: int(c.CPUs), GRES: gres(c.Gres)}
	if c.Memory != nil {
		s.Memory = uint64(max(0, c.Memory.Value())) >> 20
	}
	return s
}

// Remember is what the status keeps of a set's workers, or nil while none has registered.
func (s Set) Remember() *v1beta1.NodeSetCapacity {
	shape, ok := registered(s.Workers)
	if !ok {
		return nil
	}
	var list []tres.GRES
	for _, g := range shape.GRES {
		list = append(list, tres.GRES{Name: g.Name, Type: g.Type, Count: g.Count})
	}
	memory := resource.NewQuantity(int64(shape.Memory)<<20, resource.BinarySI)
	return &v1beta1.NodeSetCapacity{CPUs: int32(shape.CPUs), Memory: memory, Gres: tres.FormatGRES(list)}
}

// specified is what the NodeSet's slurmd and extraConf tell of a worker.
func specified(n *v1beta1.NodeSet) (Shape, error) {
	var s Shape
	var container struct {
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	if err := n.Spec.Slurmd.Decode(&container); err != nil {
		return s, fmt.Errorf("spec.slurmd: %w", err)
	}
	limits := container.Resources.Limits
	s.CPUs, s.Memory = int(limits.Cpu().Value()), uint64(limits.Memory().Value())>>20
	pairs, err := conf.ParsePairs(n.Spec.ExtraConf)
	if err != nil {
		return s, fmt.Errorf("spec.extraConf: %w", err)
	}
	for _, p := range pairs {
		number, _ := strconv.ParseUint(p.Value, 10, 31)
		switch strings.ToLower(p.Key) {
		case "cpus":
			s.CPUs = int(number)
		case "threadspercore":
			s.Threads = int(number)
		case "realmemory":
			s.Memory = number
		case "gres":
			s.GRES = append(s.GRES, gres(p.Value)...)
		case "feature", "features":
			s.Features = append(s.Features, words(p.Value)...)
		}
	}
	return s, nil
}

func words(list string) (out []string) {
	for w := range strings.SplitSeq(list, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// partitions are those that the set's nodes are in, and those that slurm.conf puts them in.
func partitions(n *v1beta1.NodeSet, c *v1beta1.Controller, s Set, nodes map[string]slurm.Node) []string {
	found := map[string]bool{}
	for _, w := range s.Workers {
		if w.Node != nil {
			for _, p := range w.Node.Partitions {
				found[p] = true
			}
		}
	}
	for name, node := range nodes {
		if base, ok := spareOf(name); ok && base == s.SlurmName {
			for _, p := range node.Partitions {
				found[p] = true
			}
		}
	}
	if n.Spec.Partition.Enabled {
		found[s.SlurmName] = true
	}
	for _, p := range declared(c.Spec.ExtraConf, s.Shape.Features) {
		found[p] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// declared are the partitions of lines of slurm.conf that hold nodes with these features.
func declared(text string, features []string) (out []string) {
	sets := map[string]bool{}
	for _, f := range features {
		sets[f] = true
	}
	for line := range strings.Lines(text) {
		pairs, err := conf.ParsePairs(strings.TrimSpace(line))
		if err != nil {
			continue
		}
		values := map[string]string{}
		for _, p := range pairs {
			values[strings.ToLower(p.Key)] = p.Value
		}
		if name := values["nodeset"]; name != "" && slices.ContainsFunc(words(values["feature"]), func(f string) bool { return slices.Contains(features, f) }) {
			sets[name] = true
		}
		if name := values["partitionname"]; name != "" && slices.ContainsFunc(words(values["nodes"]), func(w string) bool { return sets[w] || w == "ALL" }) {
			out = append(out, name)
		}
	}
	return out
}
