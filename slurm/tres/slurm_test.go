package tres_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// field returns what scontrol prints behind name=.
func field(t *testing.T, text, name string) string {
	t.Helper()
	for word := range strings.FieldsSeq(text) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	t.Fatalf("no %s in %s", name, text)
	return ""
}

func TestAgainstSlurm(t *testing.T) {
	c := slurmtest.Start(t, slurmtest.Options{})
	client := c.Client(t, "root")
	t.Run("TRES of nodes", func(t *testing.T) {
		r := rand.New(rand.NewPCG(20, 26))
		for i := range 60 {
			// Half of the amounts are such as Slurm prints in a larger unit.
			memory := 1 + r.Uint64N(1<<r.IntN(24))
			if i%2 == 0 {
				memory = 512 * (2 + r.Uint64N(1<<r.IntN(11)))
			}
			n := slurmtest.ExternalNode("m" + strconv.Itoa(i))
			n.GRES, n.GRESConf, n.RealMemory = "", "", memory
			if err := client.CreateNode(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			text := field(t, c.Run(t, "scontrol", "-o", "show", "node", n.Name), "CfgTRES")
			want := []tres.Item{{Type: "cpu", Count: 16}, {Type: "mem", Count: memory}, {Type: "billing", Count: 16}}
			got, err := tres.Parse(text)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
			}
			if printed := tres.Format(want); printed != text {
				t.Errorf("%q, but Slurm prints %q", printed, text)
			}
		}
	})
	t.Run("GRES of jobs", func(t *testing.T) { againstJobs(t, c) })
}

// againstJobs compares what scontrol prints of a job's devices with slurmrestd's resource layout.
func againstJobs(t *testing.T, c *slurmtest.Cluster) {
	client := c.Client(t, "root")
	n := slurmtest.ExternalNode("g1")
	n.GRES = "gpu:h200:4,gpu:a100:2"
	n.GRESConf = "count=2,name=gpu,type=h200,file=gpu-[0-1],cpus=0-3+count=2,name=gpu,type=h200,file=gpu-[2-3],cpus=4-7+count=2,name=gpu,type=a100,file=gpu-[4-5],cpus=4-7"
	if err := client.CreateNode(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	configured, err := tres.ParseGRES(field(t, c.Run(t, "scontrol", "-d", "-o", "show", "node", "g1"), "Gres"))
	want := []tres.GRES{{Name: "gpu", Type: "h200", Count: 4, Sockets: []int{0, 1}}, {Name: "gpu", Type: "a100", Count: 2, Sockets: []int{1}}}
	if diff := cmp.Diff(want, configured); err != nil || diff != "" {
		t.Errorf("the node's GRES: %v (-want +got):\n%s", err, diff)
	}
	for _, request := range []string{"gres/gpu:h200:1", "gres/gpu:a100=1", "gres/gpu:h200:2", "gres/gpu"} {
		id, err := client.AllocateNow(t.Context(), slurm.JobRequest{
			Name: "devices", Partition: "ext", External: true, TRESPerNode: request, MinimumNodes: 1, MaximumNodes: 1, CPUsPerTask: 1, Tasks: 1,
			MemoryPerNode: slurm.NumberOf(10), WorkingDirectory: "/tmp", Environment: []string{"A=b"},
		})
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		a, err := client.Allocation(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		text := field(t, c.Run(t, "scontrol", "-d", "-o", "show", "job", strconv.FormatUint(uint64(id), 10)), "GRES")
		got, err := tres.ParseGRES(text)
		got = slices.DeleteFunc(got, func(g tres.GRES) bool { return g.Count == 0 }) // types that the job might have had
		var want []tres.GRES
		for _, g := range a.Nodes[0].GRES {
			want = append(want, tres.GRES{Name: g.Name, Type: g.Type, Count: g.Count, Indexes: g.Indexes})
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %q: %v (-REST +scontrol):\n%s", request, text, err, diff)
		}
		asked, err := tres.ParseGRES(request)
		if err != nil || len(asked) != 1 || asked[0].Count != got[0].Count || asked[0].Type != "" && asked[0].Type != got[0].Type {
			t.Errorf("%q was read as %v, %v; Slurm gave %v", request, asked, err, got)
		}
	}
	used := field(t, c.Run(t, "scontrol", "-d", "-o", "show", "node", "g1"), "GresUsed")
	list, err := tres.ParseGRES(used)
	if err != nil || tres.FormatGRES(list) != used {
		t.Errorf("%q is printed as %q, %v", used, tres.FormatGRES(list), err)
	}
}
