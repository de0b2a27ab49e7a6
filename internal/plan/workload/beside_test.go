package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/slurm"
)

const zone = corev1.LabelTopologyZone

// fleet is n1 and n2 in zone a, n3 in zone b, and n4 without a zone.
func fleet(change ...func(*corev1.Node)) *Fleet {
	var kube []NodeFacts
	var there []slurm.Node
	for name, z := range map[string]string{"n1": "a", "n2": "a", "n3": "b", "n4": ""} {
		kube = append(kube, node(name, append([]func(*corev1.Node){func(n *corev1.Node) {
			n.Labels[corev1.LabelHostname] = name
			if z != "" {
				n.Labels[zone] = z
			}
		}}, change...)...))
		there = append(there, slurm.Node{Name: name, Partitions: []string{"p"}})
	}
	return NewFleet(kube, there)
}

func app(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": name} }
}

func termsFor(app, key string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
}

func affinity(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

func near(app, key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		affinity(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: termsFor(app, key)}
	}
}

func apart(app, key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		affinity(p).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: termsFor(app, key)}
	}
}

func spread(app, key string, skew int32, how corev1.UnsatisfiableConstraintAction) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			TopologyKey: key, MaxSkew: skew, WhenUnsatisfiable: how, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		})
	}
}

func hostPort(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "port", Ports: []corev1.ContainerPort{{ContainerPort: n, HostPort: n}}})
	}
}

func several(n int, change ...func(*corev1.Pod)) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range n {
		out = append(out, pod(string(rune('a'+i)), change...))
	}
	return out
}

// What a pod asks of where other pods are is honoured as exclusions and limits, or refused: nothing is ignored.
func TestBeside(t *testing.T) {
	on := func(node string, change ...func(*corev1.Pod)) Others {
		return Others{Pods: []Placed{{pod("x", change...), node}}}
	}
	for name, c := range map[string]struct {
		pods     []*corev1.Pod
		others   Others
		excluded []string
		perNode  int
		oneNode  bool
		err      string
	}{
		"apart by node":                  {pods: several(1, apart("db", corev1.LabelHostname)), others: on("n2", app("db")), excluded: []string{"n2"}},
		"apart by zone":                  {pods: several(1, apart("db", zone)), others: on("n2", app("db")), excluded: []string{"n1", "n2"}},
		"of another namespace":           {pods: several(1, apart("db", zone)), others: on("n2", app("db"), func(p *corev1.Pod) { p.Namespace = "else" })},
		"the other keeps it off":         {pods: several(1, app("web")), others: on("n3", apart("web", zone)), excluded: []string{"n3"}},
		"apart from its own kind":        {pods: several(3, app("web"), apart("web", corev1.LabelHostname)), perNode: 1},
		"apart from its own by zone":     {pods: several(2, app("web"), apart("web", zone)), err: "Slurm can keep the pods of a job apart by node only"},
		"near a pod":                     {pods: several(1, near("db", zone)), others: on("n1", app("db")), excluded: []string{"n3", "n4"}},
		"near nothing":                   {pods: several(1, near("db", zone)), excluded: []string{"n1", "n2", "n3", "n4"}},
		"the first of its kind":          {pods: several(1, app("web"), near("web", zone)), excluded: []string{"n4"}},
		"together on a node":             {pods: several(3, app("web"), near("web", corev1.LabelHostname)), oneNode: true},
		"together in a zone":             {pods: several(2, app("web"), near("web", zone)), excluded: []string{"n3", "n4"}},
		"together and apart":             {pods: several(2, app("web"), near("web", corev1.LabelHostname), apart("web", corev1.LabelHostname)), err: "must be on one node"},
		"a host port is taken":           {pods: several(1, hostPort(80)), others: on("n1", hostPort(80)), excluded: []string{"n1"}},
		"another host port":              {pods: several(1, hostPort(81)), others: on("n1", hostPort(80))},
		"one host port each":             {pods: several(2, hostPort(80)), perNode: 1},
		"spread beside others":           {pods: several(1, app("web"), spread("web", zone, 1, corev1.DoNotSchedule)), others: on("n1", app("web")), excluded: []string{"n1", "n2", "n4"}},
		"spread with room":               {pods: several(1, app("web"), spread("web", zone, 2, corev1.DoNotSchedule)), others: on("n1", app("web")), excluded: []string{"n4"}},
		"spread of a job by node":        {pods: several(3, app("web"), spread("web", corev1.LabelHostname, 1, corev1.DoNotSchedule)), perNode: 1},
		"spread of a job by zone":        {pods: several(3, app("web"), spread("web", zone, 1, corev1.DoNotSchedule)), excluded: nil, err: "can't be told to Slurm"},
		"a soft spread excludes nothing": {pods: several(3, app("web"), spread("web", zone, 1, corev1.ScheduleAnyway))},
	} {
		t.Run(name, func(t *testing.T) {
			f := fleet()
			got, err := Beside(f.Feasible(c.pods[0], Volumes{}, "p"), f, c.pods, c.others)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want an error with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.excluded, got.Excluded); d != "" {
				t.Errorf("excluded (-want +got):\n%s%s", d, got.Sentence(1))
			}
			if got.PerNode != c.perNode || got.OneNode != c.oneNode {
				t.Errorf("at most %d on a node, all on one: %t; want %d, %t", got.PerNode, got.OneNode, c.perNode, c.oneNode)
			}
		})
	}
}

// What a pod prefers leaves the best nodes, as many as the job needs.
func TestPrefer(t *testing.T) {
	prefers := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			affinity(p).NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 10, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}},
			}}}
		}
	}
	softly := func(p *corev1.Pod) {
		affinity(p).PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{Weight: 5, PodAffinityTerm: termsFor("db", zone)[0]}}}
	}
	soft := func(n *corev1.Node) {
		if n.Name != "n2" {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "old", Effect: corev1.TaintEffectPreferNoSchedule})
		}
	}
	for name, c := range map[string]struct {
		fleet  *Fleet
		pod    *corev1.Pod
		others Others
		need   int
		want   []string
	}{
		"a zone":                     {fleet(), pod("a", prefers(zone, "b")), Others{}, 1, []string{"n1", "n2", "n4"}},
		"a zone that is too small":   {fleet(), pod("a", prefers(zone, "b")), Others{}, 2, nil},
		"away from a pod":            {fleet(), pod("a", softly), Others{Pods: []Placed{{pod("x", app("db")), "n1"}}}, 2, []string{"n1", "n2"}},
		"off a softly tainted node":  {fleet(soft), pod("a"), Others{}, 1, []string{"n1", "n3", "n4"}},
		"spread beside others":       {fleet(), pod("a", app("web"), spread("web", zone, 1, corev1.ScheduleAnyway)), Others{Pods: []Placed{{pod("x", app("web")), "n3"}}}, 3, []string{"n3"}},
		"no preference":              {fleet(), pod("a"), Others{}, 1, nil},
		"as many as there are nodes": {fleet(), pod("a", prefers(zone, "b")), Others{}, 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.fleet.Feasible(c.pod, Volumes{}, "p")
			if d := cmp.Diff(c.want, Prefer(f, c.fleet, []*corev1.Pod{c.pod}, c.others, c.need)); d != "" {
				t.Errorf("excluded at first (-want +got):\n%s", d)
			}
		})
	}
}

// disks are the volumes of a test.
type disks struct {
	claims  map[string]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
}

func (d disks) Claim(_, name string) *corev1.PersistentVolumeClaim { return d.claims[name] }
func (d disks) Volume(name string) *corev1.PersistentVolume        { return d.volumes[name] }
func (d disks) Class(name string) *storagev1.StorageClass          { return d.classes[name] }

// A pod goes where its volumes are, or can be made.
func TestVolumes(t *testing.T) {
	late, atOnce, inA := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate, zoneIs("a")
	class := func(name string) corev1.PersistentVolumeClaimSpec {
		return corev1.PersistentVolumeClaimSpec{StorageClassName: &name}
	}
	d := disks{
		claims: map[string]*corev1.PersistentVolumeClaim{
			"bound":   {Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "in-a"}},
			"network": {Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "nfs"}},
			"lost":    {Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "gone"}},
			"late":    {Spec: class("late")}, "waits": {Spec: class("at-once")}, "a-scratch": {Spec: class("late")},
		},
		volumes: map[string]*corev1.PersistentVolume{
			"in-a": {Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: inA}}}, "nfs": {},
		},
		classes: map[string]*storagev1.StorageClass{
			"late": {VolumeBindingMode: &late, AllowedTopologies: []corev1.TopologySelectorTerm{
				{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: zone, Values: []string{"b"}}}}}},
			"at-once": {VolumeBindingMode: &atOnce},
		},
	}
	for name, c := range map[string]struct {
		volume   corev1.VolumeSource
		excluded []string
		sentence string
	}{
		"bound to a zone":  {claim("bound"), []string{"n3", "n4"}, ""},
		"on the network":   {claim("network"), nil, ""},
		"made where it is": {claim("late"), []string{"n1", "n2", "n4"}, ""},
		"ephemeral":        {corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}, []string{"n1", "n2", "n4"}, ""},
		"not there":        {claim("none"), []string{"n1", "n2", "n3", "n4"}, "its PersistentVolumeClaim none doesn't exist"},
		"not bound":        {claim("waits"), []string{"n1", "n2", "n3", "n4"}, "isn't bound to a volume yet"},
		"volume gone":      {claim("lost"), []string{"n1", "n2", "n3", "n4"}, "PersistentVolume gone of its claim lost doesn't exist"},
		"no claim":         {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("a", func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: c.volume}} })
			f := fleet().Feasible(p, VolumesOf(p, d), "p")
			if diff := cmp.Diff(c.excluded, f.Excluded); diff != "" || !strings.Contains(f.Sentence(1), c.sentence) {
				t.Errorf("excluded (-want +got):\n%s%s", diff, f.Sentence(1))
			}
		})
	}
}

func claim(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func zoneIs(name string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}}}
}
