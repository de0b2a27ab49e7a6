package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Batch scripts with the options that people really use, on two workers with two
// made-up GPUs each: every job ends as COMPLETED and with as many tasks as asked for.
func TestBatchScriptsPeopleUse(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-userjobs")
	manifest := strings.Replace(b.exampleCluster(), "AutoDetect=off", "AutoDetect=off\n    Name=gpu Type=fake File=/dev/null,/dev/zero", 1)
	manifest = strings.Replace(manifest, "  partition:\n", "  extraConf: Gres=gpu:fake:2\n  partition:\n", 1)
	c := b.cluster(manifest)
	c.nodesAre("idle", "cpu-0", "cpu-1")
	if gres := c.slurm("", "sinfo", "--noheader", "--format", "%G"); strings.TrimSpace(gres) != "gpu:fake:2" {
		t.Errorf("at its first registration a worker has the GRES %q", gres)
	}
	// A worker's name is known on every worker, and the job's own environment stays as it was.
	const names = `for h in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do getent hosts "$h" || exit 1; done`
	jobs := []struct {
		name, script string
		options      []string
		want         string // what the job prints, lines sorted
	}{
		{"names", names + " >/dev/null\nsrun hostname", []string{"--nodes=2", "--ntasks-per-node=1"}, "cpu-0 cpu-1"},
		{"gres", `srun sh -c 'echo ${SLURM_JOB_GPUS:-$SLURM_STEP_GPUS}'`, []string{"--gres=gpu:2"}, "0,1"},
		{"gpus-per-node", "srun hostname", []string{"--nodes=2", "--gpus-per-node=1"}, "cpu-0 cpu-1"},
		{"tasks", "srun hostname", []string{"--nodes=2", "--ntasks-per-node=2", "--wait-all-nodes=1", "--overcommit"}, "cpu-0 cpu-0 cpu-1 cpu-1"},
		{"exclusive", "srun hostname", []string{"--nodes=2", "--exclusive", "--time=1-00:00:00"}, "cpu-0 cpu-1"},
		{"export", "echo $KEPT", []string{"--export=ALL,KEPT=yes"}, "yes"},
		{"array", "echo $SLURM_ARRAY_TASK_ID", []string{"--array=1-3%2", "--open-mode=append"}, "1 2 3"},
		{"signal", "trap 'echo warned; exit 0' USR1\nwhile :; do sleep 1 & wait $!; done", []string{"--signal=B:USR1@60", "--time=1"}, "warned"},
	}
	ids := map[string]string{}
	out := func(name string) string { return sharedFolder + "/" + b.namespace + "-" + name + ".out" }
	t.Cleanup(func() { b.discard(c.asRoot("sh", "-c", "rm -f "+out("*"))...) })
	for _, j := range jobs {
		ids[j.name] = c.submitAsRoot("#!/bin/bash\n"+j.script+"\n", append(j.options, "--output="+out(j.name))...)
	}
	for _, j := range jobs {
		t.Run(j.name, func(t *testing.T) {
			in := &cluster{box: b.in(t)}
			in.jobIs(ids[j.name], "COMPLETED")
			got := in.slurm("", "cat", out(j.name))
			if j.name == "signal" { // slurmstepd writes of the signal, too
				got = strings.Join(regexp.MustCompile(`(?m)^warned$`).FindAllString(got, -1), " ")
			}
			if d := cmp.Diff(strings.Fields(j.want), hosts(got)); d != "" {
				t.Errorf("output (-want +got):\n%s", d)
			}
		})
	}
	c.requeued(out("requeue"))
}

// requeued deletes the worker of a running job that may be run again: it runs again, and to its end.
func (c *cluster) requeued(out string) {
	c.t.Helper()
	job := c.submitAsRoot("#!/bin/bash\necho run $SLURM_RESTART_COUNT\n[ -n \"$SLURM_RESTART_COUNT\" ] || sleep 3600\n",
		"--requeue", "--nodelist=cpu-1", "--open-mode=append", "--output="+out)
	c.jobIs(job, "RUNNING")
	c.kubectl("delete", "-n", c.namespace, "pod", "cpu-1", "--wait")
	c.until("the job runs again, and to its end", func(ctx context.Context) error {
		info, err := c.run(ctx, "", c.command("scontrol", "show", "job", job, "--oneliner")...)
		if err != nil {
			return err
		}
		state, reason := field(info, "JobState"), field(info, "Reason")
		if state == "COMPLETED" && field(info, "Restarts") != "0" {
			return nil
		}
		if state == "PENDING" && reason == "BeginTime" {
			// Slurm lets a job that it requeued wait for two minutes, from when the last of its old node is gone.
			_, err = c.run(ctx, "", c.command("scontrol", "update", "JobId="+job, "StartTime=now")...)
		}
		return errors.Join(fmt.Errorf("it is %s (%s), restarts: %s", state, reason, field(info, "Restarts")), err)
	})
	// Between the runs slurmstepd tells of the lost node. Slurm may start the job once more on the node that ends.
	if got := c.slurm("", "cat", out); !regexp.MustCompile(`(?s)^run\n.*\nrun [1-9]\n$`).MatchString(got) {
		c.t.Errorf("the job printed %q", got)
	}
}

// asRoot is the slinky command that runs args on a worker: the user slurm, whom slurmctld's pod has, is no user with a shell.
func (c *cluster) asRoot(args ...string) []string {
	return append([]string{"kubectl", "exec", "-i", "-n", c.namespace, "cpu-0", "-c", "slurmd", "--"}, args...)
}

func (c *cluster) submitAsRoot(script string, options ...string) string {
	c.t.Helper()
	return strings.TrimSpace(c.must(script, c.asRoot(append([]string{"sbatch", "--parsable"}, options...)...)...))
}
