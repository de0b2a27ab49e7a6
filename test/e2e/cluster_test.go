package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// cluster is a Slurm cluster in the test's own namespace, beside the box's.
// Its Controller is named slurm, as in examples/slurm-cluster.
type cluster struct{ *box }

// cluster makes the two keys and what the manifest says, and waits for slurmctld.
func (b *box) cluster(manifest string) *cluster {
	b.t.Helper()
	b.keys()
	b.apply(manifest)
	b.wait("pod/slurm-controller-0", "create")
	b.wait("pod/slurm-controller-0", "condition=Ready")
	// NodeSets that came just after the Controller changed slurm.conf, and so slurmctld's pod, once more.
	b.wait("controller.slinky.slurm.net/slurm", "condition=Progressing=False")
	b.wait("controller.slinky.slurm.net/slurm", "condition=Ready")
	b.wait("deployment/slurm-restapi", "create")
	b.wait("deployment/slurm-restapi", "condition=Available")
	return &cluster{box: b}
}

// keys makes the Secrets that a Controller needs.
func (b *box) keys() {
	b.t.Helper()
	for _, name := range []string{"slurm", "jwt"} {
		b.kubectl("create", "secret", "generic", "-n", b.namespace, "slurm-auth-"+name,
			fmt.Sprintf("--from-literal=%s.key=%s", name, rand.Text()+rand.Text()))
	}
}

// exampleCluster is the manifest of examples/slurm-cluster for the test's namespace.
func (b *box) exampleCluster() string {
	b.t.Helper()
	_, manifest, ok := strings.Cut(example(b.t, "slurm-cluster/cluster.yaml"), "\n---\n") // the first object is the namespace
	if !ok {
		b.t.Fatal("the example's manifest is not several objects")
	}
	return strings.ReplaceAll(manifest, "namespace: slurm\n", "namespace: "+b.namespace+"\n")
}

// command is the slinky command that runs args beside the cluster's slurmctld.
func (c *cluster) command(args ...string) []string {
	return append([]string{"kubectl", "exec", "-i", "-n", c.namespace, "slurm-controller-0", "-c", "slurmctld", "--"}, args...)
}

// slurm runs a Slurm command, or any other, beside the cluster's slurmctld.
func (c *cluster) slurm(stdin string, args ...string) string {
	c.t.Helper()
	return c.must(stdin, c.command(args...)...)
}

// nodeStates are the states that sinfo prints for each node, such as "idle" and "mixed".
func (c *cluster) nodeStates(ctx context.Context) (map[string]string, error) {
	out, err := c.run(ctx, "", c.command("sinfo", "--noheader", "--Node", "--format", "%N %T")...)
	states := map[string]string{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 2 {
			states[f[0]] = f[1]
		}
	}
	return states, err
}

// nodesAre waits until the cluster has exactly these nodes, each in the state.
func (c *cluster) nodesAre(state string, names ...string) {
	c.t.Helper()
	want := map[string]string{}
	for _, name := range names {
		want[name] = state
	}
	c.until(fmt.Sprintf("nodes %s are %s", strings.Join(names, ", "), state), func(ctx context.Context) error {
		states, err := c.nodeStates(ctx)
		if err == nil && !maps.Equal(states, want) {
			err = fmt.Errorf("sinfo says %v", states)
		}
		return err
	})
}

// submit gives a batch script to sbatch and returns the job's id.
func (c *cluster) submit(script string, options ...string) string {
	c.t.Helper()
	return strings.TrimSpace(c.slurm(script, append([]string{"sbatch", "--parsable"}, options...)...))
}

// jobIs waits until a job is in the state.
func (c *cluster) jobIs(job, want string) {
	c.t.Helper()
	c.until("job "+job+" is "+want, func(ctx context.Context) error {
		out, err := c.run(ctx, "", c.command("scontrol", "show", "job", job, "--oneliner")...)
		if err == nil && field(out, "JobState") != want {
			err = fmt.Errorf("it is %s (%s)", field(out, "JobState"), field(out, "Reason"))
		}
		return err
	})
}

// batchHost is the worker that runs, or ran, a job's script: of several, Slurm chooses.
func (c *cluster) batchHost(job string) string {
	c.t.Helper()
	return field(c.slurm("", "scontrol", "show", "job", job, "--oneliner"), "BatchHost")
}

// hosts are the names that a job's tasks printed, sorted.
func hosts(out string) []string { return slices.Sorted(slices.Values(strings.Fields(out))) }
