package operator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest/faultserver"
)

// deletions is a Kubernetes client that only notes which pods are deleted.
type deletions struct {
	client.Client
	names []string
}

func (d *deletions) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	d.names = append(d.names, o.GetName())
	return nil
}

// scaleIn is a NodeSet that shrinks from two workers to one, and the slurmrestd of its cluster.
type scaleIn struct {
	server   *faultserver.Server
	clusters *observe.Clusters
	name     types.NamespacedName
	kube     *deletions
}

// newScaleIn starts one in a bubble. cpu-1 is drained and empty: the next plan deletes its pod.
func newScaleIn(t *testing.T) *scaleIn {
	t.Helper()
	s := &scaleIn{server: faultserver.New(t, faultserver.Options{}), name: types.NamespacedName{Namespace: "slurm", Name: "slurm"}, kube: &deletions{}}
	s.server.Change(func(m *faultserver.Model) {
		m.AddNode("cpu-0")
		m.AddNode("cpu-1")
		m.Node("cpu-1").States = slurm.StatesOf(slurm.NodeIdle, slurm.NodeDrain)
		m.Node("cpu-1").Reason = v1beta1.OperatorReasonPrefix + "scale-in"
	})
	s.clusters = observe.NewClusters(func(url string, _ []byte) (slurm.Client, error) {
		return rest.New(rest.Config{URL: url, Dial: s.server.Dial, Tokens: rest.StaticToken("t"), Version: "v0.0.45"})
	}, func(types.NamespacedName) {})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.clusters.Start(ctx) }()
	t.Cleanup(func() {
		s.clusters.Drop(s.name)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.use(t)
	pass(10 * time.Second)
	return s
}

func (s *scaleIn) use(t *testing.T) {
	t.Helper()
	if err := s.clusters.Use(s.name, "http://slurmrestd", []byte("key"), time.Time{}); err != nil {
		t.Fatal(err)
	}
}

// pass lets the bubble's clock go on.
func pass(d time.Duration) {
	<-time.After(d) // in synctest's own time
	synctest.Wait()
}

// once plans and acts as one reconcile does, and returns what is said about it.
func (s *scaleIn) once(ctx context.Context) string {
	view := s.clusters.View(s.name, slurmAge)
	return s.act(ctx, view, s.plan(view))
}

func (s *scaleIn) plan(view observe.View) nodeset.Plan {
	pods := make([]corev1.Pod, 2)
	for i := range pods {
		pods[i].Name, pods[i].Namespace, pods[i].UID = fmt.Sprintf("cpu-%d", i), "slurm", types.UID(fmt.Sprint(i))
		pods[i].Status.Phase = corev1.PodRunning
		pods[i].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	one := int32(1)
	return nodeset.Make(nodeset.Facts{
		NodeSet:    &v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Name: "cpu", Namespace: "slurm", UID: "set"}, Spec: v1beta1.NodeSetSpec{Replicas: &one}},
		Controller: &v1beta1.Controller{ObjectMeta: metav1.ObjectMeta{Name: "slurm", Namespace: "slurm"}},
		Pods:       pods, Now: time.Now(),
		Slurm: nodeset.SlurmFacts{Known: view.Known, Why: view.Why, Nodes: view.Nodes},
	})
}

func (s *scaleIn) act(ctx context.Context, view observe.View, plan nodeset.Plan) string {
	r := &nodeSetReconciler{shared: &shared{Client: s.kube, now: time.Now}, recorder: &events.FakeRecorder{}}
	c := &carrier{nodeSetReconciler: r, set: &v1beta1.NodeSet{}, view: view}
	err := c.carryOut(ctx, slices.DeleteFunc(slices.Clone(plan.Steps), func(step nodeset.Step) bool {
		return step.Action != nodeset.DeletePod && step.Action != nodeset.Wait // the rest isn't what this is about
	}))
	report := reportOn(plan, view.Known, view.Why, err)
	return fmt.Sprintf("%s; %v", report.message, report.err)
}

// S003: nothing but Slurm's own word that a node is empty, or that there is none, lets a pod go.
func TestS003UnknownIsNotDrained(t *testing.T) {
	garbage := faultserver.Garbage(`{"nodes":[],"errors":[],"warnings":[]}`)
	cases := map[string]struct {
		fault faultserver.Fault
		// says is in the message of the condition.
		says string
		// goes: the pod may be deleted.
		goes bool
	}{
		"a: 500":                             {faultserver.Refuse(http.StatusInternalServerError, -1, "Unspecified error"), "Unspecified error", false},
		"b: no answer in time":               {faultserver.Hang, "deadline exceeded", false},
		"c: 401":                             {faultserver.NoToken, "cpu-1", false},
		"d: 200, slurmctld is away":          {faultserver.Refuse(http.StatusOK, 1800, "Unable to contact slurm controller (connect failure)"), "Unable to contact slurm controller", false},
		"e: 200, Slurm doesn't know it":      {faultserver.Refuse(http.StatusOK, 2018, "Invalid node name specified"), "", true},
		"e: 404, Slurm doesn't know it":      {faultserver.Refuse(http.StatusNotFound, 2018, "Invalid node name specified"), "", true},
		"f: 200 without nodes and no errors": {garbage, "cpu-1", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScaleIn(t)
				// The last good answer says that the node is empty, and the question in the moment of the deletion fails.
				s.server.FailAlways(faultserver.Node, tc.fault)
				if said := s.once(t.Context()); (len(s.kube.names) > 0) != tc.goes || !strings.Contains(said, tc.says) {
					t.Errorf("deleted %v; it says %q, want %q", s.kube.names, said, tc.says)
				}
				if tc.goes {
					return
				}
				// All fails, for long enough that nothing is known any more.
				s.server.FailAlways(faultserver.AnyCall, tc.fault)
				pass(time.Minute)
				if said := s.once(t.Context()); len(s.kube.names) > 0 || name != "f: 200 without nodes and no errors" && !strings.Contains(said, "it can't be known whether jobs run there") {
					t.Errorf("deleted %v; it says %q", s.kube.names, said)
				}
				s.server.Heal()
				pass(2 * time.Minute)
				if said := s.once(t.Context()); !slices.Equal(s.kube.names, []string{"cpu-1"}) {
					t.Errorf("Slurm answers again: deleted %v; it says %q", s.kube.names, said)
				}
			})
		})
	}
	t.Run("e: a worker that never registered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScaleIn(t)
			s.server.Change(func(m *faultserver.Model) { m.RemoveNode("cpu-1") })
			pass(time.Minute)
			if said := s.once(t.Context()); !slices.Equal(s.kube.names, []string{"cpu-1"}) {
				t.Errorf("deleted %v; it says %q", s.kube.names, said)
			}
		})
	})
	t.Run("f: a list without nodes after a start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScaleIn(t)
			s.clusters.Drop(s.name) // an operator that has just started knows nothing
			s.server.FailAlways(faultserver.Nodes, faultserver.Partial(0))
			s.server.Change(func(m *faultserver.Model) { m.Node("cpu-1").States = slurm.StatesOf(slurm.NodeMixed) })
			s.use(t)
			pass(10 * time.Second)
			if said := s.once(t.Context()); len(s.kube.names) > 0 {
				t.Errorf("deleted %v, on whose node a job runs; it says %q", s.kube.names, said)
			}
		})
	})
	t.Run("g: no RestApi", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScaleIn(t)
			s.clusters.Drop(s.name)
			if said := s.once(t.Context()); len(s.kube.names) > 0 || !strings.Contains(said, "no RestApi of this cluster is known") {
				t.Errorf("deleted %v; it says %q", s.kube.names, said)
			}
		})
	})
}
