package submit

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
)

// slurmctld tells of n2 last where that was registered anew; programs count the names in the list.
func TestNodesAreInTheOrderOfTheList(t *testing.T) {
	a := slurm.Allocation{Nodes: []slurm.NodeAllocation{{Node: "n10"}, {Node: "n3"}, {Node: "n2"}}}
	before := slurm.Allocation{Nodes: append([]slurm.NodeAllocation(nil), a.Nodes...)}
	for list, want := range map[string][]string{"n[2-3,10]": {"n2", "n3", "n10"}, "n10,n[2-3]": {"n10", "n2", "n3"}, "n[": {"n10", "n3", "n2"}} {
		var got []string
		for _, n := range inOrder(a, list).Nodes {
			got = append(got, n.Node)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", list, d)
		}
	}
	if d := cmp.Diff(before, a); d != "" {
		t.Errorf("the view's own record changed: %s", d)
	}
}
