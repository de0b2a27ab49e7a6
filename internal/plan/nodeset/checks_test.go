package nodeset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// settled gives a NodeSet the revision that its pods have.
func (f Facts) settled() Facts {
	for _, s := range Make(f).Steps {
		if s.Action == CreateRevision {
			f.Revisions = append(f.Revisions, *s.Revision)
		}
	}
	return f
}

// steps are those of a plan but for what keeps a worker's two sides in step.
func steps(p Plan) []string {
	var out []string
	for _, s := range p.Steps {
		if s.Action != Mark && s.Action != Mirror && s.Action != Describe {
			out = append(out, s.String())
		}
	}
	return out
}

func wantSteps(t *testing.T, f Facts, want ...string) Plan {
	t.Helper()
	p := Make(f)
	if diff := cmp.Diff(want, steps(p)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	return p
}

// daemons are the facts of a NodeSet in DaemonSet mode on these Kubernetes nodes, with a ready
// worker on each of them.
func daemons(nodes ...string) Facts {
	f := facts(1)
	f.NodeSet.Spec.ScalingMode = v1beta1.ScalingModeDaemonSet
	for _, name := range nodes {
		f.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	}
	for _, s := range Make(f).Steps {
		if s.Action == CreatePod {
			pod := *s.Pod
			pod.Spec.NodeName, pod.Status.Phase = targetNode(&pod), corev1.PodRunning
			setReady(&pod, true, f.Now)
			f.Pods = append(f.Pods, pod)
			f.Slurm.Nodes[pod.Spec.Hostname] = slurm.Node{Name: pod.Spec.Hostname, States: slurm.StatesOf(slurm.NodeIdle)}
		}
	}
	return f.settled()
}

func TestCheck27And28OrderOfVictims(t *testing.T) {
	f := facts(2).withPod("cpu-0", "MIXED").withPod("cpu-1", "IDLE").withPod("cpu-2", "MIXED")
	f.Slurm.Deadlines = map[string]time.Time{"cpu-0": f.Now.Add(time.Minute), "cpu-2": f.Now.Add(time.Hour)}
	first := func(f Facts) string {
		p := planner{Facts: f, taken: map[string]bool{}}
		p.sort()
		return p.ranked()[0].pod.Name
	}
	if got := first(f); got != "cpu-1" {
		t.Errorf("check 27: the first to go is %s, want the one without a job", got)
	}
	f.Pods[1].Annotations = map[string]string{v1beta1.AnnotationPodDeletionCost: "1"}
	if got := first(f); got != "cpu-0" {
		t.Errorf("check 28: the first to go is %s, want the cheaper one whose job ends first", got)
	}
	f.Pods[2].Annotations = map[string]string{v1beta1.AnnotationPodDeletionCost: "-1"}
	if got := first(f); got != "cpu-2" {
		t.Errorf("check 28: the first to go is %s, want the cheapest, whatever its deadline", got)
	}
	f.Pods[1].Status.Conditions = nil
	if got := first(f); got != "cpu-1" {
		t.Errorf("check 28: the first to go is %s, want the one that isn't ready, whatever its cost", got)
	}
}

// The order is strict, so that every permutation of the pods gives the same victims.
func TestOrderIsStrict(t *testing.T) {
	w := newWorld(t, 1)
	var workers []worker
	for i := range 40 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cpu-%d", i), Annotations: map[string]string{
			v1beta1.AnnotationPodDeletionCost: fmt.Sprint(w.rnd.Intn(2))}}}
		pod.CreationTimestamp = metav1.NewTime(time.Unix(int64(w.rnd.Intn(3)), 0))
		pod.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodPending, corev1.PodUnknown}[w.rnd.Intn(3)]
		if w.rnd.Intn(2) == 0 {
			pod.Spec.NodeName = "k"
			setReady(pod, w.rnd.Intn(2) == 0, time.Unix(int64(w.rnd.Intn(3)), 0))
		}
		p := planner{Facts: w.facts}
		one := worker{pod: pod, node: pod.Name, ordinal: i / 2}
		one.rank = p.rank(one)
		workers = append(workers, one)
	}
	for _, a := range workers {
		for _, b := range workers {
			if worth(a, b) != 0 && (worth(a, b) < 0) == (worth(b, a) < 0) || a.pod != b.pod && worth(a, b) == 0 {
				t.Fatalf("%s and %s: %d, %d", a.pod.Name, b.pod.Name, worth(a, b), worth(b, a))
			}
			for _, c := range workers {
				if worth(a, b) < 0 && worth(b, c) < 0 && worth(a, c) >= 0 {
					t.Fatalf("not transitive: %s, %s, %s", a.pod.Name, b.pod.Name, c.pod.Name)
				}
			}
		}
	}
}

func TestCheck30And31WithoutSlurm(t *testing.T) {
	f := facts(1).withPod("cpu-0", "IDLE").withPod("cpu-1", "IDLE").settled()
	f.Slurm = SlurmFacts{Why: "no RestApi"}
	wantSteps(t, f, "wait cpu-1: scale-in to 1 workers: it can't be known whether jobs run there: no RestApi")
	f.NodeSet.Spec.Replicas = new(int32(3))
	wantSteps(t, f, "create cpu-2: 2 of 3 workers exist")
}

func TestCheck35RollingUpdate(t *testing.T) {
	f := facts(8)
	for i := range 8 {
		f = f.withPod(fmt.Sprintf("cpu-%d", i), "IDLE")
	}
	f = f.settled()
	f.NodeSet.Spec.ExtraConf = "Weight=5"
	f = f.settled()
	drain := func(name string) string {
		return "drain " + name + ": pod slurm/" + name + " is to be removed: update to the new pod template"
	}
	wantSteps(t, f, drain("cpu-6"), drain("cpu-7"))
	setReady(&f.Pods[0], false, f.Now)
	wantSteps(t, f, drain("cpu-0"), drain("cpu-7"))
	hash, _ := revision(f.NodeSet)
	for i := range 2 { // replaced, and never ready
		f.Pods[i].Labels = map[string]string{v1beta1.LabelRevisionHash: hash}
		setReady(&f.Pods[i], false, f.Now)
	}
	wantSteps(t, f)
	for i := range 2 { // ready, but not for long enough
		setReady(&f.Pods[i], true, f.Now)
	}
	f.NodeSet.Spec.MinReadySeconds = 60
	if p := wantSteps(t, f); p.Again > time.Minute {
		t.Errorf("looks again in %s", p.Again)
	}
	f.Now = f.Now.Add(time.Minute)
	wantSteps(t, f, drain("cpu-6"), drain("cpu-7"))
}

func TestCheck36OnDelete(t *testing.T) {
	f := facts(2).withPod("cpu-0", "IDLE").withPod("cpu-1", "IDLE").settled()
	f.NodeSet.Spec.UpdateStrategy.Type = v1beta1.UpdateOnDelete
	f.NodeSet.Spec.ExtraConf = "Weight=5"
	f = f.settled()
	wantSteps(t, f)
	f.Pods = f.Pods[:1]
	p := wantSteps(t, f, "create cpu-1: 1 of 2 workers exist")
	if hash, _ := revision(f.NodeSet); p.Steps[len(p.Steps)-1].Action == CreatePod && p.Steps[len(p.Steps)-1].Pod.Labels[v1beta1.LabelRevisionHash] != hash {
		t.Error("the new pod has the old revision")
	}
}

func TestCheck37Reservation(t *testing.T) {
	f := facts(2).withPod("cpu-0", "IDLE").withPod("cpu-1", "ALLOCATED").settled()
	start := metav1.NewTime(f.Now.Add(time.Hour))
	f.NodeSet.Spec.UpdateStrategy = v1beta1.NodeSetUpdateStrategy{Type: v1beta1.UpdateScheduled,
		ScheduledUpdate: &v1beta1.ScheduledUpdate{StartTime: &start, Duration: &metav1.Duration{Duration: 30 * time.Minute}, Flags: []string{"weekly"}}}
	f.NodeSet.Spec.ExtraConf = "Weight=5"
	f = f.settled()
	wantSteps(t, f) // what Slurm has isn't known
	f.Slurm.ReservationKnown = true
	p := wantSteps(t, f, "create reservation SlurmOperatorMaint-cpu: spec.updateStrategy.scheduledUpdate")
	made := p.Steps[0].Reservation
	if diff := cmp.Diff([]string{"IGNORE_JOBS", "MAINT", "WEEKLY"}, made.Flags); diff != "" || !slices.Equal(made.Nodes, []string{"cpu-0", "cpu-1"}) {
		t.Errorf("reservation %+v", made)
	}
	if !slices.Contains(p.Finalizers, v1beta1.FinalizerReservation) {
		t.Error("no finalizer for the reservation")
	}
	f.NodeSet.Status = p.Status
	there := &slurm.Reservation{Name: made.Name, Nodes: "cpu-[0-1]", Flags: []string{"MAINT", "IGNORE_JOBS", "WEEKLY"}, StartTime: start.Time, EndTime: start.Add(30 * time.Minute)}
	f.Slurm.Reservation = there
	wantSteps(t, f)

	later := metav1.NewTime(start.Add(time.Hour))
	moved := f
	moved.NodeSet = f.NodeSet.DeepCopy()
	moved.NodeSet.Spec.UpdateStrategy.ScheduledUpdate.StartTime = &later
	p = wantSteps(t, moved, "update reservation SlurmOperatorMaint-cpu: spec.updateStrategy.scheduledUpdate or the nodes have changed")
	if !p.Steps[0].Reservation.StartTime.Equal(later.Time) {
		t.Errorf("moved to %s", p.Steps[0].Reservation.StartTime)
	}

	f.Now = start.Time
	for _, name := range []string{"cpu-0", "cpu-1"} {
		n := f.Slurm.Nodes[name]
		n.States, n.Reservation = slurm.StatesOf(append([]string{slurm.NodeMaintenance}, n.States...)...), made.Name
		f.Slurm.Nodes[name] = n
	}
	wantSteps(t, f, "drain cpu-0: pod slurm/cpu-0 is to be removed: update in the maintenance window",
		"drain cpu-1: pod slurm/cpu-1 is to be removed: update in the maintenance window")

	over := f
	over.Slurm.Reservation, over.Slurm.Nodes = nil, map[string]slurm.Node{"cpu-0": {Name: "cpu-0", States: slurm.StatesOf("IDLE")}, "cpu-1": {Name: "cpu-1", States: slurm.StatesOf("IDLE")}}
	wantSteps(t, over)

	f.NodeSet.DeletionTimestamp, f.NodeSet.Finalizers = &metav1.Time{Time: f.Now}, []string{v1beta1.FinalizerReservation}
	if p = Make(f); !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action == DeleteReservation }) || !slices.Contains(p.Finalizers, v1beta1.FinalizerReservation) {
		t.Errorf("a deleted NodeSet: %v, finalizers %v", steps(p), p.Finalizers)
	}
	f.Slurm.Reservation = nil
	if p = Make(f); slices.Contains(p.Finalizers, v1beta1.FinalizerReservation) {
		t.Error("the finalizer outlives the reservation")
	}
}

func TestCheck38PinToNode(t *testing.T) {
	f := facts(1).withPod("cpu-0", "IDLE").settled()
	f.NodeSet.Spec.PinToNode = true
	p := wantSteps(t, f)
	if diff := cmp.Diff(map[string]string{"0": "node-of-cpu-0"}, p.Status.OrdinalToNode); diff != "" {
		t.Fatal(diff)
	}
	f.NodeSet.Status, f.Pods = p.Status, nil
	p = wantSteps(t, f, "create cpu-0: 0 of 1 workers exist")
	if got := targetNode(p.Steps[0].Pod); got != "node-of-cpu-0" {
		t.Errorf("the new pod may only go to %q", got)
	}
	f.NodeSet.Spec.Template.PodSpec = raw(`{"nodeSelector":{"disk":"ssd"}}`)
	if p = Make(f); p.Status.OrdinalToNode != nil {
		t.Errorf("pinned to a node that the selector doesn't match: %v", p.Status.OrdinalToNode)
	}
	f.NodeSet.Spec.Template = v1beta1.PodTemplate{}
	delete(f.Nodes, "node-of-cpu-0")
	if p = Make(f); p.Status.OrdinalToNode != nil {
		t.Errorf("pinned to a node that is gone: %v", p.Status.OrdinalToNode)
	}
}

func TestCheck39RetentionOfClaims(t *testing.T) {
	for _, tc := range []struct {
		deleted, scaled v1beta1.ClaimRetention
		stays, leaves   string
	}{
		{v1beta1.ClaimRetain, v1beta1.ClaimRetain, "", ""},
		{v1beta1.ClaimDelete, v1beta1.ClaimRetain, "NodeSet", "NodeSet"},
		{v1beta1.ClaimRetain, v1beta1.ClaimDelete, "", "Pod"},
		{v1beta1.ClaimDelete, v1beta1.ClaimDelete, "NodeSet", "Pod"},
	} {
		f := facts(1).withPod("cpu-0", "MIXED").withPod("cpu-1", "MIXED", "DRAIN").withReason("cpu-1", v1beta1.OperatorReasonPrefix+"x")
		f.NodeSet.Spec.VolumeClaimTemplates = []v1beta1.RawObject{raw(`{"metadata":{"name":"d"}}`)}
		f.NodeSet.Spec.PersistentVolumeClaimRetentionPolicy = v1beta1.ClaimRetentionPolicy{WhenDeleted: tc.deleted, WhenScaled: tc.scaled}
		f.Pods[0].UID, f.Pods[1].UID = "0", "1"
		foreign := metav1.OwnerReference{Kind: "ConfigMap", Name: "mine", UID: "9"}
		f.Claims = map[string]*corev1.PersistentVolumeClaim{}
		for _, name := range []string{"d-cpu-0", "d-cpu-1"} {
			f.Claims[name] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{foreign}}}
		}
		f = f.settled()
		owner := map[string]string{}
		for _, s := range Make(f).Steps {
			if s.Action == OwnClaim {
				if len(s.Claim.OwnerReferences) != 2 || s.Claim.OwnerReferences[0].UID != "9" {
					t.Errorf("owners %+v", s.Claim.OwnerReferences)
				}
				owner[s.Claim.Name] = s.Claim.OwnerReferences[1].Kind
			}
		}
		if owner["d-cpu-0"] != tc.stays || owner["d-cpu-1"] != tc.leaves {
			t.Errorf("whenDeleted %s, whenScaled %s: owners %v, want %q and %q", tc.deleted, tc.scaled, owner, tc.stays, tc.leaves)
		}
	}
}

func TestCheck40Failures(t *testing.T) {
	f := facts(1).withPod("cpu-0", "IDLE").settled()
	f.Pods[0].Status.Phase = corev1.PodFailed
	if s := Make(f).Steps[0]; s.Action != DeletePod || !s.Failed || s.Slot != "0" {
		t.Errorf("a failed pod: %s", s)
	}
	f.NotBefore = map[string]time.Time{"0": f.Now.Add(2 * time.Second)}
	if p := wantSteps(t, f); p.Again > 2*time.Second {
		t.Errorf("looks again in %s", p.Again)
	}

	f = facts(4)
	for i := range 4 {
		f = f.withPod(fmt.Sprintf("cpu-%d", i))
		setReady(&f.Pods[i], true, f.Now)
	}
	f = f.settled()
	wantSteps(t, f)
	f.Now = f.Now.Add(workernode.RegisterGrace)
	told := 0
	for _, s := range wantSteps(t, f).Steps {
		if s.Action != Mirror {
			continue
		}
		for i := range f.Pods {
			if f.Pods[i].Name == s.Pod.Name && s.Reason == "Slurm doesn't know node "+s.Node {
				f.Pods[i].Status.Conditions = append(f.Pods[i].Status.Conditions, s.Side.Conditions...)
				told++
			}
		}
	}
	if told != len(f.Pods) {
		t.Errorf("%d of %d pods say that Slurm doesn't know them", told, len(f.Pods))
	}
	f.Now = f.Now.Add(registerPatience - time.Second)
	if p := wantSteps(t, f); p.Again > time.Second {
		t.Errorf("looks again in %s", p.Again)
	}
	f.Now = f.Now.Add(time.Second)
	p := wantSteps(t, f, "delete cpu-0: it is ready, but Slurm hasn't known node cpu-0 for 4m0s")
	if p.Steps[0].Event != v1beta1.EventNodeNotRegistered || !p.Steps[0].Failed {
		t.Errorf("step %+v", p.Steps[0])
	}
	f.Slurm = SlurmFacts{Why: "away"}
	wantSteps(t, f)
}

func TestCheck41ModeSwitch(t *testing.T) {
	f := facts(1).withPod("cpu-0", "IDLE").settled()
	f.Pods[0].Labels[v1beta1.LabelNodeSetScalingMode] = string(v1beta1.ScalingModeStatefulSet)
	f.NodeSet.Spec.ScalingMode = v1beta1.ScalingModeDaemonSet
	p := Make(f)
	if len(p.Steps) == 0 || p.Steps[0].Action != CreatePod || slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action == Drain }) {
		t.Fatalf("first come the new ones: %v", steps(p))
	}
	pod := *p.Steps[0].Pod
	f.Pods = append(f.Pods, pod)
	wantSteps(t, f, "drain cpu-0: pod slurm/cpu-0 is to be removed: it was made in another scaling mode")
}

func TestCheck42And43DaemonSetMode(t *testing.T) {
	f := daemons("a.example.com", "b.example.com")
	wantSteps(t, f)
	f.Nodes["c.example.com"] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c.example.com", Annotations: map[string]string{v1beta1.AnnotationHostnameOverride: "gpu-c"}}}
	p := Make(f)
	if len(steps(p)) != 1 || p.Steps[0].Action != CreatePod || p.Steps[0].Pod.Spec.Hostname != "gpu-c" || targetNode(p.Steps[0].Pod) != "c.example.com" {
		t.Fatalf("check 43: a new node: %v", steps(p))
	}
	for name, taint := range map[string]corev1.Taint{
		"NoSchedule": {Key: "x", Effect: corev1.TaintEffectNoSchedule}, "NoExecute": {Key: "x", Effect: corev1.TaintEffectNoExecute}} {
		f.Nodes["c.example.com"].Spec.Taints = []corev1.Taint{taint}
		if got := steps(Make(f)); len(got) > 0 {
			t.Errorf("check 42: with the taint %s: %v", name, got)
		}
	}
	delete(f.Nodes, "c.example.com")

	f.Nodes["a.example.com"].Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoExecute}}
	name := f.Pods[0].Name
	wantSteps(t, f, "drain a: pod slurm/"+name+" is to be removed: Kubernetes node a.example.com: its taint x:NoExecute isn't tolerated")
	f.Nodes["a.example.com"].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	wantSteps(t, f)
	f.Nodes["a.example.com"].Spec.Taints = nil
	f.Nodes["a.example.com"].Annotations[v1beta1.AnnotationHostnameOverride] = "a-new"
	p = wantSteps(t, f, "drain a: pod slurm/"+name+" is to be removed: its host name is to be a-new, not a")
	if p.Status.Desired != 2 {
		t.Errorf("desired %d", p.Status.Desired)
	}
}

func TestCheck44Prune(t *testing.T) {
	f := daemons("a", "b")
	f.NodeSet.Spec.PruneSlurmNodeRecords = v1beta1.PruneNodeNotFound
	record := func(name, uid string, states ...string) {
		mark, err := json.Marshal(workernode.Mark{Namespace: "slurm", PodName: "cpu-x", Node: name, NodeSet: "cpu", NodeSetUID: uid})
		if err != nil {
			t.Fatal(err)
		}
		f.Slurm.Nodes[name] = slurm.Node{Name: name, Comment: string(mark), States: slurm.StatesOf(states...)}
	}
	record("gone", "set", slurm.NodeDown, slurm.NodeNotResponding)
	record("other", "another", slurm.NodeDown, slurm.NodeNotResponding)
	record("down", "set", slurm.NodeDown)
	record("answers", "set", slurm.NodeIdle)
	f.Slurm.Nodes["foreign"] = slurm.Node{Name: "foreign", States: slurm.StatesOf(slurm.NodeDown, slurm.NodeNotResponding)}
	f.Nodes["tainted"] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "tainted"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoExecute}}}}
	record("tainted", "set", slurm.NodeDown, slurm.NodeNotResponding)
	wantSteps(t, f, "forget gone: Kubernetes node gone is gone")
	f.NodeSet.Spec.PruneSlurmNodeRecords = v1beta1.PruneNever
	wantSteps(t, f)
}

// TestCheck44PruneOrdinals: in StatefulSet mode a record goes whose pod won't come back.
func TestCheck44PruneOrdinals(t *testing.T) {
	f := facts(2).withPod("cpu-0", "IDLE").settled()
	f.NodeSet.Spec.PruneSlurmNodeRecords = v1beta1.PruneNodeNotFound
	f.NotBefore = map[string]time.Time{"1": f.Now.Add(time.Hour)} // its pod doesn't come now
	record := func(name, uid string, states ...string) {
		mark, err := json.Marshal(workernode.Mark{Namespace: "slurm", PodName: name, Node: "k", NodeSet: "cpu", NodeSetUID: uid})
		if err != nil {
			t.Fatal(err)
		}
		f.Slurm.Nodes[name] = slurm.Node{Name: name, Comment: string(mark), States: slurm.StatesOf(states...)}
	}
	own := string(f.NodeSet.UID)
	record("cpu-1", own, slurm.NodeDown, slurm.NodeNotResponding) // its pod comes back
	record("cpu-2", own, slurm.NodeDown, slurm.NodeNotResponding)
	record("cpu-3", "another", slurm.NodeDown, slurm.NodeNotResponding)
	record("cpu-4", own, slurm.NodeDown)
	record("cpu-5", own, slurm.NodeIdle, slurm.NodeNotResponding)
	record("cpu-6", own, slurm.NodeDown, slurm.NodeNotResponding, slurm.NodeCompleting)
	record("renamed", own, slurm.NodeDown, slurm.NodeNotResponding)
	f.Slurm.Nodes["cpu-7"] = slurm.Node{Name: "cpu-7", States: slurm.StatesOf(slurm.NodeDown, slurm.NodeNotResponding)}
	wantSteps(t, f, "forget cpu-2: its pod is gone, and none of its name is to come",
		"forget renamed: its pod is gone, and none of its name is to come")
	unknown := f
	unknown.Slurm.Known = false
	if p := Make(unknown); slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action == Forget }) {
		t.Errorf("forgotten without Slurm's answer: %v", steps(p))
	}
	f.NodeSet.Spec.PruneSlurmNodeRecords = v1beta1.PruneNever
	wantSteps(t, f)
}

func TestCheck45Duplicates(t *testing.T) {
	f := daemons("a")
	second := *f.Pods[0].DeepCopy()
	second.Name, second.UID = "cpu-aaaaa", "second"
	second.Status.Conditions = nil
	f.Pods = append(f.Pods, second)
	p := Make(f)
	for _, s := range p.Steps {
		if s.Pod != nil && s.Pod.Name == f.Pods[0].Name && s.Action == DeletePod {
			t.Errorf("the ready one goes: %s", s)
		}
	}
	if !slices.ContainsFunc(p.Steps, func(s Step) bool { return strings.Contains(s.Reason, "pod slurm/cpu-aaaaa is to be removed") }) {
		t.Errorf("the one that isn't ready stays: %v", steps(p))
	}
}

func TestCheck46LostOnACordonedNode(t *testing.T) {
	f := daemons("a", "b")
	f.Nodes["a"].Spec.Unschedulable = true
	f.Nodes["a"].Spec.Taints = []corev1.Taint{*unschedulable()}
	name := f.Pods[0].Name
	f.Pods = f.Pods[1:]
	p := Make(f)
	if len(p.Steps) == 0 || p.Steps[0].Action != CreatePod || p.Steps[0].Pod.Name != name {
		t.Fatalf("a worker that was lost: %v", steps(p))
	}
	if !slices.ContainsFunc(p.Steps[0].Pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == corev1.TaintNodeUnschedulable }) {
		t.Error("its pod can't be scheduled")
	}
	delete(f.Slurm.Nodes, "a")
	wantSteps(t, f) // one that never was gets no worker
}
