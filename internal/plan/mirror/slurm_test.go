package mirror

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/device/devicetest"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// A real Slurm takes each shape as it is meant, shows it so that nothing is planned
// again, and gives jobs what the numbers stand for.
func TestSlurmTakesShapes(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{})
	client := cluster.Client(t, "root")
	policy := testPolicy
	policy.Partition = "ext"
	for name, m := range devicetest.Machines() {
		t.Run(name, func(t *testing.T) {
			c := registered(t, m)
			if err := client.CreateNode(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			n, err := client.Node(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := []int{n.CPUs, n.EffectiveCPUs, n.Sockets, n.Cores, n.Threads},
				[]int{c.CPUs, c.CPUs - len(c.ReservedCPUs), c.Sockets, c.CoresPerSocket, c.ThreadsPerCore}; !slices.Equal(got, want) {
				t.Errorf("Slurm shows CPUs, usable CPUs, sockets, cores, threads %v, want %v", got, want)
			}
			if gresCounts(n.GRES) != c.GRES {
				t.Errorf("Slurm shows gres %q, want %q", n.GRES, c.GRES)
			}
			m.Node.Spec.Taints = append(m.Node.Spec.Taints, ourTaint)
			devices := device.Of(m.Node, m.Slices, device.Known())
			if d := cmp.Diff(Plan{}, Make(Facts{Kube: m.Node, Slurm: &n, Devices: devices, Policy: policy})); d != "" {
				t.Errorf("a node that was just registered isn't as it should be: %s", d)
			}
			whole := allocate(t, client, slurm.JobRequest{RequiredNodes: []string{name}, Exclusive: true})
			if got, want := whole.Cores, usable(devices); want != nil && !slices.Equal(got, want) {
				t.Errorf("a whole node has cores %v, want %v", got, want)
			}
		})
	}
	t.Run("devices come with the cores near them", func(t *testing.T) {
		for _, want := range []struct {
			cores  []int
			device int
		}{{[]int{0, 1}, 0}, {[]int{8, 9}, 3}, {[]int{2, 3}, 1}, {[]int{10, 11}, 4}} {
			got := allocate(t, client, slurm.JobRequest{RequiredNodes: []string{"gpus"}, CPUsPerTask: 4, TRESPerNode: "gres/gpu:gpu.nvidia.com=1"})
			if len(got.GRES) != 1 || !slices.Equal(got.GRES[0].Indexes, []int{want.device}) || !slices.Equal(got.Cores, want.cores) {
				t.Errorf("got cores %v and %+v, want cores %v and device %d", got.Cores, got.GRES, want.cores, want.device)
			}
		}
	})
}

// usable returns the abstract cores that jobs may use.
func usable(n device.Node) []int {
	if n.CPUs == nil {
		return nil
	}
	var out []int
	for i, core := range n.CPUs.Cores {
		if len(core.CPUs) > 0 {
			out = append(out, i)
		}
	}
	return out
}

// allocate starts a job and returns what it has. One that takes whole nodes ends at once.
func allocate(t *testing.T, client *rest.Client, req slurm.JobRequest) slurm.NodeAllocation {
	t.Helper()
	req.Name, req.Partition, req.External, req.WorkingDirectory = "j", "ext", true, "/tmp"
	req.Environment, req.MemoryPerNode = []string{"PATH=/bin"}, slurm.NumberOf(100)
	req.MinimumNodes, req.MaximumNodes, req.TasksPerNode = 1, 1, 1
	id, err := client.AllocateNow(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	a, err := client.Allocation(t.Context(), id)
	if err != nil || len(a.Nodes) != 1 {
		t.Fatalf("allocation %+v: %v", a, err)
	}
	if req.Exclusive {
		if err := client.CancelJobs(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	return a.Nodes[0]
}
