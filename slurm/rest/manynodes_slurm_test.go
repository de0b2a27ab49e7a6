package rest_test

import (
	"fmt"
	"testing"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// Many nodes are made with one call, each with its own address, all or none.
func TestCreateNodes(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{})
	node := func(name, address string) slurm.NodeCreate {
		return slurm.NodeCreate{
			Name: name, Address: address, External: true, CPUs: 4, Sockets: 1, CoresPerSocket: 4, ThreadsPerCore: 1,
			RealMemory: 1000, Features: []string{"ext"}, Comment: "of many", Extra: `{"a":"b"}`,
		}
	}
	for version, c := range clients(t, cluster) {
		if version == "v0.0.43" {
			continue // it makes no nodes
		}
		short := version[len(version)-2:]
		many := []slurm.NodeCreate{node("one"+short, "10.0.0.1"), node("two.x-"+short, "fd00::1:a"), node("s"+short+"-007", "10.0.0.1"), node("s"+short+"-8", "10.9.8.7")}
		kind(t, "nodes, one of which has a GresConf", c.CreateNodes(t.Context(), append(many[:1:1], slurmtest.ExternalNode("gpus"))), slurm.ErrInvalid)
		if err := c.CreateNodes(t.Context(), many); err != nil {
			t.Fatal(err)
		}
		for _, want := range many {
			n, err := c.Node(t.Context(), want.Name)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(n.Address, n.CPUs, n.Features, n.Comment, n.Extra)
			if want := fmt.Sprint(want.Address, want.CPUs, want.Features, want.Comment, want.Extra); got != want {
				t.Errorf("%s, %s: got %s, want %s", version, n.Name, got, want)
			}
		}
		late := node("late"+short, "10.0.0.2")
		if e := kind(t, "nodes, one of which exists", c.CreateNodes(t.Context(), []slurm.NodeCreate{late, many[0]}), slurm.ErrInvalid); e.Code != 2168 {
			t.Errorf("%s: code %d", version, e.Code)
		}
		_, err := c.Node(t.Context(), late.Name)
		kind(t, "a node that came with one that exists", err, slurm.ErrNotFound)
	}
}
