package workload

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Member is a pod with the owners above it, the lowest first.
type Member struct {
	Pod    *corev1.Pod
	Owners []Owner
	// Unread is, where the walk up ended too early, the owner that couldn't be read, and Why.
	Unread *Owner
	Why    string
}

// Objects are what the objects that a key names say. Those that don't exist are nil.
type Objects struct {
	// Served tells whether the API server has the kind of the key at all.
	Served bool
	// PodGroup is of the kind that the key has.
	PodGroup *PodGroup
	// Workload holds the annotations of the Workload that PodGroup was made from.
	Workload map[string]string
	Set      *LeaderWorkerSet
}

// Split returns the workloads that pods of one key are. They are several where pods of a
// group that is going meet those of the one that replaces it, and where some only claim to be of it.
func (k Kinds) Split(key Key, members []Member, o Objects) []Observed {
	switch key.Kind {
	case KindPod:
		return k.alone(key, members)
	case KindPodGroup:
		return []Observed{{Group: k.podGroup(key, members, o), Pods: podsOf(members), PodGroup: o.PodGroup, Object: o.PodGroup.reference()}}
	case KindCoscheduling:
		return k.coscheduling(key, members, o)
	case KindLeaderWorkerSet:
		return k.leaderWorkerSet(key, members, o)
	}
	return k.gang(key, members)
}

// alone makes a workload of each pod.
func (k Kinds) alone(key Key, members []Member) []Observed {
	out := make([]Observed, 0, len(members))
	for _, m := range members {
		g := OfPod(m.Pod, k.Root(m.Owners))
		g.Key = key
		if m.Unread != nil && m.Why != "" {
			g.Note = fmt.Sprintf("%s %s, which owns the pod, %s: its annotations don't count", m.Unread.Kind.Kind, m.Unread.Name, m.Why)
		}
		out = append(out, Observed{Group: g, Pods: []*corev1.Pod{m.Pod}})
	}
	return out
}

func (k Kinds) podGroup(key Key, members []Member, o Objects) Group {
	if o.PodGroup == nil {
		g := Group{Key: key}
		if !o.Served {
			g.Missing = fmt.Sprintf("%s doesn't exist: the API server has no PodGroups", key)
		}
		return g
	}
	return OfPodGroup(*o.PodGroup, k.Root(members[0].Owners), o.Workload)
}

// coscheduling treats pods alone where there can be no PodGroup, as the published bridge does.
func (k Kinds) coscheduling(key Key, members []Member, o Objects) []Observed {
	if !o.Served {
		out := k.alone(key, members)
		for i := range out {
			out[i].Group.Note = fmt.Sprintf("label %s has no effect, and the pod starts alone: the API server has no PodGroups of scheduling.x-k8s.io",
				LabelCoscheduling)
		}
		return out
	}
	g := Group{Key: key}
	if o.PodGroup != nil {
		g = OfCoscheduling(*o.PodGroup)
	}
	return []Observed{{Group: g, Pods: podsOf(members), PodGroup: o.PodGroup, Object: o.PodGroup.reference()}}
}

// leaderWorkerSet makes a workload of each leader with its workers.
func (k Kinds) leaderWorkerSet(key Key, members []Member, o Objects) []Observed {
	if o.Set == nil {
		g := Group{Key: key, Missing: fmt.Sprintf("LeaderWorkerSet %s/%s doesn't exist", key.Namespace, LeaderWorkerSetName(members[0].Pod))}
		if !o.Served {
			g.Missing += ": the API server has no LeaderWorkerSets"
		}
		return []Observed{{Pods: podsOf(members), Group: g}}
	}
	var out []Observed
	b := buckets{}
	for _, m := range members {
		leader := leaderOf(m)
		switch {
		case leader == "" || m.Unread == nil && !m.below(o.Set.UID):
			out = append(out, k.alone(key, []Member{m})...)
		default:
			b.add(leader, m)
		}
	}
	for _, leader := range b.order {
		members := b.members[leader]
		g := Group{Key: key}
		if i := slices.IndexFunc(members, func(m Member) bool { return m.below(o.Set.UID) }); i >= 0 {
			g = OfLeaderWorkerSet(*o.Set, key, leader, podsOf(members))
		} else {
			g.Missing = fmt.Sprintf("%s %s/%s %s", members[0].Unread.Kind.Kind, key.Namespace, members[0].Unread.Name, members[0].Why)
		}
		out = append(out, Observed{Group: g, Pods: podsOf(members), Object: &corev1.ObjectReference{
			APIVersion: "leaderworkerset.x-k8s.io/v1", Kind: groupKindLWS.Kind, Namespace: o.Set.Namespace, Name: o.Set.Name, UID: o.Set.UID,
		}})
	}
	return out
}

// leaderOf returns the UID of the leader pod of a member, "" if it has none.
func leaderOf(m Member) types.UID {
	if m.Pod.Labels[lwsWorkerIndex] == "0" {
		return m.Pod.UID
	}
	owners := m.Owners
	if m.Unread != nil {
		owners = append(slices.Clone(owners), *m.Unread)
	}
	for _, o := range owners {
		if o.Kind == groupKindPod {
			return o.UID
		}
	}
	return ""
}

// gang makes a workload of the pods below each owner of the configured kind.
func (k Kinds) gang(key Key, members []Member) []Observed {
	kind, _ := k.Gang(key.Kind)
	var out []Observed
	b := buckets{}
	for _, m := range members {
		root := k.Root(m.Owners)
		switch {
		case root != nil && root.Kind == kind.GroupKind:
			b.add(root.UID, m)
		case m.Unread != nil && m.Unread.Kind == kind.GroupKind:
			b.add(m.Unread.UID, m)
		default:
			out = append(out, k.alone(key, []Member{m})...)
		}
	}
	for _, uid := range b.order {
		members := b.members[uid]
		g := Group{Key: key}
		if root := k.Root(members[0].Owners); root != nil && root.UID == uid {
			g = OfGang(key, *root)
		} else {
			g.Missing = fmt.Sprintf("%s %s/%s, whose pods start together, %s", kind.Kind, key.Namespace, members[0].Unread.Name, members[0].Why)
		}
		out = append(out, Observed{Group: g, Pods: podsOf(members)})
	}
	return out
}

func (m Member) below(uid types.UID) bool {
	return slices.ContainsFunc(m.Owners, func(o Owner) bool { return o.UID == uid })
}

func podsOf(members []Member) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(members))
	for _, m := range members {
		pods = append(pods, m.Pod)
	}
	return pods
}

// buckets are members by a UID, in the order in which the UIDs were first met.
type buckets struct {
	order   []types.UID
	members map[types.UID][]Member
}

func (b *buckets) add(uid types.UID, m Member) {
	if b.members == nil {
		b.members = map[types.UID][]Member{}
	}
	if b.members[uid] == nil {
		b.order = append(b.order, uid)
	}
	b.members[uid] = append(b.members[uid], m)
}
