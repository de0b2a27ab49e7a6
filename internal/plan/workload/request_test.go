package workload

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/slurm"
)

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func requests(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list(pairs...) }
}

func limits(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = list(pairs...) }
}

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func TestRequest(t *testing.T) {
	policy := Policy{Cluster: "c1", Partition: "default", MCSLabel: "kubernetes"}
	base := slurm.JobRequest{
		Name: "a", Partition: "default", MCSLabel: "kubernetes", MinimumNodes: 1, MaximumNodes: 1, TasksPerNode: 1,
		MemoryPerNode: slurm.NumberOf(1), Exclusive: true, WorkingDirectory: "/tmp", Environment: []string{"PATH=/bin:/usr/bin"}, External: true,
		AdminComment: `{"pods":["ns/a"],"slinky.slurm.net/v1":{"cluster":"c1","workload":"uid-a","podUIDs":["uid-a"]}}`,
	}
	for name, c := range map[string]struct {
		pods     []*corev1.Pod
		group    func(*Group)
		excluded []string
		want     func(*slurm.JobRequest)
	}{
		"bare pod":                {pods: []*corev1.Pod{pod("a")}},
		"requests are rounded up": {pods: []*corev1.Pod{pod("a", requests("cpu", "1500m", "memory", "1500Ki"))}, want: func(r *slurm.JobRequest) { r.CPUsPerTask, r.MemoryPerNode = 2, slurm.NumberOf(2) }},
		"limits count":            {pods: []*corev1.Pod{pod("a", requests("cpu", "1"), limits("cpu", "3", "memory", "1Gi"))}, want: func(r *slurm.JobRequest) { r.CPUsPerTask, r.MemoryPerNode = 3, slurm.NumberOf(1024) }},
		"GPUs of a device plugin": {pods: []*corev1.Pod{pod("a", limits("nvidia.com/gpu", "2"))}, want: func(r *slurm.JobRequest) { r.TRESPerNode = "gres/gpu=2" }},
		"GPUs of device classes":  {pods: []*corev1.Pod{pod("a", limits("deviceclass.resource.kubernetes.io/b", "1", "deviceclass.resource.kubernetes.io/a", "2"))}, want: func(r *slurm.JobRequest) { r.TRESPerNode = "gres/gpu:a=2,gres/gpu:b=1" }},
		"CPUs of the driver":      {pods: []*corev1.Pod{pod("a", limits("deviceclass.resource.kubernetes.io/dra.cpu", "4"))}, want: func(r *slurm.JobRequest) { r.CPUsPerTask = 4 }},
		"excluded nodes":          {pods: []*corev1.Pod{pod("a")}, excluded: []string{"n1", "n2"}, want: func(r *slurm.JobRequest) { r.ExcludedNodes = []string{"n1", "n2"} }},
		"deadline is rounded up":  {pods: []*corev1.Pod{pod("a")}, group: func(g *Group) { g.DeadlineSeconds = 61 }, want: func(r *slurm.JobRequest) { r.TimeLimit = slurm.NumberOf(2) }},
		"annotations win": {
			pods: []*corev1.Pod{pod("a", requests("cpu", "1", "memory", "1Gi"), limits("nvidia.com/gpu", "2"))},
			group: func(g *Group) {
				g.DeadlineSeconds = 60
				g.Annotations = map[string]string{
					"slurmjob.slinky.slurm.net/cpu-per-task": "5", "slurmjob.slinky.slurm.net/mem-per-node": "2Gi",
					"slurmjob.slinky.slurm.net/gres": "gres/gpu:h100=1", "slurmjob.slinky.slurm.net/timelimit": "9",
					"slurmjob.slinky.slurm.net/partition": "other", "slurmjob.slinky.slurm.net/job-name": "named",
					"slurmjob.slinky.slurm.net/exclusive": "false", "slurmjob.slinky.slurm.net/user-id": "alice",
					"slurmjob.slinky.slurm.net/max-nodes": "3",
				}
			},
			want: func(r *slurm.JobRequest) {
				r.CPUsPerTask, r.MemoryPerNode, r.TRESPerNode, r.TimeLimit = 5, slurm.NumberOf(2048), "gres/gpu:h100=1", slurm.NumberOf(9)
				r.Partition, r.Name, r.Exclusive, r.UserID, r.MaximumNodes = "other", "named", false, "alice", 3
			},
		},
		"a group gets the greatest need, a node each": {
			pods: []*corev1.Pod{pod("a", requests("cpu", "1", "memory", "3Gi")), pod("b", requests("cpu", "4", "memory", "1Gi"))},
			want: func(r *slurm.JobRequest) {
				r.MinimumNodes, r.MaximumNodes, r.CPUsPerTask, r.MemoryPerNode = 2, 2, 4, slurm.NumberOf(3072)
				r.AdminComment = `{"pods":["ns/a","ns/b"],"slinky.slurm.net/v1":{"cluster":"c1","workload":"uid-a","podUIDs":["uid-a","uid-b"]}}`
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := OfPod(c.pods[0], nil)
			if c.group != nil {
				c.group(&g)
			}
			want := base
			if c.want != nil {
				c.want(&want)
			}
			got, err := Request(g, c.pods, Feasibility{Excluded: c.excluded}, policy)
			if err != nil {
				t.Fatal(err)
			}
			asked := fmt.Sprintf(`"asked":%q,`, g.Asked())
			if !strings.Contains(got.AdminComment, asked) {
				t.Errorf("admin comment %s has no %s", got.AdminComment, asked)
			}
			got.AdminComment = strings.Replace(got.AdminComment, asked, "", 1)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRequestRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		pods        []*corev1.Pod
		annotations map[string]string
		want        string
	}{
		"too few nodes for the pods": {
			[]*corev1.Pod{pod("a"), pod("b")}, map[string]string{"slurmjob.slinky.slurm.net/max-nodes": "1"},
			"annotation slurmjob.slinky.slurm.net/max-nodes is 1, but the 2 pods need a node each; slurmjob.slinky.slurm.net/exclusive: \"false\" lets them share nodes",
		},
		"another gang API": {[]*corev1.Pod{pod("a", func(p *corev1.Pod) {
			p.Labels = map[string]string{"pod-group.scheduling.sigs.k8s.io": "g"}
		})}, nil, `pod a: Slurm can't honour the pod group "g" of the label pod-group.scheduling.sigs.k8s.io`},
		"absurd CPUs": {[]*corev1.Pod{pod("a", requests("cpu", "9999999999"))}, nil, "pod a asks for 9999999999 CPUs; Slurm counts up to 65533 on a node"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Request(Group{Annotations: c.annotations}, c.pods, Feasibility{}, Policy{})
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestByRank(t *testing.T) {
	index := func(n string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Annotations = map[string]string{"batch.kubernetes.io/job-completion-index": n}
		}
	}
	pods := []*corev1.Pod{pod("w-10"), pod("w-9"), pod("w-009"), pod("x", index("1")), pod("y", index("0")), pod("w")}
	ByRank(pods)
	var got []string
	for _, p := range pods {
		got = append(got, p.Name)
	}
	if d := cmp.Diff([]string{"y", "x", "w", "w-9", "w-009", "w-10"}, got); d != "" {
		t.Error(d)
	}
}

func TestClaimsCount(t *testing.T) {
	claimed := func(uid types.UID, d device.Demand) Feasibility {
		return Feasibility{Claimed: map[types.UID]device.Demand{uid: d}}
	}
	user := func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "x"}} }
	beside := func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "beside", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}})
	}
	gpus := func(n int64) map[string]int64 { return map[string]int64{"gres/gpu:gpu.example.com": n} }
	drivers := device.Drivers{"gpu.example.com": "gpu", "dra.net": "nic"}
	for name, c := range map[string]struct {
		pod         *corev1.Pod
		demand      device.Demand
		annotations map[string]string
		cpus        uint32
		gres, err   string
	}{
		"devices":                            {pod("a"), device.Demand{GRES: gpus(2)}, nil, 0, "gres/gpu:gpu.example.com=2", ""},
		"CPUs of the claim":                  {pod("a", requests("cpu", "2"), user), device.Demand{CPUs: 4}, nil, 4, "", ""},
		"more CPUs than the claim":           {pod("a", requests("cpu", "6"), user), device.Demand{CPUs: 4}, nil, 6, "", ""},
		"CPUs beside the claim":              {pod("a", requests("cpu", "2"), user, beside), device.Demand{CPUs: 4}, nil, 6, "", ""},
		"a class and a claim":                {pod("a", requests("deviceclass.resource.kubernetes.io/gpu.example.com", "1")), device.Demand{GRES: gpus(2)}, nil, 0, "gres/gpu:gpu.example.com=3", ""},
		"a card of another kind":             {pod("a", requests("deviceclass.resource.kubernetes.io/dra.net", "1")), device.Demand{GRES: gpus(1)}, nil, 0, "gres/gpu:gpu.example.com=1,gres/nic:dra.net=1", ""},
		"any type beside one":                {pod("a", requests("nvidia.com/gpu", "1")), device.Demand{GRES: gpus(1)}, nil, 0, "", "Slurm can't give gpu with and without a type to one job"},
		"the annotation and the devices":     {pod("a"), device.Demand{GRES: gpus(1)}, map[string]string{"slurmjob.slinky.slurm.net/gres": "gpu:1"}, 0, "", "annotation slurmjob.slinky.slurm.net/gres contradicts the claims of pod a"},
		"the annotation and CPUs of a claim": {pod("a", user), device.Demand{CPUs: 2}, map[string]string{"slurmjob.slinky.slurm.net/gres": "gpu:1"}, 2, "gpu:1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Request(Group{Annotations: c.annotations}, []*corev1.Pod{c.pod}, claimed(c.pod.UID, c.demand), Policy{Drivers: drivers})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || got.CPUsPerTask != c.cpus || got.TRESPerNode != c.gres {
				t.Errorf("got %d CPUs and %q (%v)", got.CPUsPerTask, got.TRESPerNode, err)
			}
		})
	}
}

func TestAbsurdNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		asks []string
		need Need
		err  string
	}{
		"CPUs":                     {asks: []string{"cpu", "1e18"}, err: "asks for 2000000000000000000 CPUs"},
		"more than a number holds": {asks: []string{"cpu", "1e30"}, err: "asks for 9223372036854775807 CPUs"},
		"memory":                   {asks: []string{"cpu", "1", "memory", "1e30"}, need: Need{CPUs: 2, Memory: 1 << 43}},
		"devices":                  {asks: []string{"cpu", "1", "nvidia.com/gpu", "1e18"}, err: "asks for 2e18 of nvidia.com/gpu; no node has more than 1048576"},
	} {
		// Twice as much as a container may ask for.
		p := pod("p", requests(c.asks...))
		p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0])
		got, err := podNeed(p, device.Demand{}, func(corev1.ResourceName) bool { return false }, device.Known())
		if c.err == "" && (err != nil || !got.Equal(c.need)) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	g := Group{UID: "g", DeadlineSeconds: math.MaxInt64}
	if req, err := Request(g, []*corev1.Pod{pod("p", requests("cpu", "1"))}, Feasibility{}, Policy{}); err != nil || req.TimeLimit != slurm.Infinite() {
		t.Errorf("the longest deadline is %v, %v", req.TimeLimit, err)
	}
}
