package feature

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// Each expression is asked of Slurm for eight nodes, which have all sets of three features.
func TestAgainstSlurm(t *testing.T) {
	nodes := map[string][]string{}
	var o slurmtest.Options
	for i := range 8 {
		n := slurmtest.ExternalNode(fmt.Sprintf("x%d", i))
		n.GRES, n.GRESConf = "", ""
		for j, f := range []string{"a", "b", "c"} {
			if i>>j&1 == 1 {
				n.Features = append(n.Features, f)
			}
		}
		nodes[n.Name] = n.Features
		o.ExternalNodes = append(o.ExternalNodes, n)
	}
	c := slurmtest.Start(t, o)
	client := c.Client(t, "root")
	// runs tells whether a job can run on the node.
	runs := func(expr, node string) (bool, error) {
		id, err := client.AllocateNow(t.Context(), slurm.JobRequest{
			Name: "features", Partition: "ext", External: true, Constraints: expr, MinimumNodes: 1, MaximumNodes: 1, CPUsPerTask: 1,
			// Counts can't be asked for with a required node.
			ExcludedNodes: slices.DeleteFunc(slices.Sorted(maps.Keys(nodes)), func(n string) bool { return n == node }),
			MemoryPerNode: slurm.NumberOf(1), WorkingDirectory: "/tmp", Environment: []string{"A=b"},
		})
		if err == nil {
			return true, client.CancelJobs(t.Context(), id)
		}
		var e *slurm.Error
		if errors.As(err, &e) && e.Code == notAvailable {
			return false, nil
		}
		return false, err
	}

	exprs := append(understood(), "a*1", "[b*1]")
	r := rand.New(rand.NewPCG(20, 26))
	for len(exprs) < 100 {
		exprs = append(exprs, randomExpr(r))
	}
	for _, s := range exprs {
		e, err := Parse(s)
		if err != nil {
			t.Error(err)
			continue
		}
		for node, features := range nodes {
			slurms, err := runs(s, node)
			if err != nil {
				t.Errorf("%q: Slurm refuses it: %v", s, err)
				break
			}
			if ours := e.Match(features...); ours != slurms {
				t.Errorf("%q of %q: %t, but Slurm says %t", s, features, ours, slurms)
			}
		}
	}
	for s := range refused() {
		if ok, err := runs(s, "x7"); err == nil {
			t.Errorf("%q: Parse refuses it, but Slurm doesn't; runs: %t", s, ok)
		}
	}
	for _, s := range slices.Concat(counted(), slices.Collect(maps.Keys(guessed()))) {
		if _, err := runs(s, "x7"); err != nil {
			t.Errorf("%q: the table says that Slurm takes it, but: %v", s, err)
		}
	}
}

// notAvailable is Slurm's number for "Requested node configuration is not available".
const notAvailable = 2014

func randomExpr(r *rand.Rand) string {
	list := func(term func() string) string {
		var b strings.Builder
		for i := range 1 + r.IntN(3) {
			if i > 0 {
				b.WriteString([]string{"&", "|", ","}[r.IntN(3)])
			}
			b.WriteString(term())
		}
		return b.String()
	}
	name := func() string { return string("abc"[r.IntN(3)]) }
	return list(func() string {
		if r.IntN(3) == 0 {
			return "(" + list(name) + ")"
		}
		return name()
	})
}
