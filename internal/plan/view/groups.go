package view

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/policy"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// Groups are what tells which pods of the bridge start together, and what their jobs may ask
// for. Its texts are as they were read, as planners compare them; what planners say of them is cleaned.
type Groups struct {
	// Kinds are those of owners that count by configuration.
	Kinds workload.Kinds
	// Rules are set for all namespaces, and Book is the administrator's ConfigMap, nil for none.
	Rules policy.Settings
	Book  *policy.Book `json:",omitempty"`
	// Namespaces are Slinky's annotations of Namespaces.
	Namespaces   map[string]map[string]string `json:",omitempty"`
	PodGroups    Served[workload.PodGroup]
	Coscheduling Served[workload.PodGroup]
	Sets         Served[workload.LeaderWorkerSet]
	// Workloads are Slinky's annotations of those, by namespace/name.
	Workloads map[string]map[string]string `json:",omitempty"`
	// Owners are those of the bridge's pods, and theirs; pods aren't among them.
	Owners []PodOwner `json:",omitempty"`
	// OwnerKinds tell of kinds of owners, as "batch/v1 Job", why none of them can be read; "" where they can.
	OwnerKinds map[string]string `json:",omitempty"`
}

// Served are the objects of a kind that the API server may not have.
type Served[T any] struct {
	// Known tells whether the API server has the kind.
	Known bool
	Items []T `json:",omitempty"`
	// Unreadable are objects that aren't what their kind should be, by namespace/name, with why.
	Unreadable map[string]string `json:",omitempty"`
}

// PodOwner is an owner of pods with who controls it.
type PodOwner struct {
	workload.Owner
	Controller *metav1.OwnerReference `json:",omitempty"`
}

// named are the objects of a kind by namespace/name.
type named[T any] struct {
	*Served[T]
	what string
	by   map[string]*T
}

func byName[T any](k *Served[T], what string, of func(*T) *metav1.ObjectMeta) named[T] {
	out := named[T]{k, what, make(map[string]*T, len(k.Items))}
	for i := range k.Items {
		m := of(&k.Items[i])
		out.by[m.Namespace+"/"+m.Name] = &k.Items[i]
	}
	return out
}

// find returns an object, nil if there is none, and whether the API server has the kind.
func (n named[T]) find(namespace, name string) (*T, bool, error) {
	key := namespace + "/" + name
	if why := n.Unreadable[key]; why != "" {
		return nil, true, fmt.Errorf("%s %s can't be read: %s", n.what, key, why)
	}
	return n.by[key], n.Known, nil
}

func metaOfGroup(g *workload.PodGroup) *metav1.ObjectMeta      { return &g.ObjectMeta }
func metaOfSet(s *workload.LeaderWorkerSet) *metav1.ObjectMeta { return &s.ObjectMeta }

// unreadError says which fact a planner lacks.
type unreadError struct{ what, why string }

func (e unreadError) Error() string {
	return lacking(e.what, e.why)
}

// grouper gathers the workloads that are in facts.
type grouper struct {
	*Model
	*Groups
	owners                  map[types.UID]*PodOwner
	pods                    map[types.UID]*corev1.Pod
	podGroups, coscheduling named[workload.PodGroup]
	sets                    named[workload.LeaderWorkerSet]
}

func (m *Model) grouper() *grouper {
	all := m.Bridge.Groups
	g := &grouper{
		Model: m, Groups: all, owners: map[types.UID]*PodOwner{}, pods: map[types.UID]*corev1.Pod{},
		podGroups: byName(&all.PodGroups, "PodGroup", metaOfGroup), coscheduling: byName(&all.Coscheduling, "PodGroup of scheduling.x-k8s.io", metaOfGroup),
		sets: byName(&all.Sets, "LeaderWorkerSet", metaOfSet),
	}
	for i := range g.Owners {
		g.owners[g.Owners[i].UID] = &g.Owners[i]
	}
	for i := range m.Kubernetes.Pods {
		g.pods[m.Kubernetes.Pods[i].UID] = &m.Kubernetes.Pods[i]
	}
	return g
}

// lacks is an error if a part isn't known of a namespace.
func (g *grouper) lacks(what, namespace string) error {
	if why := g.Unread.why(what, namespace); why != "" {
		return unreadError{what, why}
	}
	return nil
}

// objects returns what a key names.
func (g *grouper) objects(key workload.Key, pod *corev1.Pod) (o workload.Objects, err error) {
	switch key.Kind {
	case workload.KindPodGroup:
		if err := g.lacks(PartPodGroups, key.Namespace); err != nil {
			return o, err
		}
		if o.PodGroup, o.Served, err = g.podGroups.find(key.Namespace, key.Name); o.PodGroup == nil || o.PodGroup.Workload == "" {
			return o, err
		}
		o.Workload = g.Workloads[key.Namespace+"/"+o.PodGroup.Workload]
		return o, g.lacks(PartWorkloads, key.Namespace)
	case workload.KindCoscheduling:
		if err := g.lacks(PartCoscheduling, key.Namespace); err != nil {
			return o, err
		}
		o.PodGroup, o.Served, err = g.coscheduling.find(key.Namespace, key.Name)
	case workload.KindLeaderWorkerSet:
		if err := g.lacks(PartSets, key.Namespace); err != nil {
			return o, err
		}
		o.Set, o.Served, err = g.sets.find(key.Namespace, workload.LeaderWorkerSetName(pod))
	}
	return o, err
}

// owner returns one owner, and who controls it, or why the bridge can't read it.
func (g *grouper) owner(namespace string, ref metav1.OwnerReference) (workload.Owner, *metav1.OwnerReference, string, error) {
	o := workload.OwnerOf(ref)
	if ref.APIVersion == "v1" && ref.Kind == "Pod" {
		pod := g.pods[ref.UID]
		if pod == nil {
			return o, nil, workload.OwnerGone, nil
		}
		o.Annotations = pod.Annotations
		return o, metav1.GetControllerOf(pod), "", nil
	}
	if why := g.OwnerKinds[OwnerKind(ref)]; why != "" {
		return o, nil, why, nil
	}
	if err := g.lacks(PartOwners(ref.Kind), namespace); err != nil {
		return o, nil, "", err
	}
	if found := g.owners[ref.UID]; found != nil {
		return found.Owner, found.Controller, "", nil
	}
	if _, read := g.OwnerKinds[OwnerKind(ref)]; !read {
		return o, nil, "", unreadError{PartOwners(ref.Kind), "they weren't read"}
	}
	return o, nil, workload.OwnerGone, nil
}

// OwnerKind is a kind of owners as OwnerKinds name it.
func OwnerKind(ref metav1.OwnerReference) string { return ref.APIVersion + " " + ref.Kind }
