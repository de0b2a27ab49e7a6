package conf_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/slurm/conf"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// A real Slurm starts with what is printed, and tells what it has read.
func TestAgainstSlurm(t *testing.T) {
	gres, err := conf.GresConf{AutoDetect: "off", Lines: []conf.GresLine{
		{Nodes: []string{"g1"}, Name: "gpu", Type: "h200", File: "/dev/tty[0-1]", Cores: []int{0, 1, 2, 3}, Flags: []string{"nvidia_gpu_env"}},
		{Nodes: []string{"g1"}, Name: "gpu", Type: "1g.10gb", File: "/dev/tty2", Links: []int{0, 0, -1}},
		{Nodes: []string{"g2"}, Name: "nic", Count: 2, Flags: []string{"CountOnly"}},
		{Nodes: []string{"n1", "g1"}, AutoDetect: "off"},
	}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	topology, err := conf.TopologyConf{Topologies: []conf.Topology{
		{Name: "fabric", Default: true, Tree: &conf.Tree{Switches: []conf.Switch{
			{Name: "top", Children: []string{"s2", "s1", "true"}}, {Name: "s1", Nodes: []string{"n1", "g1"}}, {Name: "s2", Nodes: []string{"g2"}}, {Name: "true"},
		}}},
		{Name: "racks", Block: &conf.BlockTopology{Sizes: []int{1, 2, 8}, Blocks: []conf.Block{{Name: "b1", Nodes: []string{"n1", "g1"}}, {Name: "12"}}}},
		{Name: "plain-1.0_x", Flat: true},
	}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	c := slurmtest.Start(t, slurmtest.Options{
		Nodes: 1, GRESConf: gres, Topology: topology,
		Config: append([]string{
			"NodeName=g1 NodeHostname=slurmctl NodeAddr=127.0.0.1 Port=1 CPUs=8 CoresPerSocket=8 Gres=gpu:h200:2,gpu:1g.10gb:1",
			"NodeName=g2 NodeHostname=slurmctl NodeAddr=127.0.0.1 Port=2 CPUs=8 CoresPerSocket=8 Gres=nic:2",
			"GresTypes=gpu,nic", // the last of two holds
		}, partition(t)...),
	})
	t.Run("gres.conf", func(t *testing.T) {
		want := map[string]string{
			"g1": `Name=gpu Type=h200 Count=2 Index=0 File=/dev/tty[0-1] Cores=0-3 CoreCnt=8 Links=(null) Flags=HAS_FILE,HAS_TYPE,ENV_NVML
Name=gpu Type=1g.10gb Count=1 Index=2 File=/dev/tty2 Links=0,0,-1 Flags=HAS_FILE,HAS_TYPE,ENV_NVML`,
			"g2": "Name=nic Type=(null) Count=2 Links=(null) Flags=CountOnly",
		}
		for node, lines := range want {
			var got []string
			for line := range strings.Lines(c.Run(t, "slurmd", "-G", "-N", node)) {
				if _, gres, ok := strings.Cut(line, "] Gres "); ok {
					got = append(got, regexp.MustCompile(` ID=\d+`).ReplaceAllString(strings.TrimSpace(gres), ""))
				}
			}
			if diff := cmp.Diff(lines, strings.Join(got, "\n")); diff != "" {
				t.Errorf("%s (-want +Slurm):\n%s", node, diff)
			}
		}
	})
	t.Run("topology.yaml", func(t *testing.T) {
		if diff := cmp.Diff(readAny(t, topology), readAny(t, c.Run(t, "scontrol", "show", "topoconf"))); diff != "" {
			t.Errorf("(-given +Slurm):\n%s", diff)
		}
	})
	t.Run("partition", func(t *testing.T) {
		text := c.Run(t, "scontrol", "-o", "show", "partition", "quoted")
		for _, want := range []string{"PartitionName=quoted ", "MaxTime=1-00:00:00 ", "Nodes=n1 "} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
	})
}

// partition is a line with values of which Slurm must not see the blank and the number sign.
func partition(t *testing.T) []string {
	t.Helper()
	var d conf.Document
	d.Line(conf.Pair{Key: "PartitionName", Value: "quoted"}, conf.Pair{Key: "AllowGroups", Value: "root #x"}, conf.Pair{Key: "MaxTime", Value: "1-0"}, conf.Pair{Key: "Nodes", Value: "n1"})
	text, err := d.Text()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(text), "\n")
}

// readAny reads topologies without what is empty, which Slurm prints and we don't.
func readAny(t *testing.T, text string) any {
	t.Helper()
	var file any
	// Slurm prints the block "12" and the switch "true" without quotes.
	text = regexp.MustCompile(`(?m)((?:block|switch): )(\w+)$`).ReplaceAllString(text, `$1"$2"`)
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return withoutEmpty(file)
}

func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value = withoutEmpty(value); value == nil {
				delete(v, key)
			} else {
				v[key] = value
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
	}
	return v
}
