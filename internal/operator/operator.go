// Package operator keeps Slurm clusters as their custom resources say: one file per kind,
// each of which observes, lets internal/plan decide, and acts.
package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
)

// +kubebuilder:rbac:groups=slinky.slurm.net,resources=controllers;accountings;restapis;nodesets;loginsets;tokens,verbs=get;list;watch
// +kubebuilder:rbac:groups=slinky.slurm.net,resources=controllers/status;accountings/status;restapis/status;nodesets/status;loginsets/status;tokens/status,verbs=get;patch;update
// +kubebuilder:rbac:groups=slinky.slurm.net,resources=controllers/finalizers;accountings/finalizers;restapis/finalizers;nodesets/finalizers;loginsets/finalizers;tokens/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets;configmaps;services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=slinky.slurm.net,resources=nodesets,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets;deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create;get;patch;update

// reconcileTimeout bounds one reconcile, whatever hangs.
const reconcileTimeout = 5 * time.Second

// Options configure the operator.
type Options struct {
	Images cluster.Images
	// ClusterDomain is Kubernetes' DNS domain, as cluster.local.
	ClusterDomain string
	// Connect makes clients of slurmrestd.
	Connect observe.Connect
	// NodeConditions are the types of Kubernetes node conditions that explain a cordon to Slurm's users.
	NodeConditions []string
	// Workers is how many objects of a kind are reconciled at once, by kind; 1 by default.
	Workers map[string]int
}

// Scheme returns the types that the operator reads and writes.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1beta1.AddToScheme(s))
}

// CacheOptions let the informers leave out what the operator doesn't read.
func CacheOptions() cache.Options {
	return cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
}

// shared is what all reconcilers use.
type shared struct {
	client.Client
	Options
	applier  *act.Applier
	clusters *observe.Clusters
	now      func() time.Time
}

// AddToManager registers all reconcilers.
func AddToManager(mgr ctrl.Manager, o Options) error {
	recorder := mgr.GetEventRecorder(v1beta1.OperatorFieldOwner)
	changed := make(chan event.GenericEvent, 1024)
	s := &shared{
		Client:  mgr.GetClient(),
		Options: o,
		applier: &act.Applier{Client: mgr.GetClient(), Recorder: recorder, FieldOwner: v1beta1.OperatorFieldOwner},
		now:     time.Now,
	}
	s.clusters = observe.NewClusters(o.Connect, func(name types.NamespacedName) {
		e := event.GenericEvent{Object: &v1beta1.Controller{}}
		e.Object.SetNamespace(name.Namespace)
		e.Object.SetName(name.Name)
		select {
		case changed <- e:
		default: // so many are under way that this cluster is among them, or is looked at soon
		}
	})
	if err := mgr.Add(s.clusters); err != nil {
		return err
	}
	return errors.Join(
		(&controllerReconciler{s}).setup(mgr),
		(&accountingReconciler{s}).setup(mgr),
		(&restApiReconciler{s}).setup(mgr),
		(&keyReconciler{s.Client}).setup(mgr),
		(&nodeSetReconciler{shared: s, recorder: recorder}).setup(mgr, changed),
		(&loginSetReconciler{s, recorder, newHostKeys()}).setup(mgr),
		newAutoscaler(s, recorder).setup(mgr),
		(&tokenReconciler{s}).setup(mgr),
	)
}

func (s *shared) workers(kind string) int { return max(1, s.Workers[kind]) }

// key returns the content that a selector points to, nil where it doesn't exist.
func (s *shared) key(ctx context.Context, namespace string, ref *corev1.SecretKeySelector) ([]byte, error) {
	if ref == nil {
		return nil, nil
	}
	var secret corev1.Secret
	err := s.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, ref.Name, err)
	}
	if content := secret.Data[ref.Key]; len(content) > 0 {
		return content, nil
	}
	return nil, nil
}

// applyAll applies what is planned. An object that fails keeps none of the others waiting.
func (s *shared) applyAll(ctx context.Context, owner client.Object, objects []cluster.Object) error {
	var errs []error
	for _, o := range objects {
		errs = append(errs, s.applier.Apply(ctx, owner, o))
	}
	return errors.Join(errs...)
}

// ignoreNotFound makes "it is gone" no error: out is then false.
func ignoreNotFound(err error) (found bool, other error) {
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// requests maps an object of a namespace to objects of another kind in it.
func requests(find func(ctx context.Context, o client.Object) ([]types.NamespacedName, error)) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		names, err := find(ctx, o)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "can't find what depends on an object", "object", client.ObjectKeyFromObject(o))
			return nil
		}
		var out []reconcile.Request
		for _, n := range names {
			out = append(out, reconcile.Request{NamespacedName: n})
		}
		return out
	})
}

// statefulSetReady tells whether all pods of the newest template are ready.
func statefulSetReady(s *appsv1.StatefulSet) bool {
	want := int32(1)
	if s.Spec.Replicas != nil {
		want = *s.Spec.Replicas
	}
	return s.Status.ObservedGeneration >= s.Generation && s.Status.ReadyReplicas >= want &&
		(s.Status.UpdateRevision == "" || s.Status.UpdateRevision == s.Status.CurrentRevision || s.Status.UpdatedReplicas >= want)
}

func deploymentReady(d *appsv1.Deployment) bool {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	return d.Status.ObservedGeneration >= d.Generation && d.Status.ReadyReplicas >= want && d.Status.UpdatedReplicas >= want
}
