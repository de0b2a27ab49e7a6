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

func TestUneven(t *testing.T) {
	type part struct {
		Tasks, PerNode uint32
		Excluded       string
		Pods           string
	}
	for name, c := range map[string]struct {
		daemons     []string
		each        []string
		annotations map[string]string
		minimum     corev1.ResourceList
		want        []part
		err         string
	}{
		"three sizes of room": {daemons: []string{"2", "1", "3"}, each: []string{"1", "1", "1", "1", "1", "1"},
			want: []part{{3, 0, "n1,n3", "p0 p1 p2"}, {2, 0, "n2,n3", "p3 p4"}, {1, 0, "n1,n2", "p5"}}},
		"several nodes of a size": {daemons: []string{"1", "3", "1"}, each: []string{"1", "1", "1", "1", "1", "1", "1"},
			want: []part{{6, 3, "n2", "p0 p1 p2 p3 p4 p5"}, {1, 0, "n1,n3", "p6"}}},
		"large and small pods": {daemons: []string{"0", "2"}, each: []string{"2", "1", "1", "2"},
			want: []part{{2, 0, "n2", "p0 p1 p2"}, {1, 0, "n1", "p3"}}},
		"too many": {daemons: []string{"1", "3"}, each: []string{"1", "1", "1", "1", "1"}, err: "have room for 4 of the 5 tasks of 1 CPUs and 1024 MiB that the job's pods are"},
		"a bound on the nodes": {daemons: []string{"1", "3"}, each: []string{"1", "1", "1", "1"}, annotations: map[string]string{v1beta1.AnnotationMaxNodes: "2"},
			err: "have room for 3 of the 4 tasks of 1 CPUs and 1024 MiB that the job's pods are if no node has more of them than another"},
		"what they have in sum": {daemons: []string{"1", "3"}, each: []string{"1", "1", "1", "1"}, minimum: list("cpu", "4"), err: "if no node has more"},
	} {
		g := Group{UID: "g", MinResources: c.minimum, Annotations: map[string]string{v1beta1.AnnotationExclusive: "false"}}
		for k, v := range c.annotations {
			g.Annotations[k] = v
		}
		var pods []*corev1.Pod
		for i, cpu := range c.each {
			pods = append(pods, pod(fmt.Sprintf("p%d", i), requests("cpu", cpu, "memory", cpu+"Gi")))
		}
		f := besideDaemons(c.daemons...).Feasible(pods[len(pods)-1], Volumes{}, "")
		_, err := Request(g, pods, f, Policy{})
		parts := Uneven(g, pods, f, Policy{})
		if c.err != "" {
			if !errors.As(err, &NoRoomError{}) || !strings.Contains(err.Error(), c.err) || parts != nil {
				t.Errorf("%s: %v, and %d parts", name, err, len(parts))
			}
			continue
		}
		var got []part
		for _, req := range parts {
			s := slotsOfRequest(req)
			if s == nil {
				// One pod by itself.
				got = append(got, part{1, 0, strings.Join(req.ExcludedNodes, ","), namesIn(req.AdminComment)})
				continue
			}
			got = append(got, part{req.Tasks, req.TasksPerNode, strings.Join(req.ExcludedNodes, ","), namesIn(req.AdminComment)})
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func namesIn(comment string) string {
	var names []string
	for i := range 10 {
		if n := fmt.Sprintf("p%d", i); strings.Contains(comment, "/"+n+`"`) {
			names = append(names, n)
		}
	}
	return strings.Join(names, " ")
}
