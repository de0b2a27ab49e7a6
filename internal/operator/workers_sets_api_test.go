package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/slurm"
)

// testNodeSets runs NodeSets under the operator's role, with a Slurm and kubelets that are played.
func (s *suite) testNodeSets(t *testing.T) {
	q := s.newSets(t, "nodesets")
	t.Run("check 39: claims go with whom the policy says", q.testClaims)
	t.Run("an orphan is adopted", q.testOrphan)
	t.Run("revisions", q.testRevisions)
	t.Run("the drain finalizer comes with jobs and goes with them", q.testDrainFinalizer)
	t.Run("deletionDrainTimeout", q.testDeletion)
	t.Run("check 37: a reservation holds its NodeSet", q.testReservation)
	t.Run("registrationLimit", q.testRegistrationLimit)
	t.Run("a pod that is refused keeps no other waiting", q.testRefusedPod)
	t.Run("checks 41 and 42: from ordinals to one for each node", q.testModes)
}

func rawObject(text string, args ...any) v1beta1.RawObject {
	return v1beta1.RawObject{JSON: fmt.Appendf(nil, text, args...)}
}

func (q *setSuite) testClaims(t *testing.T) {
	const template = `{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`
	for _, tc := range []struct {
		name                    string
		deleted, scaled         v1beta1.ClaimRetention
		wantStaying, wantScaled string
	}{
		{"keep", v1beta1.ClaimRetain, v1beta1.ClaimRetain, "", ""},
		{"scaled", v1beta1.ClaimRetain, v1beta1.ClaimDelete, "", "Pod scaled-1"},
		{"deleted", v1beta1.ClaimDelete, v1beta1.ClaimRetain, "NodeSet deleted", "NodeSet deleted"},
		{"both", v1beta1.ClaimDelete, v1beta1.ClaimDelete, "NodeSet both", "Pod both-1"},
	} {
		q.add(t, tc.name, 2, func(n *v1beta1.NodeSet) {
			n.Spec.VolumeClaimTemplates = []v1beta1.RawObject{rawObject(template)}
			n.Spec.PersistentVolumeClaimRetentionPolicy = v1beta1.ClaimRetentionPolicy{WhenDeleted: tc.deleted, WhenScaled: tc.scaled}
		})
		q.reconcile(t, tc.name, 1)
		q.wantPods(t, tc.name, tc.name+"-0", tc.name+"-1")
		if v := q.pods(t, tc.name)[1].Spec.Volumes; !slices.ContainsFunc(v, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "data-"+tc.name+"-1"
		}) {
			t.Errorf("%s: volumes %+v", tc.name, v)
		}
		q.wantOwners(t, tc.name, tc.wantStaying, tc.wantStaying)

		q.ready(t, tc.name, slurm.NodeAllocated)
		q.change(t, tc.name, func(n *v1beta1.NodeSet) { n.Spec.Replicas = new(int32(1)) })
		q.reconcile(t, tc.name, 2)
		q.wantPods(t, tc.name, tc.name+"-0", tc.name+"-1") // its job runs
		q.wantOwners(t, tc.name, tc.wantStaying, tc.wantScaled)
		q.change(t, tc.name, func(n *v1beta1.NodeSet) { n.Spec.Replicas = new(int32(2)) })
		q.reconcile(t, tc.name, 2)
		q.wantOwners(t, tc.name, tc.wantStaying, tc.wantStaying)
	}
}

// wantOwners compares the owners of the claims of the ordinals 0 and 1.
func (q *setSuite) wantOwners(t *testing.T, set string, want ...string) {
	t.Helper()
	for i := range want {
		claim := &corev1.PersistentVolumeClaim{}
		q.get(t, q.cluster.Namespace, fmt.Sprintf("data-%s-%d", set, i), claim)
		got := ""
		for _, o := range claim.OwnerReferences {
			got += o.Kind + " " + o.Name
		}
		if got != want[i] {
			t.Errorf("the claim of %s-%d belongs to %q, want %q", set, i, got, want[i])
		}
	}
}

func (q *setSuite) testOrphan(t *testing.T) {
	q.add(t, "orphan", 1, nil)
	q.reconcile(t, "orphan", 1)
	before := q.pods(t, "orphan")[0]
	pod := before.DeepCopy()
	pod.OwnerReferences = nil
	if err := q.admin.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	// Nobody's memory of what it made is right now.
	q.reconciler.written = observe.Written{}
	q.reconcile(t, "orphan", 2)
	q.wantPods(t, "orphan", "orphan-0")
	after := q.pods(t, "orphan")[0]
	if after.UID != before.UID || !metav1.IsControlledBy(&after, q.nodeSet(t, "orphan")) {
		t.Errorf("pod %s of %v became %s of %v", before.UID, before.OwnerReferences, after.UID, after.OwnerReferences)
	}
}

func (q *setSuite) testRevisions(t *testing.T) {
	q.add(t, "revs", 0, func(n *v1beta1.NodeSet) { n.Spec.RevisionHistoryLimit = 1 })
	weight := func(w int) {
		t.Helper()
		q.change(t, "revs", func(n *v1beta1.NodeSet) { n.Spec.ExtraConf = fmt.Sprintf("Weight=%d", w) })
		q.reconcile(t, "revs", 2)
	}
	for w := range 4 {
		weight(w + 1)
	}
	kept := q.revisions(t)
	if len(kept) != 2 || kept[1].Revision-kept[0].Revision != 1 {
		t.Fatalf("of four revisions are kept %v", kept)
	}
	weight(3)
	back := q.revisions(t)
	if len(back) != 2 || back[1].Name != kept[0].Name || back[1].Revision <= kept[1].Revision || back[0].Name != kept[1].Name {
		t.Errorf("a rollback made %v of %v", back, kept)
	}
	if hash := q.nodeSet(t, "revs").Status.NodeSetHash; hash != back[1].Labels[v1beta1.LabelRevisionHash] {
		t.Errorf("the status has hash %s, the revision %s", hash, back[1].Labels[v1beta1.LabelRevisionHash])
	}
}

// revisions are those of a NodeSet, the newest last.
func (q *setSuite) revisions(t *testing.T) []appsv1.ControllerRevision {
	t.Helper()
	var list appsv1.ControllerRevisionList
	if err := q.admin.List(t.Context(), &list, client.InNamespace(q.cluster.Namespace), client.MatchingLabels(nodeset.Selector("revs"))); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

func (q *setSuite) testDrainFinalizer(t *testing.T) {
	q.add(t, "busy", 1, nil)
	q.reconcile(t, "busy", 1)
	q.ready(t, "busy", slurm.NodeIdle)
	for _, tc := range []struct {
		state string
		want  bool
	}{{slurm.NodeIdle, false}, {slurm.NodeMixed, true}, {slurm.NodeIdle, false}} {
		q.hasNode(t, "busy-0", tc.state)
		q.reconcile(t, "busy", 1)
		if f := q.nodeSet(t, "busy").Finalizers; slices.Contains(f, v1beta1.FinalizerDrain) != tc.want {
			t.Errorf("with a node that is %s the finalizers are %v", tc.state, f)
		}
	}
}

func (q *setSuite) testDeletion(t *testing.T) {
	q.add(t, "gone", 2, func(n *v1beta1.NodeSet) { n.Spec.DeletionDrainTimeout = &metav1.Duration{Duration: time.Hour} })
	q.reconcile(t, "gone", 1)
	q.ready(t, "gone", slurm.NodeAllocated)
	q.reconcile(t, "gone", 1)
	if err := q.admin.Delete(t.Context(), q.nodeSet(t, "gone")); err != nil {
		t.Fatal(err)
	}
	q.reconcile(t, "gone", 2)
	q.wantPods(t, "gone", "gone-0", "gone-1")
	for _, name := range []string{"gone-0", "gone-1"} {
		if n := q.slurm.get(name); !n.States.Has(slurm.NodeDrain) || !strings.HasPrefix(n.Reason, v1beta1.OperatorReasonPrefix) {
			t.Errorf("node %s is %v, %q", name, n.States, n.Reason)
		}
	}
	q.hasNode(t, "gone-0", slurm.NodeIdle, slurm.NodeDrain)
	q.reconcile(t, "gone", 1)
	q.wantPods(t, "gone", "gone-1")
	q.ahead = time.Hour
	defer func() { q.ahead = 0 }()
	q.reconcile(t, "gone", 1)
	q.wantPods(t, "gone")
	q.hasNode(t, "gone-1", slurm.NodeIdle, slurm.NodeDrain)
	q.reconcile(t, "gone", 3)
	if err := q.admin.Get(t.Context(), q.key("gone"), &v1beta1.NodeSet{}); !apierrors.IsNotFound(err) {
		t.Errorf("the NodeSet is still there: %v", err)
	}
	if n := q.slurm.get("gone-1"); n.Name != "" {
		t.Errorf("Slurm's record is still there: %v", n.States)
	}
}

func (q *setSuite) testReservation(t *testing.T) {
	start := metav1.NewTime(time.Now().Add(24 * time.Hour).Truncate(time.Second))
	q.add(t, "held", 1, func(n *v1beta1.NodeSet) {
		n.Spec.UpdateStrategy = v1beta1.NodeSetUpdateStrategy{Type: v1beta1.UpdateScheduled, ScheduledUpdate: &v1beta1.ScheduledUpdate{StartTime: &start}}
	})
	q.reconcile(t, "held", 1)
	q.ready(t, "held", slurm.NodeIdle)
	q.reconcile(t, "held", 1)
	n := q.nodeSet(t, "held")
	name := nodeset.ReservationName(n)
	if r, err := q.slurm.Reservation(t.Context(), name); err != nil || !r.StartTime.Equal(start.Time) || r.Nodes != "held-0" {
		t.Errorf("reservation %+v, %v", r, err)
	}
	if !slices.Contains(n.Finalizers, v1beta1.FinalizerReservation) {
		t.Errorf("finalizers are %v", n.Finalizers)
	}
	q.wantCondition(t, n.Status.Conditions, v1beta1.ConditionReservationCreated, "True", name)
	writes := q.writes.Load()
	q.reconcile(t, "held", 5)
	if n := q.writes.Load() - writes; n != 0 {
		t.Errorf("%d writes without a change, the last %v", n, q.lastWrite.Load())
	}
	if err := q.admin.Delete(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	q.reconcile(t, "held", 2)
	if _, err := q.slurm.Reservation(t.Context(), name); err == nil {
		t.Error("the reservation outlives its NodeSet")
	}
	if err := q.admin.Get(t.Context(), q.key("held"), &v1beta1.NodeSet{}); !apierrors.IsNotFound(err) {
		t.Errorf("the NodeSet is still there: %v", err)
	}
}

func (q *setSuite) testRegistrationLimit(t *testing.T) {
	q.add(t, "limit", 5, func(n *v1beta1.NodeSet) { n.Spec.RegistrationLimit = new(int32(2)) })
	q.reconcile(t, "limit", 3)
	q.wantPods(t, "limit", "limit-0", "limit-1")
	q.ready(t, "limit", slurm.NodeIdle)
	q.reconcile(t, "limit", 3)
	q.wantPods(t, "limit", "limit-0", "limit-1", "limit-2", "limit-3")
}

// refuse lets the API server refuse a pod by its name, as a policy of an administrator's does.
func (q *setSuite) refuse(t *testing.T, name string) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "refuse-" + name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}}}},
		Validations: []admissionv1.Validation{{Expression: "object.metadata.name != '" + name + "'", Message: "not this one"}},
	}}
	q.create(t, policy)
	q.create(t, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: q.cluster.Namespace, Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
	q.eventually(t, func() bool {
		err := q.admin.Create(t.Context(), pod.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "not this one")
	}, "the policy works")
}

func (q *setSuite) testRefusedPod(t *testing.T) {
	q.refuse(t, "bad-0")
	q.add(t, "bad", 4, nil)
	if _, err := q.try(t, "bad"); err == nil || !strings.Contains(err.Error(), "not this one") {
		t.Errorf("got %v", err)
	}
	q.wantPods(t, "bad", "bad-1", "bad-2", "bad-3")
	q.wantCondition(t, q.nodeSet(t, "bad").Status.Conditions, v1beta1.ConditionDegraded, "True", "not this one")
	q.change(t, "bad", func(n *v1beta1.NodeSet) { n.Spec.Replicas = new(int32(6)) })
	if _, err := q.try(t, "bad"); err != nil {
		t.Errorf("the slot is tried again at once: %v", err)
	}
	q.wantPods(t, "bad", "bad-1", "bad-2", "bad-3", "bad-4", "bad-5")
	q.ahead = 2 * time.Second
	defer func() { q.ahead = 0 }()
	if _, err := q.try(t, "bad"); err == nil || !strings.Contains(err.Error(), "not this one") {
		t.Errorf("the slot is never tried again: %v", err)
	}
}

func (q *setSuite) testModes(t *testing.T) {
	node := func(name, hostname string) {
		t.Helper()
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "modes"}}}
		if hostname != "" {
			n.Annotations = map[string]string{v1beta1.AnnotationHostnameOverride: hostname}
		}
		q.readyNode(t, n)
		sets, err := q.reconciler.onNode(t.Context(), n)
		if q.nodeSet(t, "modes").Spec.ScalingMode == v1beta1.ScalingModeDaemonSet && (err != nil || !slices.Contains(sets, q.key("modes"))) {
			t.Errorf("node %s matters to %v, %v", name, sets, err)
		}
	}
	q.add(t, "modes", 1, func(n *v1beta1.NodeSet) { n.Spec.Template.PodSpec = rawObject(`{"nodeSelector":{"pool":"modes"}}`) })
	q.reconcile(t, "modes", 1)
	q.ready(t, "modes", slurm.NodeAllocated)
	node("m1.example.com", "")
	q.change(t, "modes", func(n *v1beta1.NodeSet) { n.Spec.ScalingMode = v1beta1.ScalingModeDaemonSet })
	q.reconcile(t, "modes", 2)
	if pods := q.pods(t, "modes"); len(pods) != 2 {
		t.Fatalf("%d pods: want the old one, whose job runs, and the new one", len(pods))
	}
	if n := q.slurm.get("modes-0"); !n.States.Has(slurm.NodeDrain) {
		t.Errorf("node is %v", n.States)
	}
	q.hasNode(t, "modes-0", slurm.NodeIdle, slurm.NodeDrain)
	q.reconcile(t, "modes", 2)
	node("m2.example.com", "other")
	q.reconcile(t, "modes", 1)
	got := map[string]string{}
	for _, pod := range q.pods(t, "modes") {
		affinity := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		got[affinity.NodeSelectorTerms[0].MatchFields[0].Values[0]] = pod.Spec.Hostname
	}
	if len(got) != 2 || got["m1.example.com"] != "m1" || got["m2.example.com"] != "other" {
		t.Errorf("host names by node: %v", got)
	}
}

func (q *setSuite) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: q.cluster.Namespace, Name: name}
}

// readyNode makes a Kubernetes node that is ready. The API server gives a new one a taint.
func (s *suite) readyNode(t *testing.T, n *corev1.Node) {
	t.Helper()
	s.create(t, n)
	n.Spec.Taints = nil
	if err := s.admin.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// testNewNode: a running operator serves a new Kubernetes node long before it looks by itself.
func (s *suite) testNewNode(t *testing.T) {
	n := &v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: "each"}}
	n.Spec.ControllerRef.Name, n.Spec.ScalingMode = "slurm", v1beta1.ScalingModeDaemonSet
	n.Spec.Template.PodSpec = rawObject(`{"nodeSelector":{"pool":"check43"}}`)
	s.create(t, n)
	key := client.ObjectKeyFromObject(n)
	s.eventually(t, func() bool {
		live := &v1beta1.NodeSet{}
		s.get(t, key.Namespace, key.Name, live)
		return live.Status.ObservedGeneration == live.Generation
	}, "NodeSet each is looked at")
	begin := time.Now()
	s.readyNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: map[string]string{"pool": "check43"}}})
	s.eventually(t, func() bool {
		var pods corev1.PodList
		if err := s.admin.List(t.Context(), &pods, client.InNamespace("slurm"), client.MatchingLabels(nodeset.Selector("each"))); err != nil {
			t.Fatal(err)
		}
		return len(pods.Items) == 1
	}, "the new node has a worker")
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("after %s", took)
	}
}
