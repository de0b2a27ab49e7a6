package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// carrier carries out the steps of one NodeSet's plan.
type carrier struct {
	*nodeSetReconciler
	set  *v1beta1.NodeSet
	view observe.View

	mu sync.Mutex
	// refused are changes that Slurm will not take until a person corrects something.
	refused []string
	told    map[news][]string
}

// news is what is told about several pods or nodes in one event.
type news struct{ event, kind, verb, reason string }

// carryOut does all steps that it can; one that fails keeps none of the others waiting.
func (c *carrier) carryOut(ctx context.Context, steps []nodeset.Step) error {
	var first, create, others []nodeset.Step
	claims := map[string][]nodeset.Step{}
	for _, s := range steps {
		switch s.Action {
		case nodeset.CreateRevision, nodeset.UpdateRevision, nodeset.DeleteRevision,
			nodeset.CreateReservation, nodeset.UpdateReservation, nodeset.DeleteReservation:
			first = append(first, s)
		case nodeset.CreateClaim:
			claims[s.Slot] = append(claims[s.Slot], s)
		case nodeset.CreatePod:
			create = append(create, s)
		case nodeset.Wait:
		default:
			others = append(others, s)
		}
	}
	var errs []error
	for _, s := range first {
		errs = append(errs, c.try(ctx, s))
	}
	errs = append(errs, atOnce(ctx, len(others), func(i int) error { return c.try(ctx, others[i]) })...)
	errs = append(errs, slowly(ctx, len(create), func(i int) error {
		slot := create[i].Slot
		for _, s := range append(claims[slot], create[i]) {
			if err := c.try(ctx, s); err != nil {
				c.failures.add(c.set.UID, slot, c.now())
				return err
			}
		}
		return nil
	})...)
	c.tell()
	return errors.Join(errs...)
}

func (c *carrier) try(ctx context.Context, s nodeset.Step) error {
	if err := c.step(ctx, s); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

func (c *carrier) step(ctx context.Context, s nodeset.Step) error {
	switch s.Action {
	case nodeset.CreateClaim:
		return ignoreExists(c.Create(ctx, s.Claim))
	case nodeset.OwnClaim:
		return c.own(ctx, s)
	case nodeset.CreatePod:
		return c.create(ctx, s)
	case nodeset.AdoptPod:
		return c.adopt(ctx, s)
	case nodeset.DeletePod:
		return c.delete(ctx, s)
	case nodeset.Drain, nodeset.Undrain, nodeset.Resume, nodeset.Describe:
		return c.update(ctx, s)
	case nodeset.Mark:
		return c.mark(ctx, s)
	case nodeset.Mirror:
		return c.mirror(ctx, s)
	case nodeset.Forget:
		return c.forget(ctx, s)
	case nodeset.CreateRevision, nodeset.UpdateRevision, nodeset.DeleteRevision:
		return c.revise(ctx, s)
	case nodeset.CreateReservation, nodeset.UpdateReservation, nodeset.DeleteReservation:
		return c.reserve(ctx, s)
	}
	return nil
}

func (c *carrier) create(ctx context.Context, s nodeset.Step) error {
	err := c.Create(ctx, s.Pod)
	switch {
	case err == nil:
		c.written.Made(s.Pod, c.now())
		c.note(news{s.Event, "worker", "Created", s.Reason}, s.Pod.Name)
		return nil
	case apierrors.IsAlreadyExists(err):
		return c.whoseIsIt(ctx, s.Pod)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	}
	return err
}

// whoseIsIt accepts a pod that the caches haven't shown yet, but not somebody else's.
func (c *carrier) whoseIsIt(ctx context.Context, pod *corev1.Pod) error {
	var live corev1.Pod
	if err := c.Get(ctx, client.ObjectKeyFromObject(pod), &live); err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, o := range live.OwnerReferences {
		if o.UID == c.set.UID {
			return nil
		}
	}
	return fmt.Errorf("a pod of this name exists and doesn't belong to NodeSet %s: delete or rename one of them", c.set.Name)
}

// adopt makes the NodeSet the controller of a pod that has none.
func (c *carrier) adopt(ctx context.Context, s nodeset.Step) error {
	yes := true
	owners := append(slices.Clone(s.Pod.OwnerReferences), metav1.OwnerReference{
		APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindNodeSet, Name: c.set.Name, UID: c.set.UID, Controller: &yes, BlockOwnerDeletion: &yes})
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": s.Pod.UID, "resourceVersion": s.Pod.ResourceVersion, "ownerReferences": owners}})
	if err != nil {
		return err
	}
	return ignoreOther(c.Patch(ctx, s.Pod, client.RawPatch(types.MergePatchType, patch)))
}

// delete removes exactly the pod that was planned for. Where its Slurm node has to be
// drained first, Slurm is asked once more.
func (c *carrier) delete(ctx context.Context, s nodeset.Step) error {
	if s.Node != "" && !s.Force {
		node, known, err := c.view.Refresh(ctx, s.Node)
		if err != nil {
			return fmt.Errorf("ask Slurm again about node %s: %w", s.Node, err)
		}
		if known && (!workernode.Draining(node) || workernode.Busy(node)) {
			return nil
		}
	}
	err := c.Delete(ctx, s.Pod, client.Preconditions{UID: &s.Pod.UID})
	if err != nil {
		return ignoreOther(err)
	}
	c.written.Deleted(s.Pod.UID, c.now())
	event := s.Event
	if event == "" {
		event = v1beta1.EventScalingDown
	}
	c.note(news{event, "worker", "Deleted", s.Reason}, s.Pod.Name)
	if s.Failed {
		c.failures.add(c.set.UID, s.Slot, c.now())
	}
	return nil
}

// own changes with whom a claim goes.
func (c *carrier) own(ctx context.Context, s nodeset.Step) error {
	owners := s.Claim.OwnerReferences
	if owners == nil {
		owners = []metav1.OwnerReference{}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": s.Claim.UID, "resourceVersion": s.Claim.ResourceVersion, "ownerReferences": owners}})
	if err != nil {
		return err
	}
	return ignoreOther(c.Patch(ctx, s.Claim, client.RawPatch(types.MergePatchType, patch)))
}

// forget deletes a record, if it still is one whose worker is gone for good.
func (c *carrier) forget(ctx context.Context, s nodeset.Step) error {
	node, known, err := c.view.Refresh(ctx, s.Node)
	if err != nil || !known {
		return err
	}
	mark, _ := workernode.MarkOf(node)
	removed := workernode.OwnsReason(node.Reason) && workernode.Draining(node)
	lost := mark.NodeSetUID == string(c.set.UID) && node.States.Has(slurm.NodeDown, slurm.NodeNotResponding)
	if workernode.Busy(node) || !removed && !lost {
		return nil
	}
	if err := c.view.Slurm.DeleteNode(ctx, s.Node); err != nil {
		return err
	}
	c.note(news{s.Event, "Slurm's record of node", "Deleted", s.Reason}, s.Node)
	_, _, err = c.view.Refresh(ctx, s.Node)
	return err
}

// note remembers what happened until tell.
func (c *carrier) note(n news, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told == nil {
		c.told = map[news][]string{}
	}
	c.told[n] = append(c.told[n], name)
}

// tell makes one event of what happened to many for the same reason.
func (c *carrier) tell() {
	for n, names := range c.told {
		kind := corev1.EventTypeNormal
		if n.event == v1beta1.EventFailedDaemonPod || n.event == v1beta1.EventNodeNotRegistered {
			kind = corev1.EventTypeWarning
		}
		plural := ""
		if len(names) > 1 {
			plural = "s"
		}
		c.recorder.Eventf(c.set, nil, kind, n.event, "Reconcile", "%s %s%s %s: %s", n.verb, n.kind, plural, hostlist.Compress(names), n.reason)
	}
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
