package operator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// carrier carries out the steps of one NodeSet's plan.
type carrier struct {
	*nodeSetReconciler
	set  *v1beta1.NodeSet
	view observe.View
	// refused are changes that Slurm will not take until a person corrects something.
	refused []string
}

// carryOut does all steps that it can; one that fails keeps none of the others waiting.
func (c *carrier) carryOut(ctx context.Context, steps []nodeset.Step) error {
	var errs []error
	for _, s := range steps {
		if err := c.step(ctx, s); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s, err))
		}
	}
	return errors.Join(errs...)
}

func (c *carrier) step(ctx context.Context, s nodeset.Step) error {
	switch s.Action {
	case nodeset.CreateClaim:
		return ignoreExists(c.Create(ctx, s.Claim))
	case nodeset.CreatePod:
		return c.create(ctx, s)
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
	}
	return nil
}

func (c *carrier) create(ctx context.Context, s nodeset.Step) error {
	err := c.Create(ctx, s.Pod)
	switch {
	case err == nil:
		c.recorder.Eventf(c.set, s.Pod, corev1.EventTypeNormal, v1beta1.EventScalingUp, "Create", "Created worker %s: %s", s.Pod.Name, s.Reason)
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

// delete removes exactly the pod that was planned for. Where its Slurm node has to be
// drained first, Slurm is asked once more.
func (c *carrier) delete(ctx context.Context, s nodeset.Step) error {
	if s.Node != "" {
		node, known, err := c.view.Refresh(ctx, s.Node)
		if err != nil {
			return fmt.Errorf("ask Slurm again about node %s: %w", s.Node, err)
		}
		if known && (!node.States.Has(slurm.NodeDrain) || node.States.HasAny(slurm.NodeAllocated, slurm.NodeMixed, slurm.NodeCompleting)) {
			return nil
		}
	}
	err := c.Delete(ctx, s.Pod, client.Preconditions{UID: &s.Pod.UID})
	if err == nil {
		c.recorder.Eventf(c.set, s.Pod, corev1.EventTypeNormal, v1beta1.EventScalingDown, "Delete", "Deleted worker %s: %s", s.Pod.Name, s.Reason)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// forget deletes a record, if it is still one that the operator took out of service.
func (c *carrier) forget(ctx context.Context, s nodeset.Step) error {
	node, known, err := c.view.Refresh(ctx, s.Node)
	if err != nil || !known || !workernode.OwnsReason(node.Reason) || !node.States.Has(slurm.NodeDrain) {
		return err
	}
	if err := c.view.Slurm.DeleteNode(ctx, s.Node); err != nil {
		return err
	}
	_, _, err = c.view.Refresh(ctx, s.Node)
	return err
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
