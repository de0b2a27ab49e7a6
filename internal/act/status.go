package act

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrChanged: the object has been changed since it was read. It has to be looked at again.
var ErrChanged = errors.New("has been changed in the meantime")

// PatchStatus writes the difference between two states of one object's status, if there is any.
// A patch carries the whole list of conditions, and not all of them need be its writer's: it
// writes over nothing that it hasn't seen, and is ErrChanged then.
func PatchStatus(ctx context.Context, c client.Client, before, after client.Object) error {
	if same, err := Same(before, after); same || err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	switch err := c.Status().Patch(ctx, after, patch); {
	case apierrors.IsConflict(err):
		return fmt.Errorf("patch status of %s: it %w", after.GetName(), ErrChanged)
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("patch status of %s: %w", after.GetName(), err)
	}
	return nil
}

// Same tells whether two states of one object are the same.
func Same(before, after client.Object) (bool, error) {
	data, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return false, fmt.Errorf("compare two states of %s: %w", after.GetName(), err)
	}
	return bytes.Equal(data, []byte("{}")), nil
}

// SetCondition sets one condition, keeping its transition time while its status stays.
func SetCondition(conditions *[]metav1.Condition, generation int64, kind string, is bool, reason, message string) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	const longest = 32768
	if len(message) > longest {
		// A rune that was cut in two would be written as a longer one.
		message = strings.ToValidUTF8(message[:longest], "")
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation,
	})
}
