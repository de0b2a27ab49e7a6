package operator

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// keyReconciler makes the keys of Secrets that ask for one. A chart can't: it is rendered
// anew each time, and a key that changes cuts every daemon off from the others.
type keyReconciler struct{ client.Client }

func (r *keyReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("key").
		For(&corev1.Secret{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return o.GetAnnotations()[v1beta1.AnnotationGenerateKey] != ""
		}))).
		WithOptions(controller.Options{ReconciliationTimeout: reconcileTimeout}).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *keyReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	secret := &corev1.Secret{}
	found, err := ignoreNotFound(r.Get(ctx, req.NamespacedName, secret))
	key := secret.Annotations[v1beta1.AnnotationGenerateKey]
	immutable := secret.Immutable != nil && *secret.Immutable
	if !found || secret.DeletionTimestamp != nil || key == "" || len(secret.Data[key]) > 0 || immutable {
		return ctrl.Result{}, err
	}
	before := secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	frozen := true
	secret.Data[key], secret.Immutable = randomKey(), &frozen
	// With the lock, a key that somebody has written meanwhile stays.
	err = r.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(v1beta1.OperatorFieldOwner))
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("write key %s of Secret %s: %w", key, req.NamespacedName, err)
	}
	return ctrl.Result{}, nil
}

// randomKey is 1024 printable characters that nobody can guess.
func randomKey() []byte {
	random := make([]byte, 768)
	_, _ = rand.Read(random) // It never fails: see its documentation.
	return []byte(base64.StdEncoding.EncodeToString(random))
}
