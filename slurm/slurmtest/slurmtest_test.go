package slurmtest

import (
	"strings"
	"testing"

	"github.com/slinky-hpc/slinky/slurm"
)

func TestStart(t *testing.T) {
	c := Start(t, Options{ExternalNodes: []slurm.NodeCreate{ExternalNode("x1")}, Nodes: 1})
	if got := c.Run(t, "scontrol", "--version"); !strings.HasPrefix(got, "slurm-wlm 26.05") {
		t.Errorf("version %q, want 26.05", got)
	}
	if got := c.Run(t, "sinfo", "-h", "-p", "ext", "-o", "%N"); got != "x1" {
		t.Errorf("nodes of partition ext: %q", got)
	}
	if got := c.RunAs(t, "alice", "srun", "-p", "real", "id", "-un"); got != "alice" {
		t.Errorf("a step of alice's ran as %q", got)
	}
}

func TestTwoAtOnce(t *testing.T) {
	a, b := Start(t, Options{ClusterName: "a"}), Start(t, Options{ClusterName: "b"})
	for name, c := range map[string]*Cluster{"a": a, "b": b} {
		if got := c.Run(t, "scontrol", "show", "config"); !strings.Contains(got, "ClusterName             = "+name) {
			t.Errorf("%s: wrong cluster: %s", name, got)
		}
	}
}
