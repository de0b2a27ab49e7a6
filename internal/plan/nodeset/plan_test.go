package nodeset

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

var update = flag.Bool("update", false, "write the golden files")

func raw(s string) v1beta1.RawObject { return v1beta1.RawObject{JSON: []byte(s)} }

func facts(replicas int32) Facts {
	return Facts{
		NodeSet: &v1beta1.NodeSet{
			ObjectMeta: metav1.ObjectMeta{Name: "cpu", Namespace: "slurm", UID: "set", Generation: 1},
			Spec:       v1beta1.NodeSetSpec{Replicas: &replicas},
		},
		Controller: &v1beta1.Controller{
			ObjectMeta: metav1.ObjectMeta{Name: "slurm", Namespace: "slurm"},
			Spec: v1beta1.ControllerSpec{SlurmKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "slurm-auth-slurm"}, Key: "slurm.key"}},
		},
		Nodes:         map[string]*corev1.Node{},
		Slurm:         SlurmFacts{Known: true, Nodes: map[string]slurm.Node{}},
		Now:           time.Unix(1_000_000, 0),
		Image:         "registry.example.com/slurmd:26.05",
		ClusterDomain: "cluster.local",
	}
}

// withPod adds a ready pod of the current revision whose Slurm node has these states.
func (f Facts) withPod(name string, states ...string) Facts {
	hash, err := revision(f.NodeSet)
	if err != nil {
		panic(err)
	}
	f.Pods = append(f.Pods, corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "slurm", Labels: map[string]string{v1beta1.LabelRevisionHash: hash}},
		Spec:       corev1.PodSpec{NodeName: "node-of-" + name, Hostname: name},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	})
	f.Nodes["node-of-"+name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-" + name}}
	if len(states) > 0 {
		f.Slurm.Nodes[name] = slurm.Node{Name: name, States: slurm.StatesOf(states...)}
	}
	return f
}

func (f Facts) withReason(node, reason string) Facts {
	n := f.Slurm.Nodes[node]
	n.Reason = reason
	f.Slurm.Nodes[node] = n
	return f
}

func (f Facts) with(change func(*Facts)) Facts {
	change(&f)
	return f
}

func TestSteps(t *testing.T) {
	const ours = v1beta1.OperatorReasonPrefix
	two := func(replicas int32) Facts { return facts(replicas).withPod("cpu-0", "IDLE").withPod("cpu-1", "IDLE") }
	cases := map[string]struct {
		facts Facts
		want  []string
	}{
		"none yet":  {facts(2), []string{"create cpu-0: 0 of 2 workers exist", "create cpu-1: 0 of 2 workers exist"}},
		"as wanted": {two(2), nil},
		"a hole is filled": {facts(2).withPod("cpu-1", "IDLE"),
			[]string{"create cpu-0: 1 of 2 workers exist"}},
		"a name in use is waited for": {two(2).with(func(f *Facts) { f.Pods[0].DeletionTimestamp = &metav1.Time{Time: f.Now} }),
			[]string{"wait cpu-0: it is terminating"}},
		"an ended pod is removed": {two(2).with(func(f *Facts) { f.Pods[0].Status.Phase, f.Pods[0].Status.Reason = corev1.PodFailed, "Evicted" }),
			[]string{"delete cpu-0: its containers have ended: Evicted"}},
		"pods are made without Slurm": {facts(1).with(func(f *Facts) { f.Slurm = SlurmFacts{Why: "no answer"} }),
			[]string{"create cpu-0: 0 of 1 workers exist"}},

		"scale-in drains first": {two(1),
			[]string{"drain cpu-1: pod slurm/cpu-1 is to be removed: scale-in to 1 workers"}},
		"scale-in waits for jobs": {facts(1).withPod("cpu-0", "ALLOCATED").withPod("cpu-1", "ALLOCATED", "DRAIN").withReason("cpu-1", ours+"pod slurm/cpu-1 is to be removed: scale-in to 1 workers"),
			[]string{"wait cpu-1: scale-in to 1 workers: jobs still run on Slurm node cpu-1"}},
		"scale-in waits for completing jobs": {facts(0).withPod("cpu-0", "IDLE", "DRAIN", "COMPLETING").withReason("cpu-0", ours+"pod slurm/cpu-0 is to be removed: scale-in to 0 workers"),
			[]string{"wait cpu-0: scale-in to 0 workers: jobs still run on Slurm node cpu-0"}},
		"scale-in deletes what is drained": {facts(1).withPod("cpu-0", "IDLE").withPod("cpu-1", "IDLE", "DRAIN").withReason("cpu-1", ours+"x"),
			[]string{"delete cpu-1: scale-in to 1 workers: no job uses it"}},
		"scale-in prefers the idle one": {facts(1).withPod("cpu-0", "IDLE", "DRAIN").withPod("cpu-1", "ALLOCATED").withReason("cpu-0", ours+"x"),
			[]string{"delete cpu-0: scale-in to 1 workers: no job uses it"}},
		"deletion cost comes before that": {facts(1).withPod("cpu-0", "IDLE").withPod("cpu-1", "IDLE", "DRAIN").withReason("cpu-1", "admin").
			with(func(f *Facts) { f.Pods[1].Annotations = map[string]string{v1beta1.AnnotationPodDeletionCost: "5"} }),
			[]string{"drain cpu-0: pod slurm/cpu-0 is to be removed: scale-in to 1 workers"}},
		"scale-in of a pod that isn't ready": {two(1).with(func(f *Facts) {
			f.Pods[0].Status.Conditions = nil
			delete(f.Slurm.Nodes, "cpu-0")
		}), []string{"delete cpu-0: scale-in to 1 workers: no job uses it"}},
		"scale-in without Slurm's answer": {two(1).with(func(f *Facts) { f.Slurm = SlurmFacts{Why: "slurmrestd: unavailable"} }),
			[]string{"wait cpu-1: scale-in to 1 workers: it can't be known whether jobs run there: slurmrestd: unavailable"}},
		"scale-in is taken back": {facts(1).withPod("cpu-0", "IDLE", "DRAIN").withReason("cpu-0", ours+"pod slurm/cpu-0 is to be removed"),
			[]string{"undrain cpu-0: the cause of the drain is gone: " + ours + "pod slurm/cpu-0 is to be removed"}},

		"a drain stays until the pod is ready": {facts(1).withPod("cpu-0", "IDLE", "DRAIN").withReason("cpu-0", ours+"x").
			with(func(f *Facts) { f.Pods[0].Status.Conditions = nil }), nil},
		"an administrator's drain stays": {facts(1).withPod("cpu-0", "IDLE", "DRAIN").withReason("cpu-0", "bad disk"), nil},
		"a reason that isn't ours is kept": {facts(0).withPod("cpu-0", "IDLE").withReason("cpu-0", "watch this"),
			[]string{"drain cpu-0: pod slurm/cpu-0 is to be removed: scale-in to 0 workers"}},
		"annotation": {facts(1).withPod("cpu-0", "IDLE").with(func(f *Facts) { f.Pods[0].Annotations = map[string]string{v1beta1.AnnotationPodCordon: "true"} }),
			[]string{"drain cpu-0: pod slurm/cpu-0 has the annotation " + v1beta1.AnnotationPodCordon}},
		"cordoned": {facts(1).withPod("cpu-0", "IDLE").with(func(f *Facts) { f.Nodes["node-of-cpu-0"].Spec.Unschedulable = true }),
			[]string{"drain cpu-0: Kubernetes node node-of-cpu-0 is cordoned"}},
		"down after the pod was replaced": {facts(1).withPod("cpu-0", "DOWN").withReason("cpu-0", ours+"Pod is terminating"),
			[]string{"resume cpu-0: its new pod is ready"}},
		"down by an administrator": {facts(1).withPod("cpu-0", "DOWN").withReason("cpu-0", "broken"), nil},

		"the record of a removed worker": {facts(0).with(func(f *Facts) {
			f.Slurm.Nodes["cpu-1"] = slurm.Node{Name: "cpu-1", Reason: ours + "x", States: slurm.StatesOf("DOWN", "DRAIN")}
			f.Slurm.Nodes["cpu-2"] = slurm.Node{Name: "cpu-2", Reason: "admin", States: slurm.StatesOf("DOWN", "DRAIN")}
			f.Slurm.Nodes["cpu-3"] = slurm.Node{Name: "cpu-3", Reason: ours + "x", States: slurm.StatesOf("DOWN")}
			f.Slurm.Nodes["cpu-big-1"] = slurm.Node{Name: "cpu-big-1", Reason: ours + "x", States: slurm.StatesOf("DOWN", "DRAIN")}
		}), []string{"forget cpu-1: its pod is gone"}},
		"update, one at a time": {two(2).with(func(f *Facts) { f.NodeSet.Spec.ExtraConf = "Weight=5" }),
			[]string{"drain cpu-1: pod slurm/cpu-1 is to be removed: update to the new pod template"}},
		"update waits for the new one": {two(2).with(func(f *Facts) {
			f.Pods[1].Status.Conditions = nil
			f.NodeSet.Spec.ExtraConf = "Weight=5"
			f.Pods[1].Labels[v1beta1.LabelRevisionHash], _ = revision(f.NodeSet)
		}), nil},
		"update takes what isn't ready at once": {two(2).with(func(f *Facts) {
			f.NodeSet.Spec.ExtraConf = "Weight=5"
			f.Pods[0].Status.Conditions = nil
			delete(f.Slurm.Nodes, "cpu-0")
		}), []string{"delete cpu-0: update to the new pod template: no job uses it"}},
		"no update with OnDelete": {two(2).with(func(f *Facts) {
			f.NodeSet.Spec.ExtraConf = "Weight=5"
			f.NodeSet.Spec.UpdateStrategy.Type = v1beta1.UpdateOnDelete
		}), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			plan := Make(tc.facts)
			var got []string
			for _, s := range plan.Steps {
				if s.Action == Mark || s.Action == Mirror || s.Action == Describe || s.Action == CreateRevision {
					continue // other tests are about these
				}
				got = append(got, s.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, p := range plan.Problems {
				t.Errorf("problem: %s", p.Message)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	cases := map[string]struct {
		change func(*v1beta1.NodeSetSpec)
		want   string
	}{
		"extraConf": {func(s *v1beta1.NodeSetSpec) { s.ExtraConf = "foo" }, `spec.extraConf: "foo" is not of the form Key=Value`},
		"injection": {func(s *v1beta1.NodeSetSpec) { s.ExtraConf = "Weight=1\nGres=gpu:8" }, "spec.extraConf: has a line break"},
		"hostname":  {func(s *v1beta1.NodeSetSpec) { s.Template.PodSpec = raw(`{"hostname":"Bad_Name"}`) }, "spec.template.spec.hostname gives the host name"},
		"template":  {func(s *v1beta1.NodeSetSpec) { s.Template.PodSpec = raw(`{"containers":7}`) }, "spec.template.spec: "},
		"claim":     {func(s *v1beta1.NodeSetSpec) { s.VolumeClaimTemplates = []v1beta1.RawObject{raw(`{}`)} }, "spec.volumeClaimTemplates[0].metadata.name is empty"},
		"sssd.conf": {func(s *v1beta1.NodeSetSpec) { s.Ssh = &v1beta1.NodeSetSsh{Enabled: true} }, `spec.ssh.sssdConfRef: there is no key ""`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := facts(1)
			tc.change(&f.NodeSet.Spec)
			plan := Make(f)
			if len(plan.Problems) != 1 || !strings.Contains(plan.Problems[0].Message, tc.want) {
				t.Errorf("got %v, want one with %q", plan.Problems, tc.want)
			}
		})
	}
}

func TestPodGolden(t *testing.T) {
	f := facts(1)
	n := f.NodeSet
	n.Labels = map[string]string{"team": "hpc"}
	n.Spec.OrdinalPadding = 2
	n.Spec.ExtraConf = "Weight=5 feature=fast,cpu gres=gpu:1"
	n.Spec.Slurmd = raw(`{"resources":{"limits":{"cpu":"1500m","memory":"2Gi"}}}`)
	n.Spec.Template = v1beta1.PodTemplate{Metadata: v1beta1.Metadata{Labels: map[string]string{"pool": "a"}},
		PodSpec: raw(`{"hostname":"c-","tolerations":[{"key":"slinky.slurm.net/managed-node","operator":"Exists"}]}`)}
	n.Spec.VolumeClaimTemplates = []v1beta1.RawObject{raw(`{"metadata":{"name":"scratch"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)}
	plan := Make(f)
	if len(plan.Steps) != 3 || len(plan.Problems) != 0 {
		t.Fatalf("got %v, %v", plan.Steps, plan.Problems)
	}
	text, err := yaml.Marshal([]any{plan.Steps[1].Claim, plan.Steps[2].Pod})
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/pod.yaml"
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRevisionIgnoresKeyOrder(t *testing.T) {
	a, b := facts(1).NodeSet, facts(1).NodeSet
	a.Spec.Slurmd, b.Spec.Slurmd = raw(`{"image":"x","tty":true}`), raw(`{ "tty":true, "image":"x"}`)
	x, _ := revision(a)
	y, _ := revision(b)
	if x != y || x == "" {
		t.Errorf("revisions %q and %q", x, y)
	}
	b.Spec.Replicas = new(int32)
	if z, _ := revision(b); z != y {
		t.Error("the number of replicas changes the revision")
	}
}

func TestStatus(t *testing.T) {
	f := facts(3).withPod("cpu-0", "MIXED").withPod("cpu-1", "IDLE", "DRAIN").withPod("cpu-2", "DOWN")
	f.Pods[2].Status.Conditions = nil
	got := Make(f).Status
	want := v1beta1.NodeSetStatus{
		Desired: 3, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 2, UnavailableReplicas: 1,
		SlurmIdle: 1, SlurmAllocated: 1, SlurmDown: 1, SlurmDrain: 1, ObservedGeneration: 1, NodeSetHash: got.NodeSetHash,
		Selector: "app.kubernetes.io/instance=cpu,app.kubernetes.io/name=slurmd",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.NodeSet.Status = got
	f.Slurm = SlurmFacts{}
	if diff := cmp.Diff(want, Make(f).Status); diff != "" {
		t.Errorf("without Slurm (-want +got):\n%s", diff)
	}
}
