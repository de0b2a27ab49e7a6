package operator

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/slurm"
)

// reservingSlurm is a Slurm cluster that has reservations and jobs, too.
type reservingSlurm struct {
	*fakeSlurm
	resMu        sync.Mutex
	reservations map[string]slurm.Reservation
	jobs         []slurm.Job
}

func (f *reservingSlurm) Jobs(context.Context) ([]slurm.Job, error) {
	f.resMu.Lock()
	defer f.resMu.Unlock()
	return f.jobs, nil
}

func (f *reservingSlurm) Job(_ context.Context, id uint32) (slurm.Job, error) {
	f.resMu.Lock()
	defer f.resMu.Unlock()
	for _, j := range f.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return slurm.Job{}, &slurm.Error{Kind: slurm.ErrNotFound, Op: "get job"}
}

func (f *reservingSlurm) JobStates(context.Context) (out []slurm.JobState, _ error) {
	f.resMu.Lock()
	defer f.resMu.Unlock()
	for _, j := range f.jobs {
		out = append(out, slurm.JobState{ID: j.ID, States: j.States})
	}
	return out, nil
}

func (f *reservingSlurm) Reservations(context.Context) (out []slurm.Reservation, _ error) {
	f.resMu.Lock()
	defer f.resMu.Unlock()
	for _, r := range f.reservations {
		out = append(out, r)
	}
	return out, nil
}

func (f *reservingSlurm) Reservation(_ context.Context, name string) (slurm.Reservation, error) {
	f.resMu.Lock()
	defer f.resMu.Unlock()
	r, ok := f.reservations[name]
	if !ok {
		return r, &slurm.Error{Kind: slurm.ErrNotFound, Op: "get reservation " + name}
	}
	return r, nil
}

func (f *reservingSlurm) CreateReservation(_ context.Context, r slurm.ReservationRequest) error {
	f.resMu.Lock()
	defer f.resMu.Unlock()
	minutes, _ := r.Duration.Get()
	f.reservations[r.Name] = slurm.Reservation{Name: r.Name, Nodes: r.Nodes[0], Flags: r.Flags, Users: r.Users,
		StartTime: r.StartTime, EndTime: r.StartTime.Add(time.Duration(minutes) * time.Minute)}
	return nil
}

func (f *reservingSlurm) UpdateReservation(context.Context, string, slurm.ReservationRequest) error {
	return nil
}

func (f *reservingSlurm) DeleteReservation(_ context.Context, name string) error {
	f.resMu.Lock()
	defer f.resMu.Unlock()
	delete(f.reservations, name)
	return nil
}

// setSuite is one cluster whose NodeSets are reconciled, and nothing else.
type setSuite struct {
	*suite
	reconciler *nodeSetReconciler
	clusters   *observe.Clusters
	slurm      *reservingSlurm
	cluster    types.NamespacedName
	// ahead is how much later than in reality it is for the reconciler.
	ahead time.Duration
}

// newSets makes a namespace with a Controller, whose Slurm answers.
func (s *suite) newSets(t *testing.T, namespace string) *setSuite {
	t.Helper()
	c, err := client.New(s.operatorConfig(), client.Options{Scheme: s.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	q := &setSuite{suite: s, cluster: types.NamespacedName{Namespace: namespace, Name: "slurm"},
		slurm: &reservingSlurm{fakeSlurm: &fakeSlurm{nodes: map[string]slurm.Node{}}, reservations: map[string]slurm.Reservation{}}}
	q.clusters = observe.NewClusters(func(string, []byte) (slurm.Client, error) { return q.slurm, nil }, func(types.NamespacedName) {})
	recorder := &events.FakeRecorder{}
	q.reconciler = &nodeSetReconciler{recorder: recorder, shared: &shared{
		Client: c, now: func() time.Time { return time.Now().Add(q.ahead) }, clusters: q.clusters,
		Options: Options{Images: cluster.ImagesOf("registry.example.com", "1"), ClusterDomain: "cluster.local"},
		applier: &act.Applier{Client: c, Recorder: recorder, FieldOwner: v1beta1.OperatorFieldOwner},
	}}
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	controller := &v1beta1.Controller{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "slurm"}}
	controller.Spec.SlurmKeyRef, controller.Spec.JwtKeyRef = secretKey("keys", "key"), secretKey("keys", "key")
	s.create(t, controller)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = q.clusters.Start(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	if err := q.clusters.Use(q.cluster, "http://slurm", nil, time.Time{}); err != nil {
		t.Fatal(err)
	}
	s.await(t, q.clusters, q.cluster, func(observe.View) bool { return true })
	return q
}

// add makes a NodeSet.
func (q *setSuite) add(t *testing.T, name string, replicas int32, change func(*v1beta1.NodeSet)) {
	t.Helper()
	n := &v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Namespace: q.cluster.Namespace, Name: name}}
	n.Spec.ControllerRef.Name, n.Spec.Replicas = q.cluster.Name, &replicas
	if change != nil {
		change(n)
	}
	q.create(t, n)
}

func (q *setSuite) nodeSet(t *testing.T, name string) *v1beta1.NodeSet {
	t.Helper()
	n := &v1beta1.NodeSet{}
	q.get(t, q.cluster.Namespace, name, n)
	return n
}

func (q *setSuite) change(t *testing.T, name string, change func(*v1beta1.NodeSet)) {
	t.Helper()
	n := q.nodeSet(t, name)
	change(n)
	if err := q.admin.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// reconcile looks at a NodeSet so often.
func (q *setSuite) reconcile(t *testing.T, name string, times int) {
	t.Helper()
	for range times {
		if _, err := q.try(t, name); err != nil {
			t.Fatalf("reconcile %s: %v", name, err)
		}
	}
}

func (q *setSuite) try(t *testing.T, name string) (ctrl.Result, error) {
	t.Helper()
	return q.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: q.cluster.Namespace, Name: name}})
}

func (q *setSuite) pods(t *testing.T, set string) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := q.admin.List(t.Context(), &list, client.InNamespace(q.cluster.Namespace), client.MatchingLabels(nodeset.Selector(set))); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (q *setSuite) wantPods(t *testing.T, set string, want ...string) {
	t.Helper()
	var got []string
	for _, pod := range q.pods(t, set) {
		got = append(got, pod.Name)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Fatalf("pods %v, want %v", got, want)
	}
}

// ready plays the kubelets and slurmds of all pods of a NodeSet.
func (q *setSuite) ready(t *testing.T, set string, states ...string) {
	t.Helper()
	pods := q.pods(t, set)
	for i := range pods {
		pod := &pods[i]
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		q.status(t, pod)
		q.hasNode(t, nodeset.SlurmNode(pod), states...)
	}
}

// hasNode changes the state of a node, and lets the operator see it.
func (q *setSuite) hasNode(t *testing.T, name string, states ...string) {
	t.Helper()
	q.slurm.set(name, states...)
	if _, known, err := q.clusters.View(q.cluster, time.Minute).Refresh(t.Context(), name); !known || err != nil {
		t.Fatalf("node %s is known: %v, %v", name, known, err)
	}
}
