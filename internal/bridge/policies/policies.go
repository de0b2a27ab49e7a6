// Package policies reads the administrator's rules: from Namespaces, and from the one
// ConfigMap that the bridge's configuration names. A ConfigMap of a tenant's is never looked at.
package policies

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/policy"
)

// Source knows the rules of all namespaces. Its informers must be running.
type Source struct {
	settings   policy.Settings
	client     kubernetes.Interface
	namespaces coreinformers.NamespaceInformer
	// configMap is nil where the configuration names none.
	configMap       cache.SharedIndexInformer
	namespace, name string
}

// New returns a source that reads Namespaces by an informer, and a ConfigMap in the bridge's
// own namespace by one that it makes; Start starts that one.
func New(c config.Config, namespace string, namespaces coreinformers.NamespaceInformer, client kubernetes.Interface) *Source {
	s := &Source{
		settings: policy.Settings{Restricted: c.Policy == config.PolicyRestricted, Partition: c.Partition},
		client:   client, namespaces: namespaces, namespace: namespace, name: c.PolicyConfigMap,
	}
	// An informer exists from the moment in which it is asked for.
	namespaces.Informer()
	if s.name != "" {
		only := func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", s.name).String()
		}
		s.configMap = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace), informers.WithTweakListOptions(only)).
			Core().V1().ConfigMaps().Informer()
	}
	return s
}

// Start starts the informer of the ConfigMap.
func (s *Source) Start(stop <-chan struct{}) {
	if s.configMap != nil {
		go s.configMap.Run(stop)
	}
}

// Synced are what to wait for before the rules are asked for.
func (s *Source) Synced() []cache.InformerSynced {
	out := []cache.InformerSynced{s.namespaces.Informer().HasSynced}
	if s.configMap != nil {
		out = append(out, s.configMap.HasSynced)
	}
	return out
}

// OnChange calls changed whenever rules may have changed.
func (s *Source) OnChange(changed func()) error {
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, DeleteFunc: func(any) { changed() },
		UpdateFunc: func(before, now any) {
			b, ok1 := before.(metav1.Object)
			n, ok2 := now.(metav1.Object)
			_, namespace := now.(*corev1.Namespace)
			if !ok1 || !ok2 || !namespace || !maps.Equal(b.GetAnnotations(), n.GetAnnotations()) {
				changed()
			}
		},
	}
	if _, err := s.namespaces.Informer().AddEventHandler(handler); err != nil {
		return fmt.Errorf("watch Namespaces: %w", err)
	}
	if s.configMap != nil {
		if _, err := s.configMap.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch ConfigMap %s/%s: %w", s.namespace, s.name, err)
		}
	}
	return nil
}

// Namespace returns a namespace, nil for one that doesn't exist. One that the informer doesn't
// know may be new, so the API server is asked about it.
func (s *Source) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	ns, err := s.namespaces.Lister().Get(name)
	if apierrors.IsNotFound(err) {
		ns, err = s.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Namespace %s: %w", name, err)
	}
	return ns, nil
}

// Rules returns those of a namespace.
func (s *Source) Rules(ctx context.Context, namespace string) (policy.Rules, error) {
	ns, err := s.Namespace(ctx, namespace)
	if err != nil {
		return policy.Rules{}, err
	}
	var annotations map[string]string
	if ns != nil {
		annotations = ns.Annotations
	}
	return policy.For(s.settings, namespace, annotations, s.book()), nil
}

func (s *Source) book() *policy.Book {
	if s.configMap == nil {
		return nil
	}
	book := &policy.Book{Name: "ConfigMap " + s.namespace + "/" + s.name}
	obj, found, err := s.configMap.GetStore().GetByKey(s.namespace + "/" + s.name)
	m, ok := obj.(*corev1.ConfigMap)
	if err != nil || !found || !ok {
		book.Missing = true
		return book
	}
	book.Entries, book.Errors = observe.Entries(m.Data)
	return book
}
