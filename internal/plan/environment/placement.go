package environment

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Annotations are the names of the annotations that tell a pod about its place in the job.
func Annotations() []string {
	return []string{
		v1beta1.AnnotationNodeList, v1beta1.AnnotationNodeCount, v1beta1.AnnotationNodeID, v1beta1.AnnotationNodeName,
		v1beta1.AnnotationRank, v1beta1.AnnotationSize, v1beta1.AnnotationLocalRank, v1beta1.AnnotationPeers, v1beta1.AnnotationFirstPeer,
	}
}

// Job is what a Slurm job gave to its pods.
type Job struct {
	// NodeList is the list of its nodes as Slurm writes it, Nodes the names in it.
	NodeList string
	Nodes    []string
	// Members are the job's pods by rank.
	Members []Member
	// Index is set where the job has one pod of an Indexed Job: its ranks are those of the Job.
	Index *Index
}

// Index is the place of a pod among the completions of an Indexed Job.
type Index struct {
	Job        string
	Rank, Size int
}

// Member is a pod of a job and where it is.
type Member struct {
	UID types.UID
	// Pod is nil for one that is gone; Name is its name all the same.
	Pod  *corev1.Pod
	Name string
	// Node is the Slurm name of its node, "" where it isn't known here.
	Node string
}

// Told returns the annotations that tell a member about its place, those alone that its
// containers or volumes read: a list of a thousand peers in each of a thousand pods that
// don't look at it would be a burden to all.
func (j Job) Told(uid types.UID) map[string]string {
	i := slices.IndexFunc(j.Members, func(m Member) bool { return m.UID == uid })
	if i < 0 || j.Members[i].Pod == nil {
		return nil
	}
	out := map[string]string{}
	for _, key := range Annotations() {
		if reads(j.Members[i].Pod, key) {
			out[key] = j.value(key, i)
		}
	}
	return out
}

func (j Job) value(key string, i int) string {
	switch key {
	case v1beta1.AnnotationNodeList:
		return j.NodeList
	case v1beta1.AnnotationNodeCount:
		return strconv.Itoa(len(j.Nodes))
	case v1beta1.AnnotationNodeID:
		return strconv.Itoa(max(0, slices.Index(j.Nodes, j.Members[i].Node)))
	case v1beta1.AnnotationNodeName:
		return j.Members[i].Node
	case v1beta1.AnnotationLocalRank:
		return strconv.Itoa(j.local(i))
	case v1beta1.AnnotationRank:
		if j.Index != nil {
			return strconv.Itoa(j.Index.Rank)
		}
		return strconv.Itoa(i)
	case v1beta1.AnnotationSize:
		return strconv.Itoa(len(j.peers()))
	case v1beta1.AnnotationFirstPeer:
		return j.peers()[0]
	case v1beta1.AnnotationPeers:
		return strings.Join(j.peers(), ",")
	}
	return ""
}

// peers are the names of the pods by rank.
func (j Job) peers() []string {
	if j.Index != nil && j.Index.Size > 0 {
		out := make([]string, j.Index.Size)
		for i := range out {
			out[i] = hostOf(fmt.Sprintf("%s-%d", j.Index.Job, i), j.Members[0].Pod)
		}
		return out
	}
	out := make([]string, len(j.Members))
	for i, m := range j.Members {
		out[i] = m.Name
		if m.Pod != nil {
			out[i] = hostOf(cmp.Or(m.Pod.Spec.Hostname, m.Pod.Name), m.Pod)
		}
	}
	return out
}

// local counts the members before i on the same node.
func (j Job) local(i int) int {
	n := 0
	for _, m := range j.Members[:i] {
		if m.Node != "" && m.Node == j.Members[i].Node {
			n++
		}
	}
	return n
}

// hostOf returns the name by which others reach a host like a pod's: with a subdomain, the
// one that DNS knows within the namespace.
func hostOf(host string, like *corev1.Pod) string {
	if like.Spec.Subdomain == "" {
		return host
	}
	return host + "." + like.Spec.Subdomain
}

// reads tells whether a pod reads one of its annotations by the downward API.
func reads(pod *corev1.Pod, key string) bool {
	path := "metadata.annotations['" + key + "']"
	is := func(r *corev1.ObjectFieldSelector) bool { return r != nil && r.FieldPath == path }
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			for _, v := range c.Env {
				if v.ValueFrom != nil && is(v.ValueFrom.FieldRef) {
					return true
				}
			}
		}
	}
	inItems := func(items []corev1.DownwardAPIVolumeFile) bool {
		return slices.ContainsFunc(items, func(f corev1.DownwardAPIVolumeFile) bool { return is(f.FieldRef) })
	}
	for _, v := range pod.Spec.Volumes {
		if v.DownwardAPI != nil && inItems(v.DownwardAPI.Items) {
			return true
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.DownwardAPI != nil && inItems(s.DownwardAPI.Items) {
				return true
			}
		}
	}
	return false
}
