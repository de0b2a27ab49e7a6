package workload

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slinky-hpc/slinky/slurm"
)

// TestElastic has groups of more members than must start together.
func TestElastic(t *testing.T) {
	group := Group{Key: Key{Kind: KindPodGroup, Namespace: "ns", Name: "g"}, UID: "uid-g", MinCount: 2}
	whole, three := group, group
	whole.Whole = true
	three.MinCount = 3
	four := []*corev1.Pod{pod("d"), pod("c"), pod("b"), pod("a")}
	const later = "PodGroup ns/g starts with 2 pods; this one joins once they have their nodes"
	for name, c := range map[string]struct {
		group Group
		pods  []*corev1.Pod
		jobs  []slurm.Job
		want  []string
	}{
		"all are there":    {group, four, nil, []string{"Submit a b c d, 2 at least"}},
		"one for all":      {whole, four, nil, []string{"Submit a b c d, 4 at least"}},
		"the first wait":   {group, four, []slurm.Job{job(1, slurm.JobPending, "a", "b")}, []string{"Queued a b job 1", "Wait c d: " + later}},
		"the first run":    {group, four, []slurm.Job{job(1, slurm.JobRunning, "a", "b")}, []string{"Place a b job 1", "Wait c d: " + later}},
		"one of them does": {group, []*corev1.Pod{pod("a", onNode), pod("b"), pod("c")}, []slurm.Job{job(1, slurm.JobRunning, "a", "b")}, []string{"Place b job 1", "Wait c: " + later}},
		"the others come": {group, []*corev1.Pod{pod("a", onNode), pod("b", onNode), pod("c"), pod("d")}, []slurm.Job{job(1, slurm.JobRunning, "a", "b")},
			[]string{"Submit c, 1 at least, extra", "Submit d, 1 at least, extra"}},
		"one of them waits": {group, []*corev1.Pod{pod("a", onNode), pod("b", onNode), pod("c"), pod("d")},
			[]slurm.Job{job(1, slurm.JobRunning, "a", "b"), job(2, slurm.JobPending, "c")}, []string{"Queued c job 2", "Submit d, 1 at least, extra"}},
		"all of an earlier version wait": {group, four, []slurm.Job{job(1, slurm.JobPending, "a", "b", "c", "d")}, []string{"Update a b job 1"}},
		"more must start together":       {three, four, []slurm.Job{job(1, slurm.JobPending, "a", "b")}, []string{"Update a b c job 1", "Wait d: " + strings.Replace(later, "2 pods", "3 pods", 1)}},
		"a place is free": {group, []*corev1.Pod{pod("a", onNode), pod("b", ended, onNode), pod("c"), pod("d")}, []slurm.Job{job(1, slurm.JobRunning, "a", "b")},
			[]string{"Rejoin c job 1 as uid-a uid-c", "Wait d: " + later}},
		"the first have ended": {group, []*corev1.Pod{pod("c", onNode), pod("d"), pod("e")}, []slurm.Job{job(1, slurm.JobTimeout, "a", "b"), job(2, slurm.JobRunning, "c")},
			[]string{"Submit d e, 1 at least"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range Next(Observed{Group: c.group, Pods: c.pods, Jobs: c.jobs, Cluster: "c1"}) {
				line := text(s)
				if s.Kind == StepSubmit {
					line += ", " + string(rune('0'+s.Least)) + " at least"
				}
				if s.Extra {
					line += ", extra"
				}
				got = append(got, line)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestMinResources has a group that tells what its pods must have in sum.
func TestMinResources(t *testing.T) {
	asks := func(name corev1.ResourceName, n string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse(n)}}}}
		}
	}
	one := asks(corev1.ResourceCPU, "1")
	pods := []*corev1.Pod{pod("a", one), pod("b", one), pod("c", one), pod("d", one)}
	for name, c := range map[string]struct {
		least corev1.ResourceList
		pods  int
		want  Need
		err   string
	}{
		"nothing":                 {nil, 2, Need{CPUs: 1, Memory: 1}, ""},
		"less than they ask for":  {corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}, 2, Need{CPUs: 1, Memory: 1}, ""},
		"as much as three have":   {corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}, 3, Need{CPUs: 1, Memory: 1}, ""},
		"more than all have":      {corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")}, 4, Need{CPUs: 2, Memory: 1}, ""},
		"memory":                  {corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}, 4, Need{CPUs: 1, Memory: 256}, ""},
		"devices that nobody has": {corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}, 4, Need{}, "asks for nvidia.com/gpu: 8 in its minResources, and its 4 pods for 0 in sum"},
	} {
		t.Run(name, func(t *testing.T) {
			g := OfCoscheduling(PodGroup{MinCount: 2, MinResources: c.least})
			if n := g.least(pods, 0); n != c.pods {
				t.Errorf("%d pods start together, want %d", n, c.pods)
			}
			req, err := Request(g, pods[:c.pods], Feasibility{}, Policy{})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || req.CPUsPerTask != c.want.CPUs || req.MemoryPerNode != slurm.NumberOf(c.want.Memory) {
				t.Errorf("a pod has %d CPUs and %v MiB, %v", req.CPUsPerTask, req.MemoryPerNode, err)
			}
		})
	}
}

// TestPodGroupVersions reads what differs between the versions of a PodGroup.
func TestPodGroupVersions(t *testing.T) {
	for text, want := range map[string]Group{
		`{"apiVersion": "scheduling.k8s.io/v1alpha2", "spec": {"disruptionMode": "PodGroup", "schedulingPolicy": {"gang": {"minCount": 2}}}}`: {Whole: true},
		`{"apiVersion": "scheduling.k8s.io/v1alpha2", "spec": {"disruptionMode": "Pod", "schedulingPolicy": {"gang": {"minCount": 2}}}}`:      {},
		`{"apiVersion": "scheduling.k8s.io/v1beta1", "spec": {"disruptionMode": {"all": {}}, "schedulingPolicy": {"gang": {"minCount": 2}}}}`: {Whole: true},
		`{"apiVersion": "scheduling.k8s.io/v1beta1", "spec": {"disruptionMode": {"single": {}}}}`:                                             {},
		`{"apiVersion": "scheduling.k8s.io/v1alpha3", "spec": {"parentCompositePodGroupName": "top"}}`:                                        {Missing: "is a part of CompositePodGroup top"},
	} {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetUID("uid")
		pg, err := PodGroupOf(u)
		if err != nil {
			t.Fatal(err)
		}
		g := OfPodGroup(pg, nil, nil)
		if g.Whole != want.Whole || !strings.Contains(g.Missing, want.Missing) || (g.UID == "") != (want.Missing != "") {
			t.Errorf("%s: %+v", text, g)
		}
	}
}
