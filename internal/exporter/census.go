package exporter

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
)

// census is everything counted, of one state of Slurm.
type census struct {
	Facts
	jobs       *jobs
	nodes      *nodes
	partitions map[string]*partition
	accounts   map[string]*jobs
	users      map[user]*jobs
	list       []node
	gres       map[gres]*amount
	bounds     bounds
}

type partition struct {
	jobs  *jobs
	nodes *nodes
}

// user is a user by both names: neither alone is unique in what Slurm says.
type user struct {
	id   uint32
	name string
}

// everyoneElse has the number that no user may have.
var everyoneElse = user{1<<32 - 1, other}

func (u user) number() string {
	if u == everyoneElse {
		return other
	}
	return strconv.FormatUint(uint64(u.id), 10)
}

// take counts.
func take(f Facts, o Options) *census {
	c := &census{
		Facts: f, jobs: newJobs(), nodes: newNodes(), partitions: map[string]*partition{},
		accounts: map[string]*jobs{}, users: map[user]*jobs{}, gres: map[gres]*amount{},
		bounds: bound(&f, o.limit()),
	}
	for i := range f.Partitions {
		c.partition(f.Partitions[i].Name)
	}
	for i := range f.Nodes {
		c.node(readNode(&f.Nodes[i]))
	}
	names := userNames(f.Jobs)
	seen := map[uint32]bool{}
	for i := range f.Jobs {
		if j := &f.Jobs[i]; !seen[j.ID] {
			seen[j.ID] = true
			c.job(readJob(j), names)
		}
	}
	slices.SortFunc(c.list, func(a, b node) int { return cmp.Compare(a.Name, b.Name) })
	c.bounds.cut["node"] = max(0, len(c.list)-o.nodeLimit())
	c.list = c.list[:min(len(c.list), o.nodeLimit())]
	return c
}

// userNames is the name of each user id. Slurm leaves the name out where it can't find it, and
// another name of the same id would make one user two.
func userNames(all []slurm.Job) map[uint32]string {
	out := map[uint32]string{}
	for i := range all {
		if name := all[i].User; name != "" && (out[all[i].UserID] == "" || name < out[all[i].UserID]) {
			out[all[i].UserID] = name
		}
	}
	return out
}

func (c *census) partition(name string) *partition {
	if !c.bounds.partitions.has(name) {
		name = other
	}
	if c.partitions[name] == nil {
		c.partitions[name] = &partition{newJobs(), newNodes()}
	}
	return c.partitions[name]
}

// each gives the partitions of the names, each once: of those beyond the limit several are one.
func (c *census) each(names []string) []*partition {
	var out []*partition
	for _, name := range names {
		if name == "" {
			continue
		}
		if p := c.partition(name); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func (c *census) node(n node) {
	c.list = append(c.list, n)
	c.nodes.add(n)
	for _, part := range c.each(n.Partitions) {
		part.nodes.add(n)
	}
	for key, a := range n.gres {
		if c.gres[key] == nil {
			c.gres[key] = &amount{}
		}
		c.gres[key].total += a.total
		c.gres[key].alloc += a.alloc
	}
}

func (c *census) job(j job, names map[uint32]string) {
	c.jobs.add(j)
	// A job that waits may name several partitions.
	for _, part := range c.each(strings.Split(j.Partition, ",")) {
		part.jobs.add(j)
	}
	account := j.Account
	if !c.bounds.accounts.has(account) {
		account = other
	}
	if c.accounts[account] == nil {
		c.accounts[account] = newJobs()
	}
	c.accounts[account].add(j)
	u := user{j.UserID, names[j.UserID]}
	if !c.bounds.users.has(j.UserID) {
		u = everyoneElse
	}
	if c.users[u] == nil {
		c.users[u] = newJobs()
	}
	c.users[u].add(j)
}

// byUserName are the users' jobs by name alone, as slurmctld shows them. Two ids of one name are one there.
func (c *census) byUserName() map[string]*jobs {
	out := map[string]*jobs{}
	for _, u := range slices.SortedFunc(maps.Keys(c.users), func(a, b user) int { return cmp.Compare(a.id, b.id) }) {
		name := u.name
		if name == "" {
			name = u.number()
		}
		if have := out[name]; have != nil {
			out[name] = have.and(c.users[u])
		} else {
			out[name] = c.users[u]
		}
	}
	return out
}

// and is the sum of two counts, as far as users' series show it.
func (t *jobs) and(o *jobs) *jobs {
	sum := newJobs()
	for _, part := range []*jobs{t, o} {
		sum.total += part.total
		sum.started += part.started
		sum.ended += part.ended
		sum.held += part.held
		sum.cpus += part.cpus
		sum.memory += part.memory
		sum.gpus += part.gpus
		maps.Copy(sum.nodes, part.nodes)
		for word, n := range part.states {
			sum.states[word] += n
		}
	}
	return sum
}
