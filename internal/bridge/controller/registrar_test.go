package controller

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// manyNodes notes which nodes each call made. It refuses calls with a node that refuse names.
type manyNodes struct {
	Slurm
	calls  []string
	refuse string
	code   int
	kind   error
}

func (m *manyNodes) CreateNodes(_ context.Context, nodes []slurm.NodeCreate) error {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	m.calls = append(m.calls, strings.Join(names, ","))
	if slices.Contains(names, m.refuse) {
		return &slurm.Error{Kind: m.kind, Op: "create", Code: m.code}
	}
	return nil
}

func TestRegistrar(t *testing.T) {
	now := time.Now()
	node := func(name string, cpus int) slurm.NodeCreate { return slurm.NodeCreate{Name: name, CPUs: cpus} }
	all := []slurm.NodeCreate{node("a", 1), node("b", 2), node("c", 1), {Name: "g", GRESConf: "x"}, {Name: "h", GRESConf: "x"}, node("d", 1)}
	for name, c := range map[string]struct {
		slurm manyNodes
		calls string
		fails string
	}{
		"alike go together": {calls: "a,c,d|b|g|h"},
		"one is there":      {slurm: manyNodes{refuse: "c", code: slurmNodeExists, kind: slurm.ErrInvalid}, calls: "a,c,d|a|c|d|b|g|h"},
		"one is refused":    {slurm: manyNodes{refuse: "c", kind: slurm.ErrInvalid}, calls: "a,c,d|a|c|d|b|g|h", fails: "c"},
		"Slurm is away":     {slurm: manyNodes{refuse: "c", kind: slurm.ErrUnavailable}, calls: "a,c,d|b|g|h", fails: "a,c,d"},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			r := newRegistrar(&c.slurm, func(_ context.Context, name string) { told = append(told, name) }, func() {})
			for _, n := range append(all, node("gone", 1)) {
				if done, err := r.register(n, now); done || err != nil {
					t.Fatalf("%s: done %v, %v", n.Name, done, err)
				}
			}
			r.forget("gone")
			for batch := r.next(); len(batch) > 0; batch = r.next() {
				if done, err := r.register(batch[0].node, now); done || err != nil {
					t.Errorf("%s, under way: done %v, %v", batch[0].node.Name, done, err)
				}
				r.create(t.Context(), batch)
			}
			if got := strings.Join(c.slurm.calls, "|"); got != c.calls {
				t.Errorf("calls %s, want %s", got, c.calls)
			}
			var failed []string
			for _, n := range all {
				done, err := r.register(n, now)
				if done == (err != nil) {
					t.Errorf("%s: done %v, %v", n.Name, done, err)
				}
				if err != nil {
					failed = append(failed, n.Name)
				}
			}
			if got := strings.Join(failed, ","); got != c.fails {
				t.Errorf("failed %s, want %s", got, c.fails)
			}
			if len(told) != len(all) {
				t.Errorf("told of %v", told)
			}
			if done, _ := r.register(node("b", 2), now.Add(time.Hour)); done {
				t.Error("a node that the view never showed isn't registered again")
			}
		})
	}
}
