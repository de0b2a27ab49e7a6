package conf

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// TopologyConf is topology.yaml. Slurm's controller ends at the sight of a wrong
// one, so Text refuses what it can't start with.
type TopologyConf struct{ Topologies []Topology }

// Topology is one view of the cluster's network. It has exactly one of Tree, Block and Flat.
type Topology struct {
	// Name is what partitions and nodes call it.
	Name string
	// Default makes it the topology of partitions that name none. At most one has it.
	Default bool
	Tree    *Tree
	Block   *BlockTopology
	Flat    bool
}

// Tree is a topology of switches.
type Tree struct{ Switches []Switch }

// Switch joins other switches or nodes, not both. One without either is for
// dynamic nodes, which say themselves where they belong.
type Switch struct {
	Name string
	// Children are names of switches.
	Children []string
	Nodes    []string
}

// BlockTopology is a topology of blocks of nodes.
type BlockTopology struct {
	// Sizes are numbers of nodes: first that of a block which jobs are planned by,
	// then multiples of it by rising powers of two. Without sizes Slurm takes the smallest block's.
	Sizes  []int
	Blocks []Block
}

// Block is a set of nodes close to each other. One without nodes is for dynamic nodes.
type Block struct {
	Name  string
	Nodes []string
}

// Text returns the file.
func (c TopologyConf) Text() (string, error) {
	y := yaml{names: map[string]bool{}}
	if len(c.Topologies) == 0 {
		y.fail("topology.yaml", errors.New("has no topology, which Slurm can't start with: leave the file out"))
	}
	y.line("---")
	defaults := 0
	for _, t := range c.Topologies {
		if t.Default {
			defaults++
		}
		t.write(&y)
	}
	if defaults > 1 {
		y.fail("topology.yaml", errors.New("has more than one default topology"))
	}
	if len(y.errs) > 0 {
		return "", errors.Join(y.errs...)
	}
	return y.text.String(), nil
}

// yaml prints the little of YAML that the file needs: names in double quotes,
// which checkName has seen before, numbers and booleans.
type yaml struct {
	text strings.Builder
	errs []error
	// names has the topologies so far.
	names map[string]bool
}

func (y *yaml) line(format string, args ...any) { fmt.Fprintf(&y.text, format+"\n", args...) }

func (y *yaml) fail(where string, err error) {
	y.errs = append(y.errs, fmt.Errorf("%s: %w", where, err))
}

// name returns a name in quotes. Where tells what it names, in errors.
func (y *yaml) name(where, name string) string {
	if err := checkName(name); err != nil {
		y.fail(where, fmt.Errorf("%q %w", abbreviate(name), err))
	}
	return strconv.Quote(name)
}

// list returns names in quotes as a host list.
func (y *yaml) list(where string, names []string) string {
	for _, n := range names {
		y.name(where, n)
	}
	return strconv.Quote(hostlist.Compress(names))
}

func (t Topology) write(y *yaml) {
	where := fmt.Sprintf("topology %q", abbreviate(t.Name))
	y.line("- topology: %s", y.name(where, t.Name))
	y.line("  cluster_default: %t", t.Default)
	if y.names[t.Name] {
		y.fail(where, errors.New("there is another of this name"))
	}
	y.names[t.Name] = true
	kinds := 0
	if t.Tree != nil {
		kinds++
		t.Tree.write(y, where)
	}
	if t.Block != nil {
		kinds++
		t.Block.write(y, where)
	}
	if t.Flat {
		kinds++
		y.line("  flat: true")
	}
	if kinds != 1 {
		y.fail(where, errors.New("must be one of tree, block and flat"))
	}
}

func (t Tree) write(y *yaml, where string) {
	if err := t.check(); err != nil {
		y.fail(where, err)
		return
	}
	y.line("  tree:")
	y.line("    switches:")
	for _, s := range t.Switches {
		field := fmt.Sprintf("%s, switch %q", where, abbreviate(s.Name))
		y.line("    - switch: %s", y.name(field, s.Name))
		if len(s.Children) > 0 {
			y.line("      children: %s", y.list(field, s.Children))
		}
		if len(s.Nodes) > 0 {
			y.line("      nodes: %s", y.list(field, s.Nodes))
		}
	}
}

// check tells whether the switches form trees.
func (t Tree) check() error {
	if len(t.Switches) == 0 {
		return errors.New("a tree must have a switch")
	}
	parent := map[string]string{}
	for _, s := range t.Switches {
		if _, ok := parent[s.Name]; ok {
			return fmt.Errorf("there are two switches %q", s.Name)
		}
		parent[s.Name] = ""
		if len(s.Children) > 0 && len(s.Nodes) > 0 {
			return fmt.Errorf("switch %q has both children and nodes", s.Name)
		}
	}
	for _, s := range t.Switches {
		for _, child := range s.Children {
			above, ok := parent[child]
			switch {
			case !ok:
				return fmt.Errorf("switch %q has a child %q that is no switch", s.Name, child)
			case above != "" && above != s.Name:
				return fmt.Errorf("switch %q is a child of both %q and %q", child, above, s.Name)
			}
			parent[child] = s.Name
		}
	}
	// A climb that is longer than there are switches goes round.
	for _, s := range t.Switches {
		steps := 0
		for name := s.Name; name != ""; name = parent[name] {
			if steps++; steps > len(t.Switches) {
				return fmt.Errorf("switch %q is below itself", s.Name)
			}
		}
	}
	return nil
}

func (b BlockTopology) write(y *yaml, where string) {
	if err := b.check(); err != nil {
		y.fail(where, err)
		return
	}
	y.line("  block:")
	if len(b.Sizes) > 0 {
		y.line("    block_sizes: [%s]", strings.ReplaceAll(numbers(b.Sizes), ",", ", "))
	}
	y.line("    blocks:")
	for _, block := range b.Blocks {
		field := fmt.Sprintf("%s, block %q", where, abbreviate(block.Name))
		y.line("    - block: %s", y.name(field, block.Name))
		if len(block.Nodes) > 0 {
			y.line("      nodes: %s", y.list(field, block.Nodes))
		}
	}
}

func (b BlockTopology) check() error {
	if len(b.Blocks) == 0 {
		return errors.New("a block topology must have a block")
	}
	for i, n := range b.Sizes {
		if n < 1 || n > 1<<16 || n%b.Sizes[0] != 0 || bits.OnesCount(uint(n/b.Sizes[0])) != 1 || i > 0 && n <= b.Sizes[i-1] {
			return fmt.Errorf("block size %d: sizes are from 1 to 65536, rising, and the first one times powers of two", n)
		}
	}
	for i, block := range b.Blocks {
		if slices.ContainsFunc(b.Blocks[:i], func(o Block) bool { return o.Name == block.Name }) {
			return fmt.Errorf("there are two blocks %q", block.Name)
		}
	}
	return nil
}
