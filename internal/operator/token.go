package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=delete

// tokenReconciler keeps tokens in Secrets.
type tokenReconciler struct{ *shared }

func (r *tokenReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1beta1.Token{}).
		Owns(&corev1.Secret{}).
		Watches(&corev1.Secret{}, requests(r.withSecret)).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.workers(v1beta1.KindToken), ReconciliationTimeout: reconcileTimeout}).
		Complete(r)
}

// withSecret finds the Tokens that are signed with a key of a Secret, or kept in it.
func (r *tokenReconciler) withSecret(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
	var list v1beta1.TokenList
	if err := r.List(ctx, &list, client.InNamespace(o.GetNamespace())); err != nil {
		return nil, fmt.Errorf("list Tokens: %w", err)
	}
	var out []types.NamespacedName
	for i := range list.Items {
		t := &list.Items[i]
		if names(t.JwtKey(), o.GetName()) || cluster.TokenSecret(t).Name == o.GetName() {
			out = append(out, client.ObjectKeyFromObject(t))
		}
	}
	return out, nil
}

// Reconcile implements reconcile.Reconciler.
func (r *tokenReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t := &v1beta1.Token{}
	found, err := ignoreNotFound(r.Get(ctx, req.NamespacedName, t))
	if !found || t.DeletionTimestamp != nil {
		return ctrl.Result{}, err
	}
	t.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.KindToken))
	before := t.DeepCopy()

	facts, err := r.observe(ctx, t)
	if err != nil {
		return ctrl.Result{}, err
	}
	plan := cluster.Token(facts)
	err = r.carryOut(ctx, t, facts.Secret, plan)
	report := report{err: err}
	for _, p := range plan.Problems {
		report.problems = append(report.problems, problem{p.Reason, p.Message})
	}
	ref := cluster.TokenSecret(t)
	report.message = fmt.Sprintf("there is no valid token in key %s of Secret %s", ref.Key, ref.Name)
	report.readyReason = v1beta1.ReasonSyncFailed
	if err == nil && !plan.IssuedAt.IsZero() {
		report.ready, report.readyReason = true, v1beta1.ReasonAvailable
		report.message = fmt.Sprintf("the token in key %s of Secret %s is valid until %s", ref.Key, ref.Name, plan.Expires.UTC().Format(time.RFC3339))
		t.Status.IssuedAt = &metav1.Time{Time: plan.IssuedAt}
	}
	report.conditions(&t.Status.Conditions, t.Generation)
	out, err := result(err, act.PatchStatus(ctx, r.Client, before, t))
	if out.RequeueAfter == 0 && err == nil {
		out.RequeueAfter = plan.Again
	}
	return out, err
}

func (r *tokenReconciler) observe(ctx context.Context, t *v1beta1.Token) (cluster.TokenFacts, error) {
	facts := cluster.TokenFacts{Token: t, Now: r.now(), ID: string(uuid.NewUUID())}
	var err error
	if facts.Key, err = r.key(ctx, t.Namespace, t.JwtKey()); err != nil {
		return facts, err
	}
	name := types.NamespacedName{Namespace: t.Namespace, Name: cluster.TokenSecret(t).Name}
	secret := &corev1.Secret{}
	found, err := ignoreNotFound(r.Get(ctx, name, secret))
	if err != nil {
		return facts, fmt.Errorf("read Secret %s: %w", name, err)
	}
	if found {
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		facts.Secret = secret
	}
	return facts, nil
}

func (r *tokenReconciler) carryOut(ctx context.Context, t *v1beta1.Token, live *corev1.Secret, plan cluster.TokenPlan) error {
	if plan.Recreate != nil {
		if err := r.Delete(ctx, live, client.Preconditions{UID: &live.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Secret %s/%s to make it anew: %w", live.Namespace, live.Name, err)
		}
		return fmt.Errorf("Secret %s/%s: %w", live.Namespace, live.Name, act.ErrDeleting)
	}
	if plan.Adopt {
		yes := true
		adopted := live.DeepCopy()
		adopted.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindToken, Name: t.Name, UID: t.UID, Controller: &yes, BlockOwnerDeletion: &yes}}
		if err := r.Patch(ctx, adopted, client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("take over Secret %s/%s: %w", live.Namespace, live.Name, err)
		}
		return errAgain
	}
	return r.applyAll(ctx, t, plan.Objects)
}

// errAgain: the next step needs the caches to show this one.
var errAgain = errors.Join(errors.New("was taken over from an earlier operator"), act.ErrDeleting)
