// Package webhook answers the API server's questions about custom resources: it observes
// what they refer to, and lets internal/plan/admission decide.
package webhook

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/admission"
)

// Paths of the webhooks.
const (
	PathController = "/validate-slinky-slurm-net-v1beta1-controller"
	PathAccounting = "/validate-slinky-slurm-net-v1beta1-accounting"
	PathRestApi    = "/validate-slinky-slurm-net-v1beta1-restapi"
	PathNodeSet    = "/validate-slinky-slurm-net-v1beta1-nodeset"
	PathLoginSet   = "/validate-slinky-slurm-net-v1beta1-loginset"
	PathToken      = "/validate-slinky-slurm-net-v1beta1-token"
	PathBinding    = "/mutate--v1-binding"
)

// mux is what the handlers are registered with.
type mux interface {
	Register(path string, handler http.Handler)
}

// Register adds all webhooks to a server. They read through kube as each question comes: a
// question is rare, and an answer from an old cache would be wrong.
func Register(server mux, kube client.Client, scheme *runtime.Scheme) {
	r := reader{kube}
	server.Register(PathController, handler(scheme, v1beta1.KindController, r.controller, spec[*v1beta1.Controller](func(o *v1beta1.Controller) any { return o.Spec })))
	server.Register(PathAccounting, handler(scheme, v1beta1.KindAccounting, r.accounting, spec[*v1beta1.Accounting](func(o *v1beta1.Accounting) any { return o.Spec })))
	server.Register(PathRestApi, handler(scheme, v1beta1.KindRestApi, r.restApi, spec[*v1beta1.RestApi](func(o *v1beta1.RestApi) any { return o.Spec })))
	server.Register(PathNodeSet, handler(scheme, v1beta1.KindNodeSet, r.nodeSet, spec[*v1beta1.NodeSet](func(o *v1beta1.NodeSet) any { return o.Spec })))
	server.Register(PathLoginSet, handler(scheme, v1beta1.KindLoginSet, r.loginSet, spec[*v1beta1.LoginSet](func(o *v1beta1.LoginSet) any { return o.Spec })))
	server.Register(PathToken, handler(scheme, v1beta1.KindToken, r.token, spec[*v1beta1.Token](func(o *v1beta1.Token) any { return o.Spec })))
	server.Register(PathBinding, &webhookadmission.Webhook{Handler: &binding{kube: kube, decoder: webhookadmission.NewDecoder(scheme)}})
}

// judge decides about an object; old is nil for a new one.
type judge[T client.Object] func(ctx context.Context, now T, old *T) (admission.Verdict, error)

type spec[T client.Object] func(T) any

// validator asks a judge, for new objects and for those whose spec changes. An object on its
// way out is let go.
type validator[T client.Object] struct {
	kind  string
	judge judge[T]
	spec  spec[T]
}

func handler[T client.Object](scheme *runtime.Scheme, kind string, j judge[T], s spec[T]) http.Handler {
	return webhookadmission.WithValidator[T](scheme, &validator[T]{kind, j, s})
}

// ValidateCreate implements admission.Validator.
func (v *validator[T]) ValidateCreate(ctx context.Context, o T) (webhookadmission.Warnings, error) {
	return v.answer(ctx, o, nil)
}

// ValidateUpdate implements admission.Validator.
func (v *validator[T]) ValidateUpdate(ctx context.Context, old, o T) (webhookadmission.Warnings, error) {
	if o.GetDeletionTimestamp() != nil || equality.Semantic.DeepEqual(v.spec(old), v.spec(o)) {
		return nil, nil
	}
	return v.answer(ctx, o, &old)
}

// ValidateDelete implements admission.Validator.
func (v *validator[T]) ValidateDelete(context.Context, T) (webhookadmission.Warnings, error) {
	return nil, nil
}

func (v *validator[T]) answer(ctx context.Context, o T, old *T) (webhookadmission.Warnings, error) {
	verdict, err := v.judge(ctx, o, old)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("can't check %s %s/%s now, try again: %w", v.kind, o.GetNamespace(), o.GetName(), err))
	}
	if len(verdict.Errors) > 0 {
		return verdict.Warnings, apierrors.NewInvalid(schema.GroupKind{Group: v1beta1.GroupVersion.Group, Kind: v.kind}, o.GetName(), verdict.Errors)
	}
	return verdict.Warnings, nil
}

// reader observes what objects refer to.
type reader struct{ kube client.Reader }

func deref[T any](old **T) *T {
	if old == nil {
		return nil
	}
	return *old
}

func (r reader) controller(ctx context.Context, c *v1beta1.Controller, old **v1beta1.Controller) (admission.Verdict, error) {
	facts := admission.ControllerFacts{ConfigMaps: map[string][]string{}}
	for _, name := range admission.ControllerConfigMaps(c) {
		var m corev1.ConfigMap
		found, err := r.get(ctx, c.Namespace, name, &m)
		if err != nil {
			return admission.Verdict{}, err
		}
		if found {
			facts.ConfigMaps[name] = slices.Sorted(maps.Keys(m.Data))
			facts.ConfigMaps[name] = append(facts.ConfigMaps[name], slices.Sorted(maps.Keys(m.BinaryData))...)
		}
	}
	if p := c.Spec.Persistence; p != nil && p.ExistingClaim != "" && c.Spec.HA != nil && c.Spec.HA.Enabled {
		claim := &corev1.PersistentVolumeClaim{}
		found, err := r.get(ctx, c.Namespace, p.ExistingClaim, claim)
		if err != nil {
			return admission.Verdict{}, err
		}
		if found {
			facts.Claim = claim
		}
	}
	if ref := c.Spec.AccountingRef; ref != nil {
		var err error
		if facts.Accounting, err = r.get(ctx, c.Namespace, ref.Name, &v1beta1.Accounting{}); err != nil {
			return admission.Verdict{}, err
		}
	}
	return admission.Controller(c, deref(old), facts), nil
}

func (r reader) accounting(_ context.Context, a *v1beta1.Accounting, old **v1beta1.Accounting) (admission.Verdict, error) {
	return admission.Accounting(a, deref(old)), nil
}

func (r reader) restApi(ctx context.Context, a *v1beta1.RestApi, old **v1beta1.RestApi) (admission.Verdict, error) {
	found, err := r.get(ctx, a.Namespace, a.Spec.ControllerRef.Name, &v1beta1.Controller{})
	if err != nil {
		return admission.Verdict{}, err
	}
	var list v1beta1.RestApiList
	if err := r.list(ctx, a.Namespace, &list); err != nil {
		return admission.Verdict{}, err
	}
	return admission.RestApi(a, deref(old), admission.ClusterFacts{Controller: found, RestApis: list.Items}), nil
}

func (r reader) nodeSet(ctx context.Context, n *v1beta1.NodeSet, old **v1beta1.NodeSet) (admission.Verdict, error) {
	var sets v1beta1.NodeSetList
	var controllers v1beta1.ControllerList
	var accountings v1beta1.AccountingList
	for _, list := range []client.ObjectList{&sets, &controllers, &accountings} {
		if err := r.list(ctx, n.Namespace, list); err != nil {
			return admission.Verdict{}, err
		}
	}
	return admission.NodeSet(n, deref(old), admission.NodeSetFacts{
		NodeSets: sets.Items, Controllers: controllers.Items, Accountings: accountings.Items}), nil
}

func (r reader) loginSet(ctx context.Context, l *v1beta1.LoginSet, old **v1beta1.LoginSet) (admission.Verdict, error) {
	found, err := r.get(ctx, l.Namespace, l.Spec.ControllerRef.Name, &v1beta1.Controller{})
	if err != nil {
		return admission.Verdict{}, err
	}
	return admission.LoginSet(l, deref(old), admission.ClusterFacts{Controller: found}), nil
}

func (r reader) token(_ context.Context, t *v1beta1.Token, old **v1beta1.Token) (admission.Verdict, error) {
	return admission.Token(t, deref(old)), nil
}

// get tells whether an object exists.
func (r reader) get(ctx context.Context, namespace, name string, out client.Object) (bool, error) {
	if name == "" {
		return false, nil
	}
	err := r.kube.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, out)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %T %s/%s: %w", out, namespace, name, err)
	}
	return true, nil
}

func (r reader) list(ctx context.Context, namespace string, out client.ObjectList) error {
	if err := r.kube.List(ctx, out, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list %T of namespace %s: %w", out, namespace, err)
	}
	return nil
}
