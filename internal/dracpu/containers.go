package dracpu

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// container is one that the runtime has told of. One without uses is shared.
type container struct {
	id   string
	pod  types.UID
	name string // for people, as in namespace/pod/container
	own  string // within the pod
	// onReserved: without a claim it runs on the reserved CPUs.
	onReserved bool
	uses       []use
	// cpus is what an exclusive container has; memory is what its claims give it, by NUMA node.
	cpus   cpuset.Set
	memory []cpuset.NodeMemory
	// withShared: it runs on the CPUs of containers without a claim as well.
	withShared bool
	// applied is what the runtime was last told; the empty set means nothing that can be trusted.
	applied cpuset.Set
	// stored: the runtime takes updates of it. started: its process runs.
	stored, started bool
	// early: it was updated before it was known to run. The runtime may have
	// started it with what it had before, so it is told once more.
	early bool
}

// exclusive: it has CPUs of its own. One that has only memory runs with those that have no claim.
func (c *container) exclusive() bool { return !c.cpus.Empty() }

// take adds what a use of a claim gives.
func (c *container) take(known *claim, u use) {
	c.cpus = c.cpus.Union(known.cpusOf(u.request))
	c.memory = cpuset.MemoryByNode(append(c.memory, known.memoryOf(u.request)...))
	c.withShared = c.withShared || known.WithShared
}

// nodes are the NUMA nodes that it has memory of.
func (c *container) nodes() cpuset.Set {
	var s cpuset.Set
	for _, m := range c.memory {
		s = s.Union(cpuset.Of(m.Node))
	}
	return s
}

// change is what to tell the runtime of a container. Without memory nodes, those that it has are right.
type change struct {
	id          string
	cpus, nodes cpuset.Set
	lift        bool // it has no CFS quota
}

// want is what a container should have. mu is held.
func (l *ledger) want(c *container, p pools) change {
	out := change{c.id, c.cpus, l.nodes(c), l.liftQuota && c.exclusive()}
	if !c.exclusive() || c.withShared {
		out.cpus = c.cpus.Union(p.of(c))
	}
	return out
}

// admit decides what a new container runs on, and which others must change first.
// A variable that names a claim gives its CPUs only to a pod that the claim is for.
func (l *ledger) admit(c *container) (changes []change, newOwner bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range c.uses {
		if err := l.mayUse(c, u); err != nil {
			return nil, false, err
		}
		c.take(l.claims[u.claim], u)
	}
	if c.applied = l.want(c, l.pools()).cpus; c.applied.Empty() {
		return nil, false, errors.New("no CPU is left for containers without a claim: claims have all, and none is reserved (reservedCPUs)")
	}
	for _, u := range c.uses {
		known := l.claims[u.claim]
		if known.Owner == "" {
			next := *known
			next.Owner, newOwner = c.pod, true
			l.claims[u.claim] = &next
		}
	}
	l.containers[c.id] = c
	if !c.exclusive() {
		return nil, newOwner, nil
	}
	return l.changes(), newOwner, nil
}

// mayUse tells whether the container may run on what the variable says. mu is held.
func (l *ledger) mayUse(c *container, u use) error {
	known := l.claims[u.claim]
	switch {
	case known == nil:
		return fmt.Errorf("claim %s is not prepared on this node", u.claim)
	case !known.cpusOf(u.request).Equal(u.cpus):
		return fmt.Errorf("%s has CPUs %s and the container's variable says %s", known, known.cpusOf(u.request), u.cpus)
	case !known.nodesOf(u.request).Equal(u.nodes):
		return fmt.Errorf("%s has memory of the NUMA nodes %q and the container's variable says %q", known, known.nodesOf(u.request), u.nodes)
	case len(known.Pods) > 0 && !slices.Contains(known.Pods, c.pod):
		return fmt.Errorf("%s is not for this pod", known)
	case known.Owner != "" && known.Owner != c.pod:
		return fmt.Errorf("%s already belongs to the pod %s", known, known.Owner)
	}
	if known.Sharing == cpuset.SharedByPod {
		return nil
	}
	for _, other := range l.containers {
		if other.id == c.id || other.pod == c.pod && other.own == c.own { // itself, or its own earlier run
			continue
		}
		for _, o := range other.uses {
			if o.claim == u.claim && (o.request < 0 || u.request < 0 || o.request == u.request) {
				return fmt.Errorf("%s is in use by the container %s: to let containers of a pod share it, set cpuConfig.sharing to %q in the claim's configuration for %s",
					known, other.name, cpuset.SharedByPod, cpuset.DriverName)
			}
		}
	}
	return nil
}

// nodes are the NUMA nodes that a container must have its memory of; none means any. mu is held.
func (l *ledger) nodes(c *container) cpuset.Set {
	if nodes := c.nodes(); !nodes.Empty() || !l.localMemory {
		return nodes
	}
	return l.machine.Topology.MemoryNodes(c.cpus)
}

// changes lists the containers that don't have what they should, those first that
// must give CPUs up, and takes for granted that the runtime carries it out; failed
// takes that back. mu is held.
func (l *ledger) changes() []change {
	now := l.pools()
	var shrink, grow []change
	for _, id := range slices.Sorted(maps.Keys(l.containers)) {
		c := l.containers[id]
		want := l.want(c, now)
		if !c.stored || want.cpus.Empty() || c.applied.Equal(want.cpus) {
			continue
		}
		if c.applied.Empty() || !c.applied.Within(want.cpus) {
			shrink = append(shrink, want)
		} else {
			grow = append(grow, want)
		}
		c.applied, c.early = want.cpus, c.early || !c.started
	}
	return append(shrink, grow...)
}

// pending is changes, for whoever doesn't hold mu.
func (l *ledger) pending() []change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes()
}

// failed notes that the runtime didn't carry changes out; they will be tried again.
func (l *ledger) failed(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if c := l.containers[id]; c != nil {
			c.applied = cpuset.Set{}
		}
	}
}

// names are the names of containers that are still there.
func (l *ledger) names(ids []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, id := range ids {
		if c := l.containers[id]; c != nil {
			out = append(out, c.name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// stored notes that the runtime takes updates of the container from now on, and
// tells whether there is one.
func (l *ledger) stored(id string) (stale bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.containers[id]
	if c == nil {
		return false
	}
	c.stored = true
	return l.stale(c)
}

// started notes that the container runs.
func (l *ledger) started(id string) (stale bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.containers[id]
	if c == nil {
		return false
	}
	c.stored, c.started = true, true
	if c.early {
		c.applied, c.early = cpuset.Set{}, false
		return true
	}
	return l.stale(c)
}

// stale tells whether a container doesn't have what it should. mu is held.
func (l *ledger) stale(c *container) bool { return !c.applied.Equal(l.want(c, l.pools()).cpus) }

// ended notes that the container runs no more. Its CPUs stay its claim's.
func (l *ledger) ended(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.containers, id)
	delete(l.alone, id)
}

// wanted is what a container that is being updated by kubelet must keep.
func (l *ledger) wanted(id string) (change, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.containers[id]
	if c == nil {
		return change{}, false
	}
	return l.want(c, l.pools()), true
}

// synchronize takes the containers that the runtime has for all there are. A
// container whose variable isn't borne out by the ledger is shared; each refusal
// is returned, and hinders no other container.
func (l *ledger) synchronize(all []*container) (changes []change, found []*claim, refused []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, refused = l.recover(all)
	l.containers = map[string]*container{}
	for _, c := range all {
		c.uses = l.byRequest(c.uses)
		for _, u := range c.uses {
			if err := l.mayUse(c, u); err != nil {
				refused = append(refused, fmt.Errorf("container %s: %w", c.name, err))
				c.uses = nil
				break
			}
		}
		for _, u := range c.uses {
			known := *l.claims[u.claim]
			c.take(&known, u)
			known.Owner = c.pod
			l.claims[u.claim] = &known
		}
		c.stored, c.applied = true, cpuset.Set{}
		l.containers[c.id] = c
	}
	return l.changes(), found, refused
}

// byRequest finds the requests that a container has of a claim: once it is made, it has one variable
// for all that it has of a claim, as environment writes it. mu is held.
func (l *ledger) byRequest(uses []use) []use {
	var out []use
	for _, u := range uses {
		known := l.claims[u.claim]
		if known == nil || u.request >= 0 || known.cpusOf(-1).Equal(u.cpus) && known.nodesOf(-1).Equal(u.nodes) {
			out = append(out, u)
			continue
		}
		var parts []use
		var cpus, nodes cpuset.Set
		for i := range known.requests() {
			part := use{claim: u.claim, request: i, cpus: known.cpusOf(i), nodes: known.nodesOf(i)}
			if part.cpus.Within(u.cpus) && part.nodes.Within(u.nodes) {
				parts, cpus, nodes = append(parts, part), cpus.Union(part.cpus), nodes.Union(part.nodes)
			}
		}
		if !cpus.Equal(u.cpus) || !nodes.Equal(u.nodes) {
			parts = []use{u} // It is refused by name.
		}
		out = append(out, parts...)
	}
	return out
}
