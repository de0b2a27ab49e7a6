package workload

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestRoomNow(t *testing.T) {
	for name, c := range map[string]struct {
		daemons, taken []string
		pods           int
		annotations    map[string]string
		// excluded and bound are what is asked for; err the sentence instead.
		excluded []string
		bound    uint32
		err      string
		// room is whether there is some elsewhere than on n1, and closest the node for one pod.
		room    bool
		closest string
	}{
		"daemons and nobody else": {daemons: []string{"1", "0"}, taken: []string{"0", "0"}, pods: 1, bound: 1, room: true, closest: "n1"},
		"the last core is the daemon's": {daemons: []string{"1", "0"}, taken: []string{"3", "0"}, pods: 1, bound: 1,
			excluded: []string{"n1"}, room: true, closest: "n2"},
		"a full node needn't be named":    {daemons: []string{"1", "1"}, taken: []string{"4", "0"}, pods: 1, bound: 1, room: true, closest: "n2"},
		"room on the fuller one":          {daemons: []string{"1", "1"}, taken: []string{"1", "2"}, pods: 1, bound: 1, room: true, closest: "n2"},
		"all that Slurm has are daemons'": {daemons: []string{"1", "1"}, taken: []string{"3", "3"}, pods: 1, err: "on 2 of the 2 nodes that suit"},
		"a gang of one node each": {daemons: []string{"1", "0", "0"}, taken: []string{"3", "1", "1"}, pods: 2, annotations: map[string]string{v1beta1.AnnotationMinNodes: "2"},
			excluded: []string{"n1"}, bound: 1, room: true, closest: "n2"},
		"a gang that packs":        {daemons: []string{"1", "0"}, taken: []string{"2", "0"}, pods: 3, excluded: []string{"n1"}, room: true, closest: "n1"},
		"a gang on a part of each": {daemons: []string{"1", "1", "1"}, taken: []string{"2", "2", "2"}, pods: 3, bound: 1, closest: "n1"},
		"a gang too large for now": {daemons: []string{"1", "1"}, taken: []string{"2", "2"}, pods: 3, err: "have room for 2 of the 3 tasks"},
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
		req, err := Request(g, pods, f, Policy{})
		if c.err != "" {
			if !errors.As(err, &NoRoomError{}) || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if d := cmp.Diff(c.excluded, req.ExcludedNodes); d != "" || err != nil || req.TasksPerNode != c.bound {
			t.Errorf("%s: %d tasks per node, %v %s", name, req.TasksPerNode, err, d)
		}
		if room := f.HasRoom(pods, later, "n1"); room != c.room {
			t.Errorf("%s: room elsewhere: %t", name, room)
		}
		if n := f.Closest(pods[0], later); c.pods == 1 && n != c.closest {
			t.Errorf("%s: closest is %q", name, n)
		}
	}
}
