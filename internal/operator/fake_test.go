package operator

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/slurm"
)

// fakeSlurm is a Slurm cluster with nodes and no jobs. All other calls panic.
type fakeSlurm struct {
	slurm.Client

	mu    sync.Mutex
	nodes map[string]slurm.Node
	// updates counts the writes to nodes.
	updates int
}

func (f *fakeSlurm) set(name string, states ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[name]
	n.Name, n.States = name, slurm.StatesOf(states...)
	f.nodes[name] = n
}

func (f *fakeSlurm) get(name string) slurm.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[name]
}

// count is the number of writes to nodes so far.
func (f *fakeSlurm) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.updates
}

func (f *fakeSlurm) JobStates(context.Context) ([]slurm.JobState, error) { return nil, nil }
func (f *fakeSlurm) Jobs(context.Context) ([]slurm.Job, error)           { return nil, nil }

func (f *fakeSlurm) Nodes(context.Context) ([]slurm.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.nodes)), nil
}

func (f *fakeSlurm) Node(_ context.Context, name string) (slurm.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.nodes[name]
	if !ok {
		return n, &slurm.Error{Kind: slurm.ErrNotFound, Op: "get node " + name}
	}
	return n, nil
}

func (f *fakeSlurm) UpdateNode(_ context.Context, name string, u slurm.NodeUpdate) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[name]
	f.updates++
	switch u.State {
	case "DRAIN":
		n.States, n.Reason = slurm.StatesOf(append([]string{slurm.NodeDrain}, n.States...)...), u.Reason
	case "UNDRAIN", "RESUME":
		n.States, n.Reason = slurm.StatesOf(slurm.NodeIdle), ""
	}
	if u.Comment != nil {
		n.Comment = *u.Comment
	}
	if u.Features != nil {
		n.Features, n.ActiveFeatures = u.Features, u.ActiveFeatures
	}
	if u.Topology != nil {
		if strings.Contains(*u.Topology, "unknown") {
			return &slurm.Error{Kind: slurm.ErrInvalid, Op: "update node " + name, Text: "Requested topology configuration is not available"}
		}
		n.Topology = *u.Topology
	}
	f.nodes[name] = n
	return nil
}

func (f *fakeSlurm) DeleteNode(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes, name)
	return nil
}

func items(t *testing.T, list client.ObjectList) []client.Object {
	t.Helper()
	raw, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	var out []client.Object
	for _, o := range raw {
		out = append(out, o.(client.Object))
	}
	return out
}
