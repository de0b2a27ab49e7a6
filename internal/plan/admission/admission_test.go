package admission

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "ns"} }

func raw(text string) v1beta1.RawObject { return v1beta1.RawObject{JSON: []byte(text)} }

// say is a verdict in lines: refusals, then warnings.
func say(v Verdict) string {
	var out []string
	for _, e := range v.Errors {
		out = append(out, "refused: "+e.Error())
	}
	for _, w := range v.Warnings {
		out = append(out, "warning: "+w)
	}
	return strings.Join(out, "\n")
}

func want(t *testing.T, v Verdict, text string) {
	t.Helper()
	if diff := cmp.Diff(text, say(v)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func worker(name, hostname string, replicas int32, change ...func(*v1beta1.NodeSet)) v1beta1.NodeSet {
	n := v1beta1.NodeSet{ObjectMeta: meta(name), Spec: v1beta1.NodeSetSpec{ControllerRef: corev1.LocalObjectReference{Name: "c"}, Replicas: &replicas}}
	if hostname != "" {
		n.Spec.Template.PodSpec = raw(`{"hostname":"` + hostname + `"}`)
	}
	for _, f := range change {
		f(&n)
	}
	return n
}

func facts(others ...v1beta1.NodeSet) NodeSetFacts {
	return NodeSetFacts{NodeSets: others, Controllers: []v1beta1.Controller{{ObjectMeta: meta("c")}}}
}

// What was taken once may be kept, whatever is thought of it today.
func TestUnchangedPartsAreNotJudgedAgain(t *testing.T) {
	old := worker("n", "", 1, func(n *v1beta1.NodeSet) {
		n.Spec.ExtraConf = "foo"
		n.Spec.Partition = v1beta1.NodeSetPartition{Enabled: true, Config: "foo"}
		n.Spec.Slurmd = raw(`{"image":1}`)
		n.Spec.VolumeClaimTemplates = []v1beta1.RawObject{raw(`{}`)}
	})
	now := old.DeepCopy()
	now.Spec.MinReadySeconds = 3
	want(t, NodeSet(now, &old, facts(old, worker("other", "n", 1))), "")

	c := &v1beta1.Controller{ObjectMeta: meta(strings.Repeat("c", 60)), Spec: v1beta1.ControllerSpec{
		ExtraConf: "Foo=1\\", Slurmctld: raw(`{"x":1}`), Template: v1beta1.PodTemplate{PodSpec: raw(`{"containers":1}`)}}}
	changed := c.DeepCopy()
	changed.Spec.InplaceReconfigure = true
	want(t, Controller(changed, c, ControllerFacts{}), "")
}

func TestNamesInSlurm(t *testing.T) {
	daemons := func(n *v1beta1.NodeSet) { n.Spec.ScalingMode = v1beta1.ScalingModeDaemonSet }
	padding := func(n *v1beta1.NodeSet) { n.Spec.OrdinalPadding = 3 }
	elsewhere := func(n *v1beta1.NodeSet) { n.Spec.ControllerRef.Name = "d" }
	cases := map[string]struct {
		mine, other v1beta1.NodeSet
		want        string
	}{
		"different":          {worker("a", "", 3), worker("b", "", 3), ""},
		"by host name":       {worker("a", "x-", 1), worker("b", "x", 1), `refused: spec.template.spec.hostname: Invalid value: "x": is the name of NodeSet b in Slurm already: set another spec.template.spec.hostname`},
		"by name":            {worker("a", "", 1), worker("b", "a", 1), `refused: metadata.name: Invalid value: "a": is the name of NodeSet b in Slurm already: set another spec.template.spec.hostname`},
		"in another cluster": {worker("a", "x", 1), worker("b", "x", 1, elsewhere), ""},
		"one node":           {worker("a", "x", 12), worker("b", "x1", 1), `refused: spec.template.spec.hostname: Invalid value: "x": both this NodeSet and NodeSet b would have a Slurm node x10: set another spec.template.spec.hostname`},
		"not that many":      {worker("a", "x", 10), worker("b", "x1", 1), ""},
		"padded apart":       {worker("a", "x", 12, padding), worker("b", "x1", 1), ""},
		"padded together":    {worker("a", "x", 101, padding), worker("b", "x10", 1), `refused: spec.template.spec.hostname: Invalid value: "x": both this NodeSet and NodeSet b would have a Slurm node x100: set another spec.template.spec.hostname`},
		"names of nodes":     {worker("a", "x", 12, daemons), worker("b", "x1", 1), ""},
		"name and host name": {worker("x", "", 12), worker("b", "x-1", 1), `refused: metadata.name: Invalid value: "x": both this NodeSet and NodeSet b would have a Slurm node x-10: set another spec.template.spec.hostname`},
		"none yet":           {worker("a", "x", 0), worker("b", "x1", 0), ""},
		// S044: what can't become a name or a label is refused with its limit.
		"S044: too long with its ordinals": {worker(strings.Repeat("n", 60), "", 1001), worker("b", "", 1), `refused: metadata.name: Invalid value: "` + strings.Repeat("n", 60) + `": gives a worker the host name "` + strings.Repeat("n", 60) + `-1000": must be no more than 63 characters`},
		"S044: a pod's name, too long":     {worker(strings.Repeat("n", 62), "x", 1), worker("b", "", 1), `refused: metadata.name: Invalid value: "` + strings.Repeat("n", 62) + `": gives a pod the name "` + strings.Repeat("n", 62) + `-0", which a label holds: 63 characters at most`},
		"S044: daemons, too long":          {worker(strings.Repeat("n", 64), "", 1, daemons), worker("b", "", 1), `refused: metadata.name: Invalid value: "` + strings.Repeat("n", 64) + `": is the value of a label of its pods: 63 characters at most`},
		"S044: daemons, long":              {worker(strings.Repeat("n", 63), "", 1, daemons), worker("b", "", 1), ""},
		"the same NodeSet, seen":           {worker("a", "x", 1), worker("a", "x", 1), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { want(t, NodeSet(&tc.mine, nil, facts(tc.other)), tc.want) })
	}
}

func TestDevices(t *testing.T) {
	const warning = `warning: spec.slurmd.resources.limits[nvidia.com/gpu]: slurmd runs privileged and opens all devices of its Kubernetes node, whatever this limit says: set ConstrainDevices=yes in cgroup.conf, or securityContext.privileged: false`
	for slurmd, text := range map[string]string{
		`{"resources":{"limits":{"nvidia.com/gpu":"1"}}}`:                                           warning,
		`{"resources":{"limits":{"nvidia.com/gpu":"1"}},"securityContext":{"privileged":true}}`:     warning,
		`{"resources":{"limits":{"nvidia.com/gpu":"1"}},"securityContext":{"privileged":false}}`:    "",
		`{"resources":{"limits":{"cpu":"1","memory":"1Gi"}},"securityContext":{"privileged":true}}`: "",
	} {
		t.Run(slurmd, func(t *testing.T) {
			n := worker("n", "", 1, func(n *v1beta1.NodeSet) { n.Spec.Slurmd = raw(slurmd) })
			want(t, NodeSet(&n, nil, facts()), text)
			n.Spec.MinReadySeconds++
			want(t, NodeSet(&n, &n, facts()), "")
		})
	}
}

func TestScriptsOfOneName(t *testing.T) {
	c := &v1beta1.Controller{ObjectMeta: meta("c"), Spec: v1beta1.ControllerSpec{
		PrologScriptRefs: []corev1.LocalObjectReference{{Name: "p1"}, {Name: "p2"}}, EpilogScriptRefs: []corev1.LocalObjectReference{{Name: "p2"}}}}
	want(t, Controller(c, nil, ControllerFacts{ConfigMaps: map[string][]string{"p1": {"10-a.sh", "20-b.sh"}, "p2": {"10-a.sh"}}}),
		"warning: spec.prologScriptRefs[1].name: ConfigMaps p1 and p2 both have a file 10-a.sh: only one of them counts")
	if diff := cmp.Diff([]string{"p1", "p2"}, ControllerConfigMaps(c)); diff != "" {
		t.Error(diff)
	}
}

func TestAnyOption(t *testing.T) {
	c := &v1beta1.Controller{ObjectMeta: meta("c"), Spec: v1beta1.ControllerSpec{ExtraConf: "BrandNew=1"}}
	if got := say(Controller(c, nil, ControllerFacts{})); !strings.Contains(got, `"BrandNew" is no option of Slurm 26.05`) {
		t.Errorf("got %q", got)
	}
	c.Annotations = map[string]string{v1beta1.AnnotationAnyOption: "true"}
	want(t, Controller(c, nil, ControllerFacts{}), "")
}

func TestTopology(t *testing.T) {
	node := func(topology string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1beta1.AnnotationTopology: topology}}}
	}
	pod := func(name string, annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1beta1.LabelName: name}, Annotations: annotations}}
	}
	had := map[string]string{v1beta1.AnnotationTopology: "s1"}
	cases := map[string]struct {
		pod   *corev1.Pod
		node  *corev1.Node
		value string
		set   bool
	}{
		"a worker":               {pod("slurmd", nil), node("s1"), "s1", true},
		"a worker that has it":   {pod("slurmd", had), node("s1"), "s1", false},
		"a worker that moves":    {pod("slurmd", had), node("s2"), "s2", true},
		"a node without":         {pod("slurmd", nil), &corev1.Node{}, "", true},
		"a node that is missing": {pod("slurmd", had), nil, "", true},
		"another pod":            {pod("slurmctld", nil), node("s1"), "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if value, set := Topology(tc.pod, tc.node); value != tc.value || set != tc.set {
				t.Errorf("got %q, %v", value, set)
			}
		})
	}
}
