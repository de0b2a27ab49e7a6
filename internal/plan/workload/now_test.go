package workload

import (
	"cmp"
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// moment is what pods of jobs have of the nodes n1, n2, ...: so many CPUs each, of which Slurm knows.
func moment(cpus ...string) *Now {
	at := func(name string) corev1.ResourceList {
		for i, q := range cpus {
			if name == fmt.Sprintf("n%d", i+1) && q != "0" {
				return list("cpu", q, "pods", q)
			}
		}
		return nil
	}
	idle := func(name string) (int, uint64, bool) {
		taken := at(name)
		return 4 - int(taken.Cpu().Value()), 8192, true
	}
	return &Now{Taken: at, Most: idle, Likely: idle}
}

func TestAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		daemons, taken []string
		pods           int
		// most is how many crowded nodes are named; 64 for none.
		most        int
		annotations map[string]string
		// excluded, required and bound are what is asked for.
		excluded, required []string
		bound              uint32
		full               bool
		// room is whether there is some elsewhere than on n1.
		room bool
	}{
		"daemons and nobody else": {daemons: []string{"1", "0"}, taken: []string{"0", "0"}, pods: 1, bound: 1, room: true},
		"the last core is the daemon's": {daemons: []string{"1", "0"}, taken: []string{"3", "0"}, pods: 1, bound: 1,
			excluded: []string{"n1"}, room: true},
		"a full node needn't be named":    {daemons: []string{"1", "1"}, taken: []string{"4", "0"}, pods: 1, bound: 1, room: true},
		"room on the fuller one":          {daemons: []string{"1", "1"}, taken: []string{"1", "2"}, pods: 1, bound: 1, room: true},
		"all that Slurm has are daemons'": {daemons: []string{"1", "1"}, taken: []string{"3", "3"}, pods: 1, full: true},
		"too many to name, one is empty":  {daemons: []string{"1", "1", "1"}, taken: []string{"3", "3", "0"}, pods: 1, most: 1, bound: 1, required: []string{"n3"}, room: true},
		"too many to name, the fuller of two": {daemons: []string{"1", "1", "1", "1", "1"}, taken: []string{"3", "3", "1", "2", "0"}, pods: 1, most: 1,
			bound: 1, required: []string{"n4"}, room: true},
		"too many to name, an empty one and one that Slurm can't give": {daemons: []string{"1", "1", "1", "1"}, taken: []string{"3", "3", "4", "0"}, pods: 1, most: 1,
			bound: 1, required: []string{"n4"}, room: true},
		"as many as may be named": {daemons: []string{"1", "1", "1"}, taken: []string{"3", "3", "0"}, pods: 1, most: 2, bound: 1, excluded: []string{"n1", "n2"}, room: true},
		"a gang of one node each": {daemons: []string{"1", "0", "0"}, taken: []string{"3", "1", "1"}, pods: 2, annotations: map[string]string{v1beta1.AnnotationMinNodes: "2"},
			excluded: []string{"n1"}, bound: 1, room: true},
		"a gang of one node each, too many to name": {daemons: []string{"1", "1", "0", "0"}, taken: []string{"3", "3", "1", "1"}, pods: 2, most: 1,
			annotations: map[string]string{v1beta1.AnnotationMinNodes: "2"}, bound: 1, room: true},
		"a gang that packs":                   {daemons: []string{"1", "0"}, taken: []string{"2", "0"}, pods: 3, excluded: []string{"n1"}, room: true},
		"a gang that packs, too many to name": {daemons: []string{"1", "1", "0"}, taken: []string{"3", "3", "0"}, pods: 3, most: 1, room: true},
		"a gang on a part of each":            {daemons: []string{"1", "1", "1"}, taken: []string{"2", "2", "2"}, pods: 3, bound: 1},
		"a gang too large for now":            {daemons: []string{"1", "1"}, taken: []string{"2", "2"}, pods: 3, full: true},
	} {
		var pods []*corev1.Pod
		for i := range c.pods {
			pods = append(pods, pod(fmt.Sprint(i), requests("cpu", "1")))
		}
		g := Group{UID: "g", Annotations: map[string]string{v1beta1.AnnotationExclusive: "false"}}
		for k, v := range c.annotations {
			g.Annotations[k] = v
		}
		f := besideDaemons(c.daemons...).Feasible(pods[0], Volumes{}, "")
		later, err := Request(g, pods, f, Policy{})
		if err != nil || len(later.ExcludedNodes) > 0 {
			t.Errorf("%s: a job that may wait excludes %v (%v)", name, later.ExcludedNodes, err)
		}
		f.Now = moment(c.taken...)
		now, full := AtOnce(later, g, pods, f, Policy{}, cmp.Or(c.most, 64))
		if full != c.full || full && now != nil {
			t.Errorf("%s: full is %t, with %v", name, full, now)
		}
		if room := f.HasRoom(pods, later, "n1"); room != c.room {
			t.Errorf("%s: room elsewhere: %t", name, room)
		}
		if full {
			continue
		}
		if now == nil {
			now = &later
		}
		if d := gocmp.Diff(c.excluded, now.ExcludedNodes) + gocmp.Diff(c.required, now.RequiredNodes); d != "" || now.TasksPerNode != c.bound {
			t.Errorf("%s: %d tasks per node, %s", name, now.TasksPerNode, d)
		}
	}
}
