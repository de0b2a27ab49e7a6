package cache

import (
	"cmp"
	"slices"

	"github.com/slinky-hpc/slinky/slurm"
)

// Job returns the job's record. A task of a job array has an id of its own once it has started.
func (c *Cache) Job(id uint32) (slurm.Job, bool) {
	c.mu.RLock()
	j, ok := c.jobs[id]
	c.mu.RUnlock()
	if !ok {
		return slurm.Job{}, false
	}
	return j.record.Clone(), true
}

// Jobs returns all jobs, by id. It copies them all: where there are many, read
// those of a state, a partition, a user, a node or a key instead.
func (c *Cache) Jobs() []slurm.Job {
	c.mu.RLock()
	found := make([]*job, 0, len(c.jobs))
	for _, j := range c.jobs {
		found = append(found, j)
	}
	c.mu.RUnlock()
	slices.SortFunc(found, func(a, b *job) int { return cmp.Compare(a.record.ID, b.record.ID) })
	return copyJobs(found)
}

// JobsInState returns the jobs that have the given word, as slurm.JobPending, among their states, by id.
func (c *Cache) JobsInState(state string) []slurm.Job { return c.jobsIn(&c.jobsBy.state, state) }

// JobsInPartition returns the jobs of a partition, by id: waiting ones that name it among others too.
func (c *Cache) JobsInPartition(name string) []slurm.Job { return c.jobsIn(&c.jobsBy.partition, name) }

// JobsOfUser returns the jobs of the user with the given name, by id.
func (c *Cache) JobsOfUser(name string) []slurm.Job { return c.jobsIn(&c.jobsBy.user, name) }

// JobsOnNode returns the jobs that hold a node, by id; not those that ended there.
func (c *Cache) JobsOnNode(name string) []slurm.Job { return c.jobsIn(&c.jobsBy.node, name) }

// JobsWithKey returns the jobs that Options.Key gave the key for, by id.
func (c *Cache) JobsWithKey(key string) []slurm.Job { return c.jobsIn(&c.jobsBy.key, key) }

// jobsIn returns what an index has for a value; the index is read under the lock.
func (c *Cache) jobsIn(by *index[uint32], value string) []slurm.Job {
	c.mu.RLock()
	ids := (*by)[value]
	found := make([]*job, len(ids))
	for i, id := range ids {
		found[i] = c.jobs[id]
	}
	c.mu.RUnlock()
	return copyJobs(found)
}

// copyJobs needs no lock: records are replaced, never changed.
func copyJobs(jobs []*job) []slurm.Job {
	out := make([]slurm.Job, len(jobs))
	for i, j := range jobs {
		out[i] = j.record.Clone()
	}
	return out
}

// CountJobs returns how many jobs have each state word. A job may have several.
func (c *Cache) CountJobs() map[string]int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return count(c.jobsBy.state)
}

// CountNodes returns how many nodes have each state word. A node may have several.
func (c *Cache) CountNodes() map[string]int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return count(c.nodesBy.state)
}

func count[ID cmp.Ordered](x index[ID]) map[string]int {
	out := make(map[string]int, len(x))
	for value, ids := range x {
		out[value] = len(ids)
	}
	return out
}

// Allocation returns what an external job was granted. It is there from the
// moment that the job is seen running until the job is gone.
func (c *Cache) Allocation(id uint32) (slurm.Allocation, bool) {
	c.mu.RLock()
	j, ok := c.jobs[id]
	c.mu.RUnlock()
	if !ok || j.allocation == nil {
		return slurm.Allocation{}, false
	}
	return j.allocation.Clone(), true
}

// Node returns the node's record.
func (c *Cache) Node(name string) (slurm.Node, bool) {
	c.mu.RLock()
	n, ok := c.nodes[name]
	c.mu.RUnlock()
	if !ok {
		return slurm.Node{}, false
	}
	return n.record.Clone(), true
}

// Nodes returns all nodes, by name.
func (c *Cache) Nodes() []slurm.Node {
	c.mu.RLock()
	found := make([]*node, 0, len(c.nodes))
	for _, n := range c.nodes {
		found = append(found, n)
	}
	c.mu.RUnlock()
	slices.SortFunc(found, func(a, b *node) int { return cmp.Compare(a.record.Name, b.record.Name) })
	return copyNodes(found)
}

// NodesInState returns the nodes that have the given word, as slurm.NodeIdle, among their states, by name.
func (c *Cache) NodesInState(state string) []slurm.Node {
	return c.nodesIn(&c.nodesBy.state, state)
}

// NodesInPartition returns the nodes of a partition, by name.
func (c *Cache) NodesInPartition(name string) []slurm.Node {
	return c.nodesIn(&c.nodesBy.partition, name)
}

func (c *Cache) nodesIn(by *index[string], value string) []slurm.Node {
	c.mu.RLock()
	names := (*by)[value]
	found := make([]*node, len(names))
	for i, name := range names {
		found[i] = c.nodes[name]
	}
	c.mu.RUnlock()
	return copyNodes(found)
}

func copyNodes(nodes []*node) []slurm.Node {
	out := make([]slurm.Node, len(nodes))
	for i, n := range nodes {
		out[i] = n.record.Clone()
	}
	return out
}
