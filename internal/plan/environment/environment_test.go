package environment

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func container(change ...func(*corev1.Container)) corev1.Container {
	c := corev1.Container{Name: "main"}
	for _, f := range change {
		f(&c)
	}
	return c
}

func requests(name corev1.ResourceName, n string) func(*corev1.Container) {
	return func(c *corev1.Container) {
		c.Resources.Requests = corev1.ResourceList{name: resource.MustParse(n)}
	}
}

func limits(name corev1.ResourceName, n string) func(*corev1.Container) {
	return func(c *corev1.Container) {
		c.Resources.Limits = corev1.ResourceList{name: resource.MustParse(n)}
	}
}

func env(name, value string) func(*corev1.Container) {
	return func(c *corev1.Container) { c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value}) }
}

func from(c *corev1.Container) {
	c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}}
}

// print is a container's environment, a variable on a line.
func print(c corev1.Container) string {
	var out []string
	for _, v := range c.Env {
		if v.ValueFrom != nil {
			v.Value = v.ValueFrom.FieldRef.FieldPath
		}
		out = append(out, v.Name+"="+v.Value)
	}
	return strings.Join(out, "\n")
}

func threads(n string) string {
	return "OMP_NUM_THREADS=" + n + "\nMKL_NUM_THREADS=" + n + "\nOPENBLAS_NUM_THREADS=" + n + "\nNUMEXPR_NUM_THREADS=" + n + "\nGOMAXPROCS=" + n +
		"\nSLURM_CPUS_PER_TASK=" + n + "\nSLURM_CPUS_ON_NODE=" + n
}

func TestThreads(t *testing.T) {
	const class = "deviceclass.resource.kubernetes.io/dra.cpu"
	half := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("6")}
	for name, c := range map[string]struct {
		container corev1.Container
		pod       *corev1.ResourceRequirements
		asked     bool
		want      string
	}{
		"a request":                         {container: container(requests(corev1.ResourceCPU, "4")), want: threads("4")},
		"a limit counts more":               {container: container(requests(corev1.ResourceCPU, "2"), limits(corev1.ResourceCPU, "3")), want: threads("3")},
		"parts of a CPU":                    {container: container(requests(corev1.ResourceCPU, "1500m")), want: threads("2")},
		"less than one CPU":                 {container: container(requests(corev1.ResourceCPU, "100m")), want: threads("1")},
		"nothing":                           {container: container()},
		"zero":                              {container: container(requests(corev1.ResourceCPU, "0"))},
		"CPUs of its own":                   {container: container(limits(class, "8")), want: threads("8")},
		"the pod's":                         {container: container(), pod: &corev1.ResourceRequirements{Limits: half}, want: threads("6")},
		"its own before the pod's":          {container: container(requests(corev1.ResourceCPU, "2")), pod: &corev1.ResourceRequirements{Limits: half}, want: threads("2")},
		"what the user set":                 {container: container(requests(corev1.ResourceCPU, "4"), env("OMP_NUM_THREADS", "1"), env("SLURM_CPUS_ON_NODE", "9")), want: "OMP_NUM_THREADS=1\nSLURM_CPUS_ON_NODE=9\nMKL_NUM_THREADS=4\nOPENBLAS_NUM_THREADS=4\nNUMEXPR_NUM_THREADS=4\nGOMAXPROCS=4\nSLURM_CPUS_PER_TASK=4"},
		"what a ConfigMap may set":          {container: container(requests(corev1.ResourceCPU, "4"), from), want: "SLURM_CPUS_PER_TASK=4\nSLURM_CPUS_ON_NODE=4"},
		"unless the pod asks for it itself": {container: container(requests(corev1.ResourceCPU, "4"), from), asked: true, want: threads("4")},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Resources: c.pod, Containers: []corev1.Container{c.container}}}
			Add(pod, Groups{Threads: true}, c.asked)
			if d := cmp.Diff(c.want, print(pod.Spec.Containers[0])); d != "" {
				t.Error(d)
			}
			again := pod.DeepCopy()
			Add(again, Groups{Threads: true}, c.asked)
			if d := cmp.Diff(pod, again); d != "" {
				t.Errorf("the second time: %s", d)
			}
		})
	}
}

func TestContainers(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	two := requests(corev1.ResourceCPU, "2")
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{container(two), container(two, func(c *corev1.Container) { c.RestartPolicy = &always })},
		Containers:     []corev1.Container{container(two), container()},
	}}
	Add(pod, Groups{Threads: true, Ranks: true}, false)
	const ranks = "RANK=metadata.annotations['slinky.slurm.net/slurm-procid']\nWORLD_SIZE=metadata.annotations['slinky.slurm.net/slurm-ntasks']\n" +
		"LOCAL_RANK=metadata.annotations['slinky.slurm.net/slurm-localid']\nMASTER_ADDR=metadata.annotations['slinky.slurm.net/slurm-first-peer']"
	for name, c := range map[string]struct {
		container corev1.Container
		want      string
	}{
		"init":            {pod.Spec.InitContainers[0], threads("2") + "\n" + ranks},
		"sidecar":         {pod.Spec.InitContainers[1], ranks},
		"main":            {pod.Spec.Containers[0], threads("2") + "\n" + ranks},
		"one without CPU": {pod.Spec.Containers[1], ranks},
	} {
		if d := cmp.Diff(c.want, print(c.container)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Groups{
		"": {}, "none": {}, " Threads , SLURM ": {Threads: true, Slurm: true}, "peers,ranks": {Peers: true, Ranks: true},
		"all": {Threads: true, Slurm: true, Peers: true, Ranks: true},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if _, err := Parse("threads,slrum"); err == nil || !strings.Contains(err.Error(), `"slrum" is none of threads, slurm, peers, ranks, all and none`) {
		t.Error(err)
	}
}

// TestTold has two pods on one node and one on another, of which one reads nothing.
func TestTold(t *testing.T) {
	member := func(name, node, subdomain string, g Groups) Member {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{
			Subdomain: subdomain, Containers: []corev1.Container{container()}}}
		Add(pod, g, false)
		return Member{UID: pod.UID, Pod: pod, Name: name, Node: node}
	}
	all := Groups{Slurm: true, Peers: true, Ranks: true}
	job := Job{NodeList: "n[1-2]", Nodes: []string{"n1", "n2"}, Members: []Member{
		member("a", "n1", "s", all), member("b", "n1", "", Groups{}), member("c", "n2", "s", all), {UID: "d", Name: "gone"},
	}}
	for uid, want := range map[types.UID]string{
		"a": "n[1-2] 2 0 n1 0 4 0 a.s,b,c.s,gone a.s", "b": "", "c": "n[1-2] 2 1 n2 2 4 0 a.s,b,c.s,gone a.s", "d": "", "unknown": "",
	} {
		told := job.Told(uid)
		var got []string
		for _, key := range Annotations() {
			if value, ok := told[key]; ok {
				got = append(got, value)
			}
		}
		if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
			t.Errorf("%s: %s", uid, d)
		}
	}
	job.Members[1] = member("b", "n1", "", all)
	if got := job.Told("b")["slinky.slurm.net/slurm-localid"]; got != "1" {
		t.Errorf("the second pod on a node is number %q there", got)
	}
	t.Run("by a volume", func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "v"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "peers", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['slinky.slurm.net/slurm-peers']"}}}}}}}}}
		told := Job{Members: []Member{{UID: "v", Name: "v", Pod: pod}}}.Told("v")
		if d := cmp.Diff(map[string]string{"slinky.slurm.net/slurm-peers": "v"}, told); d != "" {
			t.Error(d)
		}
	})
	t.Run("an Indexed Job of single pods", func(t *testing.T) {
		job := Job{NodeList: "n2", Nodes: []string{"n2"}, Members: []Member{member("j-2-xyz", "n2", "s", all)}, Index: &Index{Job: "j", Rank: 2, Size: 3}}
		told := job.Told("j-2-xyz")
		for key, want := range map[string]string{"procid": "2", "ntasks": "3", "peers": "j-0.s,j-1.s,j-2.s", "first-peer": "j-0.s", "nnodes": "1", "nodeid": "0"} {
			if got := told["slinky.slurm.net/slurm-"+key]; got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
	})
}
