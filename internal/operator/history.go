package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
)

// revise writes a ControllerRevision.
func (c *carrier) revise(ctx context.Context, s nodeset.Step) error {
	r := s.Revision
	switch s.Action {
	case nodeset.DeleteRevision:
		return ignoreOther(c.Delete(ctx, r, client.Preconditions{UID: &r.UID}))
	case nodeset.UpdateRevision:
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": r.UID, "labels": r.Labels}, "revision": r.Revision})
		if err != nil {
			return err
		}
		return ignoreOther(c.Patch(ctx, r, client.RawPatch(types.MergePatchType, patch)))
	}
	err := c.Create(ctx, r.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	var live appsv1.ControllerRevision
	if err := c.Get(ctx, client.ObjectKeyFromObject(r), &live); err != nil {
		return client.IgnoreNotFound(err) // the caches will show it
	}
	if !metav1.IsControlledBy(&live, c.set) {
		return fmt.Errorf("a ControllerRevision of this name exists and doesn't belong to NodeSet %s: delete it", c.set.Name)
	}
	return nil
}

// reservationPatience bounds a call about a reservation: slurmrestd waits long for a slurmctld that is away.
const reservationPatience = 2 * time.Second

// reserve writes a reservation to Slurm.
func (c *carrier) reserve(ctx context.Context, s nodeset.Step) error {
	ctx, cancel := context.WithTimeout(ctx, reservationPatience)
	defer cancel()
	switch r := s.Reservation; s.Action {
	case nodeset.DeleteReservation:
		return ignoreGone(c.view.Reservations.DeleteReservation(ctx, r.Name))
	case nodeset.UpdateReservation:
		return ignoreGone(c.view.Reservations.UpdateReservation(ctx, r.Name, *r))
	default:
		return c.view.Reservations.CreateReservation(ctx, *r)
	}
}
