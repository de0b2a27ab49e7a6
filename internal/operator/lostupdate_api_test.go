package operator

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
)

// between lets something happen after a NodeSet was read and before it is written, once.
type between struct {
	client.Client
	happens func()
}

func (b *between) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := b.Client.Get(ctx, key, o, opts...)
	if _, ok := o.(*v1beta1.NodeSet); ok {
		b.once()
	}
	return err
}

func (b *between) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := b.Client.List(ctx, list, opts...)
	if _, ok := list.(*v1beta1.NodeSetList); ok {
		b.once()
	}
	return err
}

func (b *between) once() {
	if happens := b.happens; happens != nil {
		b.happens = nil
		happens()
	}
}

// testLostUpdate: two reconcilers write conditions of a NodeSet, and neither takes away the other's.
func (s *suite) testLostUpdate(t *testing.T) {
	q := s.newSets(t, "conditions")
	q.add(t, "cpu", 1, nil)
	q.reconcile(t, "cpu", 1)
	has := func(kind string) bool {
		return meta.FindStatusCondition(q.nodeSet(t, "cpu").Status.Conditions, kind) != nil
	}
	// autoscaling is the autoscaler's condition written, or taken away, by somebody else.
	autoscaling := func(is bool) func() {
		return func() {
			n := q.nodeSet(t, "cpu")
			before := n.DeepCopy()
			if is {
				act.SetCondition(&n.Status.Conditions, n.Generation, v1beta1.ConditionAutoscaling, true, v1beta1.ReasonSteady, "")
			} else {
				meta.RemoveStatusCondition(&n.Status.Conditions, v1beta1.ConditionAutoscaling)
			}
			if err := act.PatchStatus(t.Context(), q.admin, before, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	straight := q.reconciler.Client
	for _, is := range []bool{true, false} {
		// The number of workers changes, so that the reconciler has something to write.
		q.change(t, "cpu", func(n *v1beta1.NodeSet) { *n.Spec.Replicas++ })
		q.reconciler.Client = &between{straight, autoscaling(is)}
		out, err := q.try(t, "cpu")
		if err != nil || out.RequeueAfter != changedAgain {
			t.Errorf("a conflict gives %v, %v: want another look soon, and no error", out, err)
		}
		if has(v1beta1.ConditionAutoscaling) != is {
			t.Errorf("the other's condition is there: %v, want %v", !is, is)
		}
		q.reconcile(t, "cpu", 1)
		n := q.nodeSet(t, "cpu")
		if n.Status.ObservedGeneration != n.Generation || has(v1beta1.ConditionAutoscaling) != is || !has(v1beta1.ConditionReady) {
			t.Errorf("then the status is %+v", n.Status)
		}
	}
	q.reconciler.Client = straight
	s.testLostStop(t, q)
}

// testLostStop: what the autoscaler has to take away isn't forgotten if another write comes first.
func (s *suite) testLostStop(t *testing.T, q *setSuite) {
	set := func() {
		n := q.nodeSet(t, "cpu")
		before := n.DeepCopy()
		act.SetCondition(&n.Status.Conditions, n.Generation, v1beta1.ConditionAutoscaling, true, v1beta1.ReasonSteady, time.Now().String())
		if err := act.PatchStatus(t.Context(), q.admin, before, n); err != nil {
			t.Fatal(err)
		}
	}
	set()
	sh := *q.reconciler.shared
	sh.Client = &between{sh.Client, set}
	scaler := newAutoscaler(&sh, &events.FakeRecorder{})
	out, err := scaler.Reconcile(t.Context(), ctrl.Request{NamespacedName: q.cluster})
	if err != nil || out.RequeueAfter != changedAgain {
		t.Fatalf("a conflict gives %v, %v: want another look soon, and no error", out, err)
	}
	out, err = scaler.Reconcile(t.Context(), ctrl.Request{NamespacedName: q.cluster})
	if c := meta.FindStatusCondition(q.nodeSet(t, "cpu").Status.Conditions, v1beta1.ConditionAutoscaling); c != nil || err != nil || out.RequeueAfter != 0 {
		t.Errorf("left is %+v; %v, %v", c, out, err)
	}
}
