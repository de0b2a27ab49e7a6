package prom

import (
	"bytes"
	"os/exec"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/internal/exporter"
	"github.com/slinky-hpc/slinky/slurm"
)

// facts have one of everything that has series.
func facts() exporter.Facts {
	half := 0.5
	return exporter.Facts{
		Now: time.Unix(2e9, 0),
		Nodes: []slurm.Node{{Name: "n1", States: slurm.StatesOf("IDLE", "DRAIN"), Reason: `bad "disk"`, CPUs: 4, Partitions: []string{"a"}, GRES: "gpu:h100:4",
			Comment: `{"namespace":"slurm","podName":"p","node":"k","nodeSetName":"gpu"}`}},
		Jobs: []slurm.Job{{ID: 1, User: "ann", Account: "phys", Partition: "a", States: slurm.StatesOf("PENDING"), Reason: "Resources"},
			{ID: 2, User: "ann", Account: "phys", Partition: "a", States: slurm.StatesOf("RUNNING"), Nodes: "n1", TRESAllocated: "cpu=1,mem=1M"}},
		Partitions: []slurm.Partition{{Name: "a"}}, Reservations: []slurm.Reservation{{Name: "r"}}, Licenses: []slurm.License{{Name: "l", Total: 1}},
		Diag:        &slurm.Diag{CallsByType: []slurm.Calls{{Name: "REQUEST_PING", Count: 1}}, CallsByUser: []slurm.Calls{{Name: "ann", Count: 1}}},
		Controllers: []slurm.Ping{{Hostname: "c", Mode: "primary"}},
		Shares: []slurm.Share{{Name: "phys", Parent: "root", Normalized: &half, EffectiveUsage: &half, Level: &half, Factor: &half, Shares: slurm.NumberOf(1)},
			{User: true, Name: "ann", Parent: "phys", Factor: &half}},
		Associations: []slurm.Association{{AssociationKey: slurm.AssociationKey{Account: "phys"}, GrpTRES: "cpu=1"},
			{AssociationKey: slurm.AssociationKey{Account: "phys", User: "ann"}, MaxJobs: slurm.NumberOf(1)}},
	}
}

// Prometheus' own linter finds nothing, with all names that there are.
func TestLint(t *testing.T) {
	promtool := program(t, "promtool")
	page, err := exporter.Page(facts(), exporter.Options{Vpenso: true})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin = bytes.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
