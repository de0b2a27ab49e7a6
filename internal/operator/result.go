package operator

import (
	"errors"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slinky-hpc/slinky/internal/act"
)

// changedAgain is how soon an object is looked at again that was changed during a reconcile:
// the caches show it by then.
const changedAgain = 100 * time.Millisecond

// result ends a reconcile: what is on its way out is waited for, what has been changed in the
// meantime is looked at again, and other errors are tried again.
func result(errs ...error) (ctrl.Result, error) {
	var rest []error
	var out ctrl.Result
	for _, err := range errs {
		if errors.Is(err, act.ErrChanged) {
			out.RequeueAfter = changedAgain
		} else {
			rest = append(rest, err)
		}
	}
	err := errors.Join(rest...)
	if errors.Is(err, act.ErrDeleting) {
		return ctrl.Result{RequeueAfter: soonest(out.RequeueAfter, time.Second)}, nil
	}
	return out, err
}

// soonest is the shortest of some delays, of which 0 is none.
func soonest(delays ...time.Duration) (out time.Duration) {
	for _, d := range delays {
		if d > 0 && (out == 0 || d < out) {
			out = d
		}
	}
	return out
}
