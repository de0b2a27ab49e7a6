package exporter

import (
	"cmp"
	"maps"
	"slices"
)

// other stands for all values of a label beyond the bound: their numbers are summed up.
const other = "_other"

// kept are the values of a label that have series of their own; nil is all.
type kept[K comparable] map[K]bool

// keep chooses the greatest of counted values, among equals the first. Which ones these are depends on
// the counts alone, so two exporters of one cluster choose the same.
func keep[K cmp.Ordered](counted map[K]int, limit int) kept[K] {
	if len(counted) <= limit {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(counted), func(a, b K) int {
		return cmp.Or(cmp.Compare(counted[b], counted[a]), cmp.Compare(a, b))
	})
	out := kept[K]{}
	for _, name := range names[:limit] {
		out[name] = true
	}
	return out
}

func (k kept[K]) has(name K) bool { return k == nil || k[name] }

// bounds are what the labels of one page are held to.
type bounds struct {
	users                kept[uint32]
	accounts, partitions kept[string]
	// cut is how many values of a label have no series of their own.
	cut map[string]int
}

// bound looks at all records before they are counted.
func bound(f *Facts, limit int) bounds {
	users, accounts, partitions := map[uint32]int{}, map[string]int{}, map[string]int{}
	for i := range f.Jobs {
		users[f.Jobs[i].UserID]++
		accounts[f.Jobs[i].Account]++
	}
	// A partition is as great as its nodes: one that comes and goes with jobs must not push out another.
	for i := range f.Partitions {
		partitions[f.Partitions[i].Name] += 1 + f.Partitions[i].TotalNodes
	}
	for i := range f.Nodes {
		for _, name := range f.Nodes[i].Partitions {
			partitions[name]++
		}
	}
	b := bounds{keep(users, limit), keep(accounts, limit), keep(partitions, limit), map[string]int{}}
	for label, n := range map[string]int{"user": len(users), "account": len(accounts), "partition": len(partitions)} {
		b.cut[label] = max(0, n-limit)
	}
	return b
}

// atMost sums up what is beyond the limit as other.
func atMost(counted map[string]int, limit int) map[string]int {
	names := keep(counted, limit)
	if names == nil {
		return counted
	}
	out := map[string]int{}
	for name, n := range counted {
		if !names.has(name) {
			name = other
		}
		out[name] += n
	}
	return out
}

// first are the first elements of a list by name; the rest has no series.
func first[T any](list []T, name func(T) string, limit int) []T {
	sorted := slices.SortedFunc(slices.Values(list), func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	return sorted[:min(len(sorted), limit)]
}
