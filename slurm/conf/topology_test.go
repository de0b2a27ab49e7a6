package conf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

func topologies() TopologyConf {
	return TopologyConf{Topologies: []Topology{
		{Name: "fabric", Default: true, Tree: &Tree{Switches: []Switch{
			{Name: "top", Children: []string{"s2", "s1", "true"}},
			{Name: "s1", Nodes: []string{"n1"}},
			{Name: "s2", Nodes: []string{"n2"}},
			{Name: "true"}, // a word that YAML would take for something else
		}}},
		{Name: "racks", Block: &BlockTopology{Sizes: []int{1, 2}, Blocks: []Block{{Name: "b1", Nodes: []string{"n1"}}, {Name: "b2", Nodes: []string{"n2"}}, {Name: "12"}}}},
		{Name: "plain", Flat: true},
	}}
}

func TestTopologyConf(t *testing.T) {
	got, err := topologies().Text()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "topology.yaml", got)
	if diff := cmp.Diff(topologies(), readTopologies(t, got), asSets()); diff != "" {
		t.Errorf("read back (-given +read):\n%s", diff)
	}
}

// asSets makes lists of names equal that name the same.
func asSets() cmp.Option { return cmp.Transformer("set", hostlist.Compress) }

// readTopologies reads the file with another's YAML parser, and lets no key pass that isn't Slurm's.
func readTopologies(t *testing.T, text string) (c TopologyConf) {
	t.Helper()
	var file []struct {
		Topology string `json:"topology"`
		Default  bool   `json:"cluster_default"`
		Tree     *struct {
			Switches []struct{ Switch, Children, Nodes string }
		} `json:"tree"`
		Block *struct {
			Sizes  []int `json:"block_sizes"`
			Blocks []struct{ Block, Nodes string }
		} `json:"block"`
		Flat bool `json:"flat"`
	}
	if err := k8syaml.UnmarshalStrict([]byte(text), &file); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	expand := func(s string) []string {
		names, err := hostlist.Expand(s)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	for _, one := range file {
		out := Topology{Name: one.Topology, Default: one.Default, Flat: one.Flat}
		if one.Tree != nil {
			out.Tree = &Tree{}
			for _, s := range one.Tree.Switches {
				out.Tree.Switches = append(out.Tree.Switches, Switch{Name: s.Switch, Children: expand(s.Children), Nodes: expand(s.Nodes)})
			}
		}
		if one.Block != nil {
			out.Block = &BlockTopology{Sizes: one.Block.Sizes}
			for _, b := range one.Block.Blocks {
				out.Block.Blocks = append(out.Block.Blocks, Block{Name: b.Block, Nodes: expand(b.Nodes)})
			}
		}
		c.Topologies = append(c.Topologies, out)
	}
	return c
}

// refusedTopologies are such as Slurm's controller ends at or misreads, by words of the error.
func refusedTopologies() map[string]Topology {
	tree := func(switches ...Switch) Topology { return Topology{Name: "t", Default: true, Tree: &Tree{switches}} }
	block := func(sizes []int, names ...string) Topology {
		b := &BlockTopology{Sizes: sizes}
		for _, n := range names {
			b.Blocks = append(b.Blocks, Block{Name: n})
		}
		return Topology{Name: "b", Default: true, Block: b}
	}
	return map[string]Topology{
		"must be one of":               {Name: "none"},
		"must be one of tree":          {Name: "two", Flat: true, Block: &BlockTopology{Blocks: []Block{{Name: "b1"}}}},
		"must have a switch":           tree(),
		"two switches":                 tree(Switch{Name: "s1"}, Switch{Name: "s1"}),
		"that is no switch":            tree(Switch{Name: "s1", Children: []string{"s3"}}),
		"is below itself":              tree(Switch{Name: "s1", Children: []string{"s2"}}, Switch{Name: "s2", Children: []string{"s1"}}),
		"\"s1\" is below itself":       tree(Switch{Name: "s1", Children: []string{"s1"}}),
		"must have a block":            block(nil),
		"two blocks":                   block(nil, "b1", "b1"),
		"block size 0":                 block([]int{0}, "b1"),
		"block size 3":                 block([]int{1, 3}, "b1"),
		"block size 1":                 block([]int{2, 1}, "b1"),
		"both children and nodes":      tree(Switch{Name: "s1", Children: []string{"s2"}, Nodes: []string{"n1"}}, Switch{Name: "s2"}),
		"a child of both":              tree(Switch{Name: "a", Children: []string{"c"}}, Switch{Name: "b", Children: []string{"c"}}, Switch{Name: "c"}),
		"is no name":                   tree(Switch{Name: "s1\"\n- topology: x"}),
		"topology \"a:b\": \"a:b\" is": {Name: "a:b", Flat: true},
		"switch \"s1\": \"n[1-2]\"":    tree(Switch{Name: "s1", Nodes: []string{"n[1-2]"}}),
		"more than 18 digits":          tree(Switch{Name: "sw-12345678901234567890"}),
		"block \"b,1\"":                block(nil, "b,1"),
	}
}

func TestTopologyConfRefused(t *testing.T) {
	for want, topology := range refusedTopologies() {
		text, err := TopologyConf{Topologies: []Topology{topology}}.Text()
		if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(want, "")) {
			t.Errorf("error %v, want it to contain %q; text:\n%s", err, want, text)
		}
	}
	for want, c := range map[string]TopologyConf{
		"has no topology":               {},
		"more than one default":         {Topologies: []Topology{{Name: "a", Default: true, Flat: true}, {Name: "b", Default: true, Flat: true}}},
		"there is another of this name": {Topologies: []Topology{{Name: "a", Flat: true}, {Name: "a", Flat: true}}},
	} {
		if text, err := c.Text(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to contain %q; text:\n%s", err, want, text)
		}
	}
}

// FuzzTopologyConf checks that what is printed says what was given, and nothing else.
func FuzzTopologyConf(f *testing.F) {
	f.Add("topo-switch", "sw1", "x[1-3]", 2, uint8(3))
	f.Add("a: b", "true", "null", -1, uint8(7))
	f.Add("t", "s1\n  flat: true", "~", 0, uint8(1))
	f.Add("0x1F", "1e3", "-1", 1<<20, uint8(6))
	f.Add("é", "'", `\"`, 4, uint8(5))
	f.Fuzz(func(t *testing.T, name, unit, node string, size int, kinds uint8) {
		var given TopologyConf
		if kinds&1 == 1 {
			given.Topologies = append(given.Topologies, Topology{Name: name, Tree: &Tree{Switches: []Switch{{Name: "top", Children: []string{unit}}, {Name: unit, Nodes: []string{node}}}}})
		}
		if kinds&2 == 2 {
			given.Topologies = append(given.Topologies, Topology{Name: unit, Block: &BlockTopology{Sizes: []int{size}, Blocks: []Block{{Name: node, Nodes: []string{name, unit}}}}})
		}
		if kinds&4 == 4 {
			given.Topologies = append(given.Topologies, Topology{Name: node, Default: true, Flat: true})
		}
		text, err := given.Text()
		if err != nil {
			return
		}
		if diff := cmp.Diff(given, readTopologies(t, text), asSets()); diff != "" {
			t.Errorf("(-given +read):\n%s\n%s", diff, text)
		}
	})
}
