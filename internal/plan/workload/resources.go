package workload

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Versions are a resource that an API server may have in one of some versions, the best first.
type Versions []schema.GroupVersionResource

func versions(group, resource string, versions ...string) Versions {
	out := make(Versions, 0, len(versions))
	for _, v := range versions {
		out = append(out, schema.GroupVersionResource{Group: group, Version: v, Resource: resource})
	}
	return out
}

const groupScheduling = "scheduling.k8s.io"

// PodGroups are those of scheduling.k8s.io, of which PodGroupOf reads all.
func PodGroups() Versions {
	return versions(groupScheduling, "podgroups", "v1beta1", "v1alpha3", "v1alpha2")
}

// Workloads are what PodGroups of scheduling.k8s.io are made from; their annotations count.
func Workloads() Versions {
	return versions(groupScheduling, "workloads", "v1beta1", "v1alpha3", "v1alpha2")
}

// CoschedulingPodGroups are PodGroups of scheduling.x-k8s.io, which CoschedulingOf reads.
func CoschedulingPodGroups() Versions {
	return versions("scheduling.x-k8s.io", "podgroups", "v1alpha1")
}

// LeaderWorkerSets are what LeaderWorkerSetOf reads.
func LeaderWorkerSets() Versions {
	return versions("leaderworkerset.x-k8s.io", "leaderworkersets", "v1")
}

// OwnerResources returns the resources of kinds that pods and their owners are usually
// controlled by, besides Jobs and pods.
func OwnerResources() map[schema.GroupVersionKind]string {
	return map[schema.GroupVersionKind]string{
		{Group: "apps", Version: "v1", Kind: "ReplicaSet"}:                          "replicasets",
		{Group: "apps", Version: "v1", Kind: "Deployment"}:                          "deployments",
		{Group: "apps", Version: "v1", Kind: "StatefulSet"}:                         "statefulsets",
		{Version: "v1", Kind: "ReplicationController"}:                              "replicationcontrollers",
		{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}:             "jobsets",
		{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}: "leaderworkersets",
	}
}
