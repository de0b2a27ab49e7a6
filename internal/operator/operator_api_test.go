package operator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
	"github.com/slinky-hpc/slinky/slurm"
)

// suite is what the tests against an API server share.
type suite struct {
	server *apitest.Server
	admin  client.Client
	// writes counts what the operator wrote.
	writes atomic.Int64
	// lastWrite is what was written last, to tell when there should have been nothing.
	lastWrite atomic.Value
	slurm     *fakeSlurm
}

func TestAPIServer(t *testing.T) {
	server := apitest.Start(t)
	ctrl.SetLogger(testr.New(t))
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(server.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{server: server, admin: admin, slurm: &fakeSlurm{nodes: map[string]slurm.Node{}}}
	server.Apply(t, "config", "rbac", "operator", "role.yaml")
	server.Bind(t, "slinky", "slurm-operator", "slurm-operator")
	t.Run("schema", s.testSchema)
	t.Run("keys", s.testKeys)
	t.Run("check 56: take over", s.testTakeOver)
	t.Run("example cluster", s.testExample)
	t.Run("login set", s.testLoginSet)
	t.Run("token", s.testToken)
	t.Run("checks 15 and 19: who is in control", s.testControl)
	t.Run("check 16: a ServiceMonitor whose kind comes later", s.testMonitor)
	t.Run("autoscaler", s.testAutoscaler)
	t.Run("no condition of another writer is lost", s.testLostUpdate)
	t.Run("NodeSets", s.testNodeSets)
	t.Run("snapshot", s.testSnapshot)
	t.Run("manager", s.testManager)
}

func (s *suite) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := s.admin.Create(t.Context(), o); err != nil {
		t.Fatalf("create %s: %v", o.GetName(), err)
	}
}

func (s *suite) get(t *testing.T, namespace, name string, out client.Object) {
	t.Helper()
	if err := s.admin.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, out); err != nil {
		t.Fatalf("get %T %s: %v", out, name, err)
	}
}

// operatorConfig acts under the operator's own role, and counts its writes.
func (s *suite) operatorConfig() *rest.Config {
	c := s.server.As("slinky", "slurm-operator")
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				s.writes.Add(1)
				s.lastWrite.Store(r.Method + " " + r.URL.Path)
			}
			return next.RoundTrip(r)
		})
	})
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reconcilers returns the operator's reconcilers without caches between them and the API server.
func (s *suite) reconcilers(t *testing.T) (all map[string]reconcile.Reconciler, clusters *observe.Clusters) {
	t.Helper()
	c, err := client.New(s.operatorConfig(), client.Options{Scheme: s.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	recorder := &events.FakeRecorder{}
	clusters = observe.NewClusters(func(string, []byte) (slurm.Client, error) { return s.slurm, nil }, func(types.NamespacedName) {})
	sh := &shared{
		Client: c, now: time.Now, clusters: clusters,
		Options: Options{Images: cluster.ImagesOf("registry.example.com", "1"), ClusterDomain: "cluster.local"},
		applier: &act.Applier{Client: c, Recorder: recorder, FieldOwner: v1beta1.OperatorFieldOwner},
	}
	return map[string]reconcile.Reconciler{
		"controller": &controllerReconciler{sh}, "restapi": &restApiReconciler{sh},
		"accounting": &accountingReconciler{sh}, "nodeset": &nodeSetReconciler{shared: sh, recorder: recorder}, "token": &tokenReconciler{sh},
		"loginset": &loginSetReconciler{sh, recorder, newHostKeys()},
	}, clusters
}

// round reconciles all objects of the example cluster once.
func round(t *testing.T, all map[string]reconcile.Reconciler) {
	t.Helper()
	for _, r := range []struct{ kind, name string }{{"controller", "slurm"}, {"restapi", "slurm"}, {"nodeset", "cpu"}, {"accounting", "slurm"}} {
		_, err := all[r.kind].Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "slurm", Name: r.name}})
		if err != nil {
			t.Fatalf("reconcile %s: %v", r.kind, err)
		}
	}
}

// snapshot maps what the operator keeps to its resource versions.
func (s *suite) snapshot(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, list := range []client.ObjectList{
		&corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.PodList{}, &policyv1.PodDisruptionBudgetList{},
		&appsv1.StatefulSetList{}, &appsv1.DeploymentList{}, &v1beta1.ControllerList{}, &v1beta1.RestApiList{}, &v1beta1.NodeSetList{}, &v1beta1.AccountingList{},
	} {
		if err := s.admin.List(t.Context(), list, client.InNamespace("slurm")); err != nil {
			t.Fatal(err)
		}
		for _, o := range items(t, list) {
			if o.GetName() != "kube-root-ca.crt" {
				out[strings.TrimPrefix(fmt.Sprintf("%T", o), "*")+" "+o.GetName()] = o.GetResourceVersion()
			}
		}
	}
	return out
}

func (s *suite) testExample(t *testing.T) {
	s.server.Apply(t, "examples", "slurm-cluster", "cluster.yaml")
	all, clusters := s.reconcilers(t)
	ctx, stop := context.WithCancel(context.Background())
	started := make(chan error, 1)
	go func() { started <- clusters.Start(ctx) }()
	defer func() { stop(); <-started }()

	round(t, all)
	c := &v1beta1.Controller{}
	s.get(t, "slurm", "slurm", c)
	s.wantCondition(t, c.Status.Conditions, v1beta1.ConditionDegraded, "True", `no key "slurm.key" in a Secret "slurm-auth-slurm"`)

	for name, key := range map[string]string{"slurm-auth-slurm": "slurm.key", "slurm-auth-jwt": "jwt.key"} {
		s.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: name}, Data: map[string][]byte{key: []byte("secret")}})
	}
	round(t, all)
	round(t, all)
	s.wantObjects(t)
	t.Run("200 reconciles change nothing", func(t *testing.T) { s.testQuiet(t, all) })
	t.Run("ready", func(t *testing.T) { s.testReady(t, all) })
	t.Run("daemons that don't start", func(t *testing.T) { s.testTrouble(t, all) })
	t.Run("workers on both sides", func(t *testing.T) { s.testWorkers(t, all, clusters) })
	t.Run("scale-in", func(t *testing.T) { s.testScaleIn(t, all, clusters) })
	t.Run("drift is repaired", func(t *testing.T) { s.testDrift(t, all) })
	t.Run("a foreign object is left alone", func(t *testing.T) { s.testForeign(t, all) })
	t.Run("accounting", func(t *testing.T) { s.testAccounting(t, all) })
	t.Run("a change of the claim template", func(t *testing.T) { s.testClaimTemplate(t, all) })
	t.Run("bad input", func(t *testing.T) { s.testBadInput(t, all) })
}

func (s *suite) wantObjects(t *testing.T) {
	t.Helper()
	var got []string
	for name := range s.snapshot(t) {
		got = append(got, name)
	}
	slices.Sort(got)
	want := []string{
		"v1.ConfigMap slurm-config", "v1.ConfigMap slurm-files", "v1.Deployment slurm-restapi", "v1.Pod cpu-0", "v1.Pod cpu-1",
		"v1.PodDisruptionBudget slurm-workers-pdb-slurm", "v1.Secret slurm-auth-jwt", "v1.Secret slurm-auth-slurm", "v1.Secret slurm-slurm-keys",
		"v1.Service slurm-controller", "v1.Service slurm-controller-internal", "v1.Service slurm-restapi", "v1.Service slurm-workers-slurm",
		"v1.StatefulSet slurm-controller", "v1beta1.Controller slurm", "v1beta1.NodeSet cpu", "v1beta1.RestApi slurm",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func (s *suite) testQuiet(t *testing.T, all map[string]reconcile.Reconciler) {
	before := s.snapshot(t)
	writes := s.writes.Load()
	for range 200 {
		round(t, all)
	}
	if diff := cmp.Diff(before, s.snapshot(t)); diff != "" {
		t.Errorf("resource versions (-before +after):\n%s", diff)
	}
	if n := s.writes.Load() - writes; n != 0 {
		t.Errorf("%d writes, the last of them %v", n, s.lastWrite.Load())
	}
}

// testReady plays Kubernetes' controllers and kubelets, which aren't there.
func (s *suite) testReady(t *testing.T, all map[string]reconcile.Reconciler) {
	set := &appsv1.StatefulSet{}
	s.get(t, "slurm", "slurm-controller", set)
	set.Status = appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1}
	s.status(t, set)
	deployment := &appsv1.Deployment{}
	s.get(t, "slurm", "slurm-restapi", deployment)
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	s.status(t, deployment)
	for _, name := range []string{"cpu-0", "cpu-1"} {
		pod := &corev1.Pod{}
		s.get(t, "slurm", name, pod)
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		s.status(t, pod)
	}
	round(t, all)
	c, a, n := &v1beta1.Controller{}, &v1beta1.RestApi{}, &v1beta1.NodeSet{}
	s.get(t, "slurm", "slurm", c)
	s.get(t, "slurm", "slurm", a)
	s.get(t, "slurm", "cpu", n)
	s.wantCondition(t, c.Status.Conditions, v1beta1.ConditionReady, "True", "slurmctld answers")
	s.wantCondition(t, a.Status.Conditions, v1beta1.ConditionReady, "True", "slurmrestd answers at http://slurm-restapi.slurm:6820")
	s.wantCondition(t, n.Status.Conditions, v1beta1.ConditionReady, "True", "2 of 2 workers are ready")
	for _, conditions := range [][]metav1.Condition{c.Status.Conditions, a.Status.Conditions, n.Status.Conditions} {
		s.wantCondition(t, conditions, v1beta1.ConditionDegraded, "False", "")
		s.wantCondition(t, conditions, v1beta1.ConditionProgressing, "False", "")
	}
	if n.Status.ReadyReplicas != 2 || n.Status.Selector == "" || n.Status.ObservedGeneration != n.Generation {
		t.Errorf("status %+v", n.Status)
	}
}

func (s *suite) status(t *testing.T, o client.Object) {
	t.Helper()
	if err := s.admin.Status().Update(t.Context(), o); err != nil {
		t.Fatalf("status of %s: %v", o.GetName(), err)
	}
}

func (s *suite) wantCondition(t *testing.T, conditions []metav1.Condition, kind, status, message string) {
	t.Helper()
	for _, c := range conditions {
		if c.Type == kind {
			if string(c.Status) != status || !strings.Contains(c.Message, message) || c.ObservedGeneration == 0 {
				t.Errorf("condition %+v, want %s %s with %q", c, kind, status, message)
			}
			return
		}
	}
	t.Errorf("no condition %s in %+v", kind, conditions)
}

// testScaleIn goes through unknown, busy and drained.
func (s *suite) testScaleIn(t *testing.T, all map[string]reconcile.Reconciler, clusters *observe.Clusters) {
	name := types.NamespacedName{Namespace: "slurm", Name: "slurm"}
	scale := func(n int32) {
		set := &v1beta1.NodeSet{}
		s.get(t, "slurm", "cpu", set)
		set.Spec.Replicas = &n
		if err := s.admin.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	pods := func() []string {
		var list corev1.PodList
		if err := s.admin.List(t.Context(), &list, client.InNamespace("slurm")); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil {
				out = append(out, p.Name)
			}
		}
		return out
	}

	clusters.Drop(name)
	scale(1)
	if _, err := all["nodeset"].Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "slurm", Name: "cpu"}}); err != nil {
		t.Fatal(err)
	}
	if got := pods(); len(got) != 2 {
		t.Fatalf("without Slurm's answer a pod was deleted: %v", got)
	}

	s.slurm.set("cpu-0", slurm.NodeMixed)
	s.slurm.set("cpu-1", slurm.NodeAllocated)
	round(t, all) // connects
	s.await(t, clusters, name, func(v observe.View) bool { return len(v.Nodes) == 2 })
	round(t, all)
	if n := s.slurm.get("cpu-1"); !n.States.Has(slurm.NodeDrain) || !strings.HasPrefix(n.Reason, v1beta1.OperatorReasonPrefix) {
		t.Fatalf("node is %v, %q", n.States, n.Reason)
	}
	round(t, all)
	if got := pods(); len(got) != 2 {
		t.Fatalf("a pod with a job was deleted: %v", got)
	}
	s.slurm.set("cpu-1", slurm.NodeIdle, slurm.NodeDrain)
	s.await(t, clusters, name, func(v observe.View) bool { return v.Nodes["cpu-1"].States.Has(slurm.NodeIdle) })
	round(t, all)
	if diff := cmp.Diff([]string{"cpu-0"}, pods()); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	round(t, all)
	if n := s.slurm.get("cpu-1"); n.Name != "" {
		t.Errorf("the record of the removed worker is still there: %v", n.States)
	}
}

// await waits until the view of a cluster shows something.
func (s *suite) await(t *testing.T, clusters *observe.Clusters, name types.NamespacedName, ok func(observe.View) bool) {
	t.Helper()
	s.eventually(t, func() bool {
		v := clusters.View(name, time.Minute)
		return v.Known && ok(v)
	}, fmt.Sprintf("the view of %s shows it", name))
}

func (s *suite) testDrift(t *testing.T, all map[string]reconcile.Reconciler) {
	service := &corev1.Service{}
	s.get(t, "slurm", "slurm-workers-slurm", service)
	service.Spec.Selector[v1beta1.LabelCluster] = "other"
	if err := s.admin.Update(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	round(t, all)
	s.get(t, "slurm", "slurm-workers-slurm", service)
	if service.Spec.Selector[v1beta1.LabelCluster] != "slurm" {
		t.Errorf("selector is %v", service.Spec.Selector)
	}
}

func (s *suite) testForeign(t *testing.T, all map[string]reconcile.Reconciler) {
	s.create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: "other-restapi"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	s.create(t, &v1beta1.RestApi{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: "other"},
		Spec: v1beta1.RestApiSpec{ControllerRef: corev1.LocalObjectReference{Name: "slurm"}}})
	_, err := all["restapi"].Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "slurm", Name: "other"}})
	if err == nil || !strings.Contains(err.Error(), "doesn't belong to RestApi other") {
		t.Errorf("got error %v", err)
	}
	service := &corev1.Service{}
	s.get(t, "slurm", "other-restapi", service)
	if service.Spec.Ports[0].Port != 80 {
		t.Error("somebody else's Service was changed")
	}
}

func (s *suite) testAccounting(t *testing.T, all map[string]reconcile.Reconciler) {
	s.server.Apply(t, "examples", "accounting", "accounting.yaml")
	round(t, all)
	a := &v1beta1.Accounting{}
	s.get(t, "slurm", "slurm", a)
	s.wantCondition(t, a.Status.Conditions, v1beta1.ConditionDegraded, "True", `spec.storageConfig.passwordKeyRef: there is no key "password" in a Secret "slurm-mariadb"`)
	s.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: "slurm-mariadb"}, Data: map[string][]byte{"password": []byte("p#w")}})
	round(t, all)
	secret := &corev1.Secret{}
	s.get(t, "slurm", "slurm-accounting", secret)
	if conf := string(secret.Data["slurmdbd.conf"]); !strings.Contains(conf, "StorageHost=mariadb\n") || !strings.Contains(conf, `StoragePass=p\#w`) {
		t.Errorf("slurmdbd.conf:\n%s", conf)
	}
	s.get(t, "slurm", "slurm-accounting", &appsv1.StatefulSet{})
	c := &v1beta1.Controller{}
	s.get(t, "slurm", "slurm", c)
	c.Spec.AccountingRef = &corev1.LocalObjectReference{Name: "slurm"}
	if err := s.admin.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	round(t, all)
	config := &corev1.ConfigMap{}
	s.get(t, "slurm", "slurm-config", config)
	if !strings.Contains(config.Data["slurm.conf"], "AccountingStorageHost=slurm-accounting\n") {
		t.Errorf("slurm.conf:\n%s", config.Data["slurm.conf"])
	}
}

func (s *suite) testClaimTemplate(t *testing.T, all map[string]reconcile.Reconciler) {
	c := &v1beta1.Controller{}
	s.get(t, "slurm", "slurm", c)
	c.Spec.Persistence.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	c.Spec.ExtraConf += "MinJobAge=60\n"
	if err := s.admin.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	round(t, all)
	config := &corev1.ConfigMap{}
	s.get(t, "slurm", "slurm-config", config)
	if !strings.Contains(config.Data["slurm.conf"], "MinJobAge=60") {
		t.Error("slurm.conf is as it was")
	}
}

// testManager checks that the caches fill under the operator's role, and that events arrive.
func (s *suite) testManager(t *testing.T) {
	mgr, err := ctrl.NewManager(s.operatorConfig(), ctrl.Options{
		Scheme: s.admin.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Logger: testr.New(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = AddToManager(mgr, Options{Images: cluster.ImagesOf("registry.example.com", "1"), ClusterDomain: "cluster.local",
		Connect: func(string, []byte) (slurm.Client, error) { return s.slurm, nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	s.eventually(t, func() bool {
		l := &v1beta1.LoginSet{}
		s.get(t, "crds", "login", l)
		return hasProblem(l.Status.Conditions, cluster.NoController(l))
	}, "a LoginSet says that its Controller is missing")
	n := &v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: "gpu"},
		Spec: v1beta1.NodeSetSpec{ControllerRef: corev1.LocalObjectReference{Name: "slurm"}}}
	s.create(t, n)
	s.eventually(t, func() bool {
		return s.admin.Get(ctx, types.NamespacedName{Namespace: "slurm", Name: "gpu-0"}, &corev1.Pod{}) == nil
	}, "pod gpu-0 is made")
	s.eventually(t, func() bool {
		config := &corev1.ConfigMap{}
		s.get(t, "slurm", "slurm-config", config)
		return strings.Contains(config.Data["slurm.conf"], "NodeSet=gpu Feature=gpu")
	}, "slurm.conf has the NodeSet gpu")
	if err := s.admin.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: "gpu-0"}}, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, func() bool {
		return s.admin.Get(ctx, types.NamespacedName{Namespace: "slurm", Name: "gpu-0"}, &corev1.Pod{}) == nil
	}, "pod gpu-0 is made again")
	t.Run("check 43: a new node is served at once", s.testNewNode)
}

func (s *suite) eventually(t *testing.T, ok func() bool, what string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		t.Fatalf("never: %s", what)
	}
}
