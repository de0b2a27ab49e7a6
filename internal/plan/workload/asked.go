package workload

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// Asked stands for what the owners of a workload say about its job: two sums, one of
// which annotations there are, the other of what they say.
func (g Group) Asked() string {
	keys, values := fnv.New32a(), fnv.New64a()
	for _, key := range slices.Sorted(maps.Keys(g.Annotations)) {
		if strings.HasPrefix(key, v1beta1.JobAnnotationPrefix) {
			fmt.Fprintf(keys, "%q", key)
			fmt.Fprintf(values, "%q%q", key, g.Annotations[key])
		}
	}
	fmt.Fprintf(values, " %d %d", g.MinCount, g.DeadlineSeconds)
	for _, name := range slices.Sorted(maps.Keys(g.MinResources)) {
		q := g.MinResources[name]
		fmt.Fprintf(values, " %s=%s", name, q.String())
	}
	return fmt.Sprintf("%08x-%016x", keys.Sum32(), values.Sum64())
}

// change is how what is asked for differs from what was.
type change int

const (
	askedSame change = iota
	// askedMore: the same annotations say something else, so the job can be changed.
	askedMore
	// askedOther: an annotation has come or gone. A change of a job can't take a thing back to Slurm's default.
	askedOther
)

func (m Mark) changed(now string) change {
	was, _, _ := strings.Cut(m.Asked, "-")
	is, _, _ := strings.Cut(now, "-")
	switch {
	case m.Asked == "" || m.Asked == now:
		return askedSame
	case was == is:
		return askedMore
	}
	return askedOther
}

// Change returns a request as a change of the job that waits: without what can't
// change any more, or doesn't.
func Change(req slurm.JobRequest) slurm.JobRequest {
	req.UserID, req.GroupID, req.MCSLabel, req.WorkingDirectory, req.Environment = "", "", "", "", nil
	req.ExcludedNodes = Exclude(req.ExcludedNodes)
	return req
}

// Exclude returns the excluded nodes of a change: an empty list would change nothing, one of
// nobody's name takes all away (measured on Slurm 26.05).
func Exclude(nodes []string) []string {
	if len(nodes) == 0 {
		return []string{""}
	}
	return nodes
}
