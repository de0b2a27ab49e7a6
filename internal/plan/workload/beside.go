package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Social tells whether it depends on other pods where a pod may run, or is better run.
func Social(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return len(pod.Spec.TopologySpreadConstraints) > 0 || len(portsOf(pod)) > 0 ||
		a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

// Averse tells whether a pod keeps others off its node, zone or the like.
func Averse(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// Beside adds to a feasibility what other pods mean for the pods of one job: those
// that have nodes, and those of the job itself. What Slurm can't be told is an
// error. The others may change while the job waits, and Kubernetes looks again
// before it binds.
func Beside(f Feasibility, fleet *Fleet, pods []*corev1.Pod, o Others) (Feasibility, error) {
	b := besides{fleet: fleet, others: &o, out: f}
	for _, class := range classesOf(pods) {
		t, err := termsOf(class.pod)
		if err != nil {
			return f, fmt.Errorf("pod %s: %w", class.pod.Name, err)
		}
		class.terms = t
		b.classes = append(b.classes, class)
	}
	if err := b.averse(); err != nil {
		return f, err
	}
	for _, c := range b.classes {
		b.apart(c)
		b.ports(c)
	}
	for _, c := range b.classes {
		b.spread(c)
		b.near(c)
	}
	if b.out.OneNode && b.out.PerNode == 1 && len(pods) > 1 {
		b.refuse("the pods of the job must be on one node by their affinity, and on different ones by their anti-affinity, host ports or topology spread")
	}
	if len(b.errs) > 0 {
		return f, b.errs[0]
	}
	return b.out, nil
}

// class is some pods of a job that make the same demands and bear the same labels.
type class struct {
	pod   *corev1.Pod
	count int
	terms
}

func classesOf(pods []*corev1.Pod) []class {
	var out []class
	index := map[string]int{}
	for _, pod := range pods {
		key, err := json.Marshal([]any{pod.Namespace, pod.Labels, pod.Spec.Affinity, pod.Spec.TopologySpreadConstraints,
			pod.Spec.NodeSelector, pod.Spec.Tolerations, fmt.Sprint(portsOf(pod))})
		if err != nil {
			panic(err) // API types only
		}
		if i, ok := index[string(key)]; ok {
			out[i].count++
			continue
		}
		index[string(key)] = len(out)
		out = append(out, class{pod: pod, count: 1})
	}
	return out
}

type besides struct {
	fleet   *Fleet
	others  *Others
	classes []class
	out     Feasibility
	errs    []error
}

// own returns how many pods of the job a term of a class means, but for the pod itself.
func (b *besides) own(c class, t *term) int {
	n := 0
	for _, d := range b.classes {
		if t.matches(d.pod, b.others) {
			n += d.count
			if d.pod == c.pod {
				n--
			}
		}
	}
	return n
}

// averse excludes where other pods keep the pods of the job off.
func (b *besides) averse() error {
	taken := map[[2]string]bool{}
	for _, p := range b.others.Pods {
		if !Averse(p.Pod) || b.fleet.byKube[p.Node] == nil {
			continue
		}
		t, err := termsOf(p.Pod)
		if err != nil {
			continue // not the fault of the pods at hand
		}
		for i := range t.apart {
			key := t.apart[i].key
			domain, ok := b.fleet.byKube[p.Node].Node.Labels[key]
			if ok && slices.ContainsFunc(b.classes, func(c class) bool { return t.apart[i].matches(c.pod, b.others) }) {
				taken[[2]string{key, domain}] = true
			}
		}
	}
	keys := map[string]bool{}
	for k := range taken {
		keys[k[0]] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		b.exclude("the anti-affinity of a pod there keeps it off", func(n *NodeFacts) bool {
			domain, ok := n.Node.Labels[key]
			return ok && taken[[2]string{key, domain}]
		})
	}
	return nil
}

func (b *besides) exclude(why string, hit func(*NodeFacts) bool) {
	b.out = b.out.Without(func(n *NodeFacts) string {
		if hit(n) {
			return why
		}
		return ""
	})
}

// limit allows at most n pods of the job on a node.
func (b *besides) limit(n int) {
	if b.out.PerNode == 0 || n < b.out.PerNode {
		b.out.PerNode = n
	}
}

func (b *besides) refuse(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

// apart keeps pods away from those that their anti-affinity names.
func (b *besides) apart(c class) {
	for i := range c.apart {
		t := &c.apart[i]
		there := t.domains(b.fleet, b.others)
		b.exclude("a pod is there that its anti-affinity names", func(n *NodeFacts) bool {
			domain, ok := n.Node.Labels[t.key]
			return ok && there[domain] > 0
		})
		switch own := b.own(c, t); {
		case own == 0:
		case t.key == corev1.LabelHostname:
			b.limit(1)
		default:
			b.refuse("pod %s and %d others of its job keep apart by the label %s: Slurm can keep the pods of a job apart by node only (%s)",
				c.pod.Name, own, t.key, corev1.LabelHostname)
		}
	}
}

// ports keeps pods away from nodes where their host ports are taken.
func (b *besides) ports(c class) {
	if len(c.ports) == 0 {
		return
	}
	taken := map[string]bool{}
	for _, p := range b.others.Pods {
		if _, ok := clash(c.terms.ports, portsOf(p.Pod)); ok {
			taken[p.Node] = true
		}
	}
	b.exclude("a host port of the pod is taken", func(n *NodeFacts) bool { return taken[n.Node.Name] })
	for _, d := range b.classes {
		if d.pod == c.pod && c.count == 1 {
			continue
		}
		if _, ok := clash(c.terms.ports, d.terms.ports); ok {
			b.limit(1)
		}
	}
}

// near leaves the nodes where the pods are that the affinity names.
func (b *besides) near(c class) {
	for i := range c.near {
		t := &c.near[i]
		there := t.domains(b.fleet, b.others)
		own := b.own(c, t)
		switch self := t.matches(c.pod, b.others); {
		case len(there) > 0:
			b.exclude("no pod is there that its affinity names", func(n *NodeFacts) bool {
				domain, ok := n.Node.Labels[t.key]
				return !ok || there[domain] == 0
			})
		case own == 0 && self:
			// The first of its kind may be wherever there is such a domain.
			b.exclude("it lacks the label "+t.key, func(n *NodeFacts) bool { _, ok := n.Node.Labels[t.key]; return !ok })
		case own == 0:
			b.exclude("no pod is anywhere that its affinity names", func(*NodeFacts) bool { return true })
		case t.key == corev1.LabelHostname:
			b.out.OneNode = true
		default:
			b.oneDomain(t.key)
		}
	}
}

// oneDomain leaves the nodes of one domain, since the pods of the job must be
// together in one and Slurm knows nothing of it: the domain with the most nodes.
func (b *besides) oneDomain(key string) {
	count := map[string]int{}
	for _, n := range b.out.usable {
		if domain, ok := n.facts.Node.Labels[key]; ok {
			count[domain]++
		}
	}
	best := ""
	for _, domain := range slices.Sorted(maps.Keys(count)) {
		if count[domain] > count[best] {
			best = domain
		}
	}
	b.exclude("the job's pods must be together by the label "+key+", and more nodes are elsewhere", func(n *NodeFacts) bool {
		domain, ok := n.Node.Labels[key]
		return !ok || domain != best
	})
}

// spread leaves the nodes on which a strict spread constraint allows another pod.
func (b *besides) spread(c class) {
	for i := range c.terms.spread {
		t := &c.terms.spread[i]
		counts, least := b.counts(c, t)
		self := 0
		if t.matches(c.pod, b.others) {
			self = 1
		}
		own := (b.own(c, &t.term) + 1) * self
		room := func(n *NodeFacts, more int) bool {
			domain, ok := n.Node.Labels[t.key]
			return ok && counts[domain]+more-least <= t.maxSkew
		}
		more := own
		if t.key == corev1.LabelHostname && own > 1 {
			more = b.perNode(own, t.maxSkew, room)
			b.limit(more)
		}
		b.exclude("topology spread over "+t.key+" allows no more there", func(n *NodeFacts) bool { return !room(n, self) })
		if more > self && b.out.Usable() > 0 && !slices.ContainsFunc(b.out.usable, func(n *fleetNode) bool { return room(n.facts, more) }) {
			b.refuse("topology spread of pod %s over the label %s with maxSkew %d can't be told to Slurm for the %d pods of its job: "+
				"spread them by %s, or with whenUnsatisfiable: ScheduleAnyway", c.pod.Name, t.key, t.maxSkew, own, corev1.LabelHostname)
			continue
		}
		b.exclude("topology spread over "+t.key+" allows too few there", func(n *NodeFacts) bool { return !room(n, more) })
	}
}

// counts returns the pods that a spread constraint counts by domain, and the least
// of them, as kube-scheduler does: over all nodes that the pod's own affinity allows.
func (b *besides) counts(c class, t *spreadTerm) (map[string]int, int) {
	affinity := nodeaffinity.GetRequiredNodeAffinity(c.pod)
	counts := t.domains(b.fleet, b.others)
	least, seen := -1, map[string]bool{}
	for i := range b.fleet.kube {
		n := b.fleet.kube[i].Node
		domain, ok := n.Labels[t.key]
		if !ok || seen[domain] {
			continue
		}
		if match, err := affinity.Match(n); err != nil || !match {
			continue
		}
		seen[domain] = true
		if least < 0 || counts[domain] < least {
			least = counts[domain]
		}
	}
	if least < 0 || len(seen) < t.minDomains {
		least = 0
	}
	return counts, least
}

// perNode returns how many pods of the job a node may have at most, so that all
// find a place: as few as possible.
func (b *besides) perNode(own, maxSkew int, room func(*NodeFacts, int) bool) int {
	for k := 1; k < maxSkew; k++ {
		places := 0
		for _, n := range b.out.usable {
			if room(n.facts, k) {
				places += k
			}
		}
		if places >= own {
			return k
		}
	}
	return max(maxSkew, 1)
}
