package operator

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/slurm"
)

// queueSlurm is a Slurm cluster with jobs that wait.
type queueSlurm struct {
	*fakeSlurm
	jobs []slurm.Job
}

func (q *queueSlurm) set(jobs ...slurm.Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs = jobs
}

func (q *queueSlurm) JobStates(context.Context) (out []slurm.JobState, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		out = append(out, slurm.JobState{ID: j.ID, States: j.States})
	}
	return out, nil
}

func (q *queueSlurm) Job(_ context.Context, id uint32) (slurm.Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return slurm.Job{}, &slurm.Error{Kind: slurm.ErrNotFound, Op: "get job"}
}

func (q *queueSlurm) CreateNode(_ context.Context, n slurm.NodeCreate) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.nodes[n.Name] = slurm.Node{Name: n.Name, States: slurm.StatesOf("FUTURE"), CPUs: n.CPUs, Threads: 1, RealMemory: n.RealMemory, Features: n.Features, GRES: n.GRES}
	return nil
}

func (q *queueSlurm) UpdateNode(_ context.Context, name string, u slurm.NodeUpdate) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.nodes[name]
	n.States, n.Reason = slurm.StatesOf(u.State), u.Reason
	q.nodes[name] = n
	return nil
}

func (q *queueSlurm) names() (out []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, n := range q.nodes {
		out = append(out, name+" "+n.States.String())
	}
	slices.Sort(out)
	return out
}

// scaleSuite is one cluster with one NodeSet that follows its jobs.
type scaleSuite struct {
	*suite
	scaler   *autoscaler
	clusters *observe.Clusters
	queue    *queueSlurm
	events   *events.FakeRecorder
	key      types.NamespacedName
}

func (s *suite) testAutoscaler(t *testing.T) {
	c, err := client.New(s.operatorConfig(), client.Options{Scheme: s.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	a := &scaleSuite{suite: s, queue: &queueSlurm{fakeSlurm: &fakeSlurm{nodes: map[string]slurm.Node{}}}, events: events.NewFakeRecorder(100),
		key: types.NamespacedName{Namespace: "autoscaling", Name: "slurm"}}
	a.clusters = observe.NewClusters(func(string, []byte) (slurm.Client, error) { return a.queue, nil }, func(types.NamespacedName) {})
	a.scaler = newAutoscaler(&shared{Client: c, now: time.Now, clusters: a.clusters}, a.events)
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.key.Namespace}})
	controller := &v1beta1.Controller{ObjectMeta: metav1.ObjectMeta{Namespace: a.key.Namespace, Name: a.key.Name}}
	key := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Key: "key"}
	controller.Spec.SlurmKeyRef, controller.Spec.JwtKeyRef = key, key
	s.create(t, controller)
	three := int32(3)
	n := &v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Namespace: a.key.Namespace, Name: "gpu"}}
	n.Spec.ControllerRef.Name, n.Spec.Partition.Enabled, n.Spec.Replicas = a.key.Name, true, new(int32)
	n.Spec.Autoscaling = &v1beta1.NodeSetAutoscaling{MaxReplicas: three, Capacity: &v1beta1.NodeSetCapacity{CPUs: 4, Gres: "gpu:a100:2", Features: []string{"nvlink"}}}
	s.create(t, n)

	t.Run("an unknown Slurm changes nothing", func(t *testing.T) {
		a.reconcile(t)
		a.want(t, 0, "False", v1beta1.ReasonSlurmUnknown, "stays as it is")
	})
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() { _ = a.clusters.Start(ctx) }()
	if err := a.clusters.Use(a.key, "http://slurm", nil, time.Time{}); err != nil {
		t.Fatal(err)
	}
	a.known(t)
	t.Run("Slurm shows what could be started", a.testSpares)
	t.Run("jobs bring workers, with one write", a.testGrow)
	t.Run("a HorizontalPodAutoscaler goes first", a.testOther)
	t.Run("without the field nothing is left", a.testStop)
	t.Run("what can't work is refused", a.testRefusedAutoscaling)
}

func (a *scaleSuite) known(t *testing.T) {
	t.Helper()
	a.eventually(t, func() bool { return a.clusters.View(a.key, time.Minute).Known }, "Slurm is known")
}

func (a *scaleSuite) reconcile(t *testing.T) {
	t.Helper()
	if _, err := a.scaler.Reconcile(t.Context(), ctrl.Request{NamespacedName: a.key}); err != nil {
		t.Fatal(err)
	}
}

func (a *scaleSuite) nodeSet(t *testing.T) *v1beta1.NodeSet {
	t.Helper()
	n := &v1beta1.NodeSet{}
	a.get(t, a.key.Namespace, "gpu", n)
	return n
}

func (a *scaleSuite) want(t *testing.T, replicas int32, status, reason, message string) {
	t.Helper()
	n := a.nodeSet(t)
	c := meta.FindStatusCondition(n.Status.Conditions, v1beta1.ConditionAutoscaling)
	if c == nil || string(c.Status) != status || c.Reason != reason || !strings.Contains(c.Message, message) || *n.Spec.Replicas != replicas {
		t.Errorf("%d workers and %+v, want %d and %s, %s: ...%s...", *n.Spec.Replicas, c, replicas, status, reason, message)
	}
}

func (a *scaleSuite) testSpares(t *testing.T) {
	a.reconcile(t)
	a.want(t, 0, "True", v1beta1.ReasonSteady, "no waiting job needs another worker")
	want := []string{"gpu_spare0 DOWN", "gpu_spare1 DOWN", "gpu_spare2 DOWN"}
	if got := a.queue.names(); !slices.Equal(got, want) {
		t.Errorf("nodes %v, want %v", got, want)
	}
	node, _ := a.queue.Node(t.Context(), "gpu_spare0")
	if node.GRES != "gpu:a100:2" || !slices.Equal(node.Features, []string{"gpu", "nvlink"}) || node.CPUs != 4 {
		t.Errorf("the node is %+v", node)
	}
}

func (a *scaleSuite) testGrow(t *testing.T) {
	job := slurm.Job{ID: 7, SLUID: "s7", Partition: "gpu", States: slurm.StatesOf(slurm.JobPending), Reason: "Resources", Priority: slurm.NumberOf(1),
		SubmitTime: time.Now(), TRESRequested: "cpu=2,node=2", Tasks: slurm.NumberOf(2), Asked: slurm.JobAsks{TRESPerNode: "gres/gpu:2", Constraints: "nvlink"}}
	a.queue.set(job)
	a.eventually(t, func() bool { return len(a.clusters.Jobs(a.key)) == 1 }, "the job is seen")
	a.reconcile(t)
	a.want(t, 2, "True", v1beta1.ReasonScalingUp, "1 waiting job needs 2 more workers: scaling from 0 to 2")
	owner := ""
	for _, f := range a.nodeSet(t).ManagedFields {
		if f.Subresource == "scale" {
			owner = f.Manager
		}
	}
	if owner != v1beta1.AutoscalerFieldOwner {
		t.Errorf("spec.replicas belongs to %q", owner)
	}
	a.reconcile(t) // says that they start
	a.want(t, 2, "True", v1beta1.ReasonSteady, "1 waiting job needs workers that are starting")
	before := a.writes.Load()
	for range 5 {
		a.reconcile(t)
	}
	if n := a.writes.Load() - before; n != 0 {
		t.Errorf("%d writes without a change, the last %v", n, a.lastWrite.Load())
	}
	if got := a.queue.names(); !slices.Equal(got, []string{"gpu_spare0 DOWN"}) {
		t.Errorf("nodes %v beside two workers, want one spare", got)
	}
}

func (a *scaleSuite) testOther(t *testing.T) {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: a.key.Namespace, Name: "theirs"}}
	hpa.Spec.MaxReplicas = 5
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindNodeSet, Name: "gpu"}
	a.create(t, hpa)
	a.queue.set()
	a.eventually(t, func() bool { return len(a.clusters.Jobs(a.key)) == 0 }, "the job is gone")
	a.reconcile(t)
	a.want(t, 2, "False", v1beta1.ReasonOtherAutoscaler, "HorizontalPodAutoscaler theirs")
	if err := a.admin.Delete(t.Context(), hpa); err != nil {
		t.Fatal(err)
	}
	a.reconcile(t)
	a.want(t, 2, "True", v1beta1.ReasonSteady, "no waiting job needs another worker")
}

func (a *scaleSuite) testStop(t *testing.T) {
	n := a.nodeSet(t)
	n.Spec.Autoscaling = nil
	if err := a.admin.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	a.reconcile(t)
	a.reconcile(t)
	n = a.nodeSet(t)
	if c := meta.FindStatusCondition(n.Status.Conditions, v1beta1.ConditionAutoscaling); c != nil || *n.Spec.Replicas != 2 {
		t.Errorf("%d workers and %+v are left", *n.Spec.Replicas, c)
	}
	if got := a.queue.names(); len(got) > 0 {
		t.Errorf("nodes %v are left", got)
	}
}

func (a *scaleSuite) testRefusedAutoscaling(t *testing.T) {
	for message, change := range map[string]func(*v1beta1.NodeSet){
		"minReplicas can't be more than maxReplicas": func(n *v1beta1.NodeSet) {
			two := int32(2)
			n.Spec.Autoscaling = &v1beta1.NodeSetAutoscaling{MinReplicas: &two, MaxReplicas: 1}
		},
		"autoscaling sets replicas, which have no effect with scalingMode DaemonSet": func(n *v1beta1.NodeSet) {
			n.Spec.ScalingMode, n.Spec.Autoscaling = v1beta1.ScalingModeDaemonSet, &v1beta1.NodeSetAutoscaling{MaxReplicas: 1}
		},
		"maxReplicas": func(n *v1beta1.NodeSet) { n.Spec.Autoscaling = &v1beta1.NodeSetAutoscaling{} },
		"must be a duration of at least 10s": func(n *v1beta1.NodeSet) {
			n.Spec.Autoscaling = &v1beta1.NodeSetAutoscaling{MaxReplicas: 1, IdleTime: &metav1.Duration{Duration: time.Second}}
		},
		"spec.autoscaling.capacity.gres": func(n *v1beta1.NodeSet) {
			n.Spec.Autoscaling = &v1beta1.NodeSetAutoscaling{MaxReplicas: 1, Capacity: &v1beta1.NodeSetCapacity{Gres: "gpu:1 State=IDLE"}}
		},
	} {
		n := &v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Namespace: a.key.Namespace, Name: "refused"}}
		n.Spec.ControllerRef.Name = a.key.Name
		change(n)
		if err := a.admin.Create(t.Context(), n); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v", message, err)
		}
	}
}
