package rest_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// A partition whose nodes are all DOWN, as ours are before a worker registers, takes every job that they
// could run, and tells what each asks for.
func TestWhatWaitingJobsAsk(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{Config: []string{"NodeSet=z Feature=z", "PartitionName=z Nodes=z", "EnforcePartLimits=ALL"}})
	c := cluster.Client(t, "root")
	for i := range 3 {
		n := slurm.NodeCreate{Name: fmt.Sprintf("z_spare%d", i), Address: "127.0.0.1", Future: true, CPUs: 8, Sockets: 1, CoresPerSocket: 4,
			ThreadsPerCore: 2, RealMemory: 2000, Features: []string{"z", "a"}, GRES: "gpu:a100:2", GRESConf: "count=2,name=gpu,type=a100"}
		if err := c.CreateNode(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if err := c.UpdateNode(t.Context(), n.Name, slurm.NodeUpdate{State: slurm.NodeDown, Reason: "no worker yet"}); err != nil {
			t.Fatal(err)
		}
	}
	number := slurm.NumberOf
	all, one := number(0), number(1)
	for name, tc := range map[string]struct {
		args []string
		want slurm.JobAsks
	}{
		"nodes, gres, features": {[]string{"-N2", "--gres=gpu:a100:2", "-C", "a&z"}, slurm.JobAsks{
			Constraints: "a&z", MaximumNodes: number(2), CPUsPerTask: one, MinimumCPUsPerNode: one, MemoryPerNode: all, TRESPerNode: "gres/gpu:a100:2"}},
		"tasks": {[]string{"-n4", "-c3", "--mem-per-cpu=100"}, slurm.JobAsks{
			MaximumNodes: number(4), CPUsPerTask: number(3), MinimumCPUsPerNode: number(3), MemoryPerCPU: number(100), TRESPerTask: "cpu=3"}},
		"gres of the job": {[]string{"-n4", "--gpus=4"}, slurm.JobAsks{
			MaximumNodes: number(4), CPUsPerTask: one, MinimumCPUsPerNode: one, MemoryPerNode: all, TRESPerJob: "gres/gpu:4"}},
		"a range of nodes": {[]string{"-N2-3", "--ntasks-per-node=2", "--mem=1500"}, slurm.JobAsks{
			MaximumNodes: number(3), CPUsPerTask: one, TasksPerNode: number(2), MinimumCPUsPerNode: number(2), MemoryPerNode: number(1500)}},
		"an array": {[]string{"--array=0-9%3", "-n2", "--tres-per-task=gres/gpu:1"}, slurm.JobAsks{
			MaximumNodes: number(2), CPUsPerTask: one, MinimumCPUsPerNode: one, MemoryPerNode: all, TRESPerTask: "gres/gpu:1"}},
		"whole, named nodes": {[]string{"--exclusive", "-w", "z_spare1", "-x", "z_spare[0,2]"}, slurm.JobAsks{
			RequiredNodes: "z_spare1", ExcludedNodes: "z_spare[0,2]", Exclusive: true, MaximumNodes: one, CPUsPerTask: one, MinimumCPUsPerNode: one, MemoryPerNode: all}},
	} {
		var id uint32
		out := cluster.Run(t, append([]string{"sbatch", "-p", "z", "--parsable", "--wrap", "true"}, tc.args...)...)
		if _, err := fmt.Sscan(out, &id); err != nil {
			t.Fatalf("%s: sbatch said %q", name, out)
		}
		job, err := c.Job(t.Context(), id)
		if err != nil || !job.States.Has(slurm.JobPending) {
			t.Fatalf("%s: job %+v, %v", name, job, err)
		}
		if diff := cmp.Diff(tc.want, job.Asked); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if name == "an array" && job.ArrayTasks != "0-9%3" {
			t.Errorf("%s: tasks %q", name, job.ArrayTasks)
		}
	}
}
