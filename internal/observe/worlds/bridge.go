package worlds

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/policy"
	"github.com/slinky-hpc/slinky/internal/plan/redact"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// bridgeFacts reads what the bridge's planners need, nil where no bridge is known.
func (s Sources) bridgeFacts(ctx context.Context, a *asker, f *view.Facts) *view.Bridge {
	if s.bridge == nil {
		if s.noBridge != nil && !absent(s.noBridge) {
			a.lacks(view.Part{What: view.PartBridge}, lacking("list", "configmaps", ""), s.noBridge)
		}
		return nil
	}
	cluster := ""
	if system, err := s.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{}); err != nil {
		a.lacks(view.Part{What: view.PartCluster}, fmt.Sprintf("you may not get namespace %s", metav1.NamespaceSystem), err)
	} else {
		cluster = string(system.UID)
	}
	out := s.bridge.settings(cluster)
	list, err := s.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	switch {
	case err == nil:
		out.Slices = list.Items
	case !apierrors.IsNotFound(err):
		a.lacks(view.Part{What: view.PartSlices}, "you may not list resourceslices.resource.k8s.io of the cluster", err)
	}
	g := &groupReader{asker: a, Groups: &view.Groups{Kinds: s.bridge.kinds(), Rules: policy.Settings{Restricted: s.bridge.Policy == "Restricted", Partition: s.bridge.Partition}}}
	g.rules(ctx, *s.bridge)
	g.objectsOfPods(ctx)
	g.owners(ctx, *s.bridge, f, out.Policy.SchedulerName)
	out.Groups = g.Groups
	return out
}

// kinds are the kinds of owners that count by configuration.
func (b bridge) kinds() workload.Kinds {
	var out workload.Kinds
	for _, k := range b.OwnerKinds {
		out.Owners = append(out.Owners, workload.OwnerKind{GroupKind: schema.GroupKind{Group: k.Group, Kind: k.Kind}, GangLabel: k.GangLabel})
	}
	return out
}

// groupReader reads what tells which pods start together.
type groupReader struct {
	*asker
	*view.Groups
}

// rules reads what the jobs of a namespace may ask for.
func (g *groupReader) rules(ctx context.Context, b bridge) {
	all, err := g.metadata(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", "")
	if err != nil {
		g.lacks(view.Part{What: view.PartRules}, "you may not list namespaces of the cluster", err)
	}
	g.Namespaces = map[string]map[string]string{}
	for i := range all {
		if ours := redact.Annotations(all[i].Annotations); len(ours) > 0 {
			g.Namespaces[all[i].Name] = ours
		}
	}
	if b.PolicyConfigMap == "" {
		return
	}
	g.Book = &policy.Book{Name: "ConfigMap " + b.namespace + "/" + b.PolicyConfigMap}
	m, err := g.kube.CoreV1().ConfigMaps(b.namespace).Get(ctx, b.PolicyConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		g.Book.Missing = true
	case err != nil:
		g.lacks(view.Part{What: view.PartRules}, fmt.Sprintf("you may not get configmaps in namespace %s", b.namespace), err)
	default:
		g.Book.Entries, g.Book.Errors = observe.Entries(m.Data)
	}
}

// objectsOfPods reads the objects that pods name as what they belong to.
func (g *groupReader) objectsOfPods(ctx context.Context) {
	readKind(ctx, g.asker, view.PartPodGroups, workload.PodGroups(), &g.PodGroups, slimGroup(workload.PodGroupOf))
	readKind(ctx, g.asker, view.PartCoscheduling, workload.CoschedulingPodGroups(), &g.Coscheduling, slimGroup(workload.CoschedulingOf))
	readKind(ctx, g.asker, view.PartSets, workload.LeaderWorkerSets(), &g.Sets, slimSet)
	version, err := observe.Served(g.kube.Discovery(), workload.Workloads())
	if err != nil {
		g.lacks(view.Part{What: view.PartWorkloads}, "", err)
	}
	if version.Empty() {
		return
	}
	g.visible(view.PartWorkloads, version.GroupResource().String(), func(namespace string) error {
		list, err := g.metadata(ctx, version, namespace, "")
		g.Workloads = map[string]map[string]string{}
		for i := range list {
			g.Workloads[list[i].Namespace+"/"+list[i].Name] = redact.Annotations(list[i].Annotations)
		}
		return err
	})
}

// readKind reads all objects of a kind, in the version that the API server has.
func readKind[T any](ctx context.Context, a *asker, what string, versions workload.Versions, into *view.Served[T], of func(*unstructured.Unstructured) (T, error)) {
	version, err := observe.Served(a.kube.Discovery(), versions)
	if err != nil {
		a.lacks(view.Part{What: what}, "", err)
	}
	if version.Empty() {
		return
	}
	into.Known = true
	a.visible(what, version.GroupResource().String(), func(namespace string) error {
		list, err := a.objects(ctx, version, namespace)
		for i := range list {
			u := &list[i]
			v, err := of(u)
			if err == nil {
				into.Items = append(into.Items, v)
				continue
			}
			if into.Unreadable == nil {
				into.Unreadable = map[string]string{}
			}
			into.Unreadable[u.GetNamespace()+"/"+u.GetName()] = err.Error()
		}
		return err
	})
}

func slimGroup(of func(*unstructured.Unstructured) (workload.PodGroup, error)) func(*unstructured.Unstructured) (workload.PodGroup, error) {
	return func(u *unstructured.Unstructured) (workload.PodGroup, error) {
		g, err := of(u)
		g.ObjectMeta = redact.Meta(g.ObjectMeta)
		return g, err
	}
}

func slimSet(u *unstructured.Unstructured) (workload.LeaderWorkerSet, error) {
	s, err := workload.LeaderWorkerSetOf(u)
	s.ObjectMeta = redact.Meta(s.ObjectMeta)
	if s.Worker != nil {
		slim := view.SlimTemplate(*s.Worker)
		s.Worker = &slim
	}
	return s, err
}
