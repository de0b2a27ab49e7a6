package cache

import (
	"cmp"
	"slices"
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// index has the ids of all that has a value, in order. Most sets have one id or
// are added to at their end, so slices are smaller than maps and quick enough.
type index[ID cmp.Ordered] map[string][]ID

// move takes id out of the sets of some values and puts it into those of others.
func (x index[ID]) move(id ID, from, to []string) {
	if slices.Equal(from, to) {
		return
	}
	for _, value := range from {
		ids := x[value]
		at, there := slices.BinarySearch(ids, id)
		switch {
		case !there:
		case len(ids) == 1:
			delete(x, value)
		default:
			x[value] = slices.Delete(ids, at, at+1)
		}
	}
	for _, value := range to {
		ids := x[value]
		if at, there := slices.BinarySearch(ids, id); !there {
			x[value] = slices.Insert(ids, at, id)
		}
	}
}

type jobIndexes struct {
	state, partition, user, node, key index[uint32]
}

func newJobIndexes() jobIndexes {
	return jobIndexes{index[uint32]{}, index[uint32]{}, index[uint32]{}, index[uint32]{}, index[uint32]{}}
}

// update makes the indexes follow a job's record from old to now, either of which may be nil.
func (x jobIndexes) update(id uint32, old, now *job) {
	var none job
	old, now = cmp.Or(old, &none), cmp.Or(now, &none)
	a, b := &old.record, &now.record
	x.state.move(id, a.States, b.States)
	if a.Partition != b.Partition {
		x.partition.move(id, split(a.Partition), split(b.Partition))
	}
	if a.User != b.User {
		x.user.move(id, one(a.User), one(b.User))
	}
	if old.key != now.key {
		x.key.move(id, one(old.key), one(now.key))
	}
	if a.Nodes != b.Nodes || holdsNodes(a) != holdsNodes(b) {
		x.node.move(id, nodesOf(a), nodesOf(b))
	}
}

type nodeIndexes struct {
	state, partition index[string]
}

func newNodeIndexes() nodeIndexes { return nodeIndexes{index[string]{}, index[string]{}} }

func (x nodeIndexes) update(name string, old, now *node) {
	var none node
	old, now = cmp.Or(old, &none), cmp.Or(now, &none)
	x.state.move(name, old.record.States, now.record.States)
	x.partition.move(name, old.record.Partitions, now.record.Partitions)
}

func one(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// split returns the partitions of a job: a pending one may have several.
func split(partitions string) []string {
	if !strings.Contains(partitions, ",") {
		return one(partitions)
	}
	return strings.Split(partitions, ",")
}

// holdsNodes tells whether a job has its nodes still: Slurm shows them after its end too.
func holdsNodes(j *slurm.Job) bool {
	return j.Nodes != "" && (!j.States.JobEnded() || j.States.Has(slurm.JobCompleting))
}

// nodesOf returns the nodes that a job holds. A list that can't be read has none
// that anybody could ask for.
func nodesOf(j *slurm.Job) []string {
	if !holdsNodes(j) {
		return nil
	}
	names, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return nil
	}
	return names
}
