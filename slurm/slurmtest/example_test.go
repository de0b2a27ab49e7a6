package slurmtest_test

import (
	"testing"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// A test that needs a real Slurm with one external node.
func ExampleStart() {
	_ = func(t *testing.T) {
		cluster := slurmtest.Start(t, slurmtest.Options{ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
		client := cluster.Client(t, "root")
		if _, err := client.Node(t.Context(), "x1"); err != nil {
			t.Error(err)
		}
		t.Log(cluster.Run(t, "scontrol", "show", "node", "x1"))
	}
}
