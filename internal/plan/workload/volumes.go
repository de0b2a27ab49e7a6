package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Volumes is where the volumes of a pod let it run.
type Volumes struct {
	// Selectors must all match a node.
	Selectors []*corev1.NodeSelector
	// Missing is why the pod can't start anywhere yet.
	Missing string
}

// VolumeSource finds what volumes are made of; each returns nil for what isn't there.
type VolumeSource interface {
	Claim(namespace, name string) *corev1.PersistentVolumeClaim
	Volume(name string) *corev1.PersistentVolume
	Class(name string) *storagev1.StorageClass
}

// VolumesOf returns where the volumes of a pod let it run: at the node affinity of
// those that exist, and in the topologies of the class of those that are made
// for the node once it is chosen.
func VolumesOf(pod *corev1.Pod, from VolumeSource) Volumes {
	var out Volumes
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		var name string
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = pod.Name + "-" + v.Name
		default:
			continue
		}
		selector, missing := claimed(from, pod.Namespace, name)
		if selector != nil {
			out.Selectors = append(out.Selectors, selector)
		}
		if missing != "" && out.Missing == "" {
			out.Missing = missing
		}
	}
	return out
}

func claimed(from VolumeSource, namespace, name string) (*corev1.NodeSelector, string) {
	claim := from.Claim(namespace, name)
	if claim == nil {
		return nil, fmt.Sprintf("its PersistentVolumeClaim %s doesn't exist", name)
	}
	if claim.Spec.VolumeName != "" {
		pv := from.Volume(claim.Spec.VolumeName)
		switch {
		case pv == nil:
			return nil, fmt.Sprintf("PersistentVolume %s of its claim %s doesn't exist", claim.Spec.VolumeName, name)
		case pv.Spec.NodeAffinity == nil:
			return nil, ""
		}
		return pv.Spec.NodeAffinity.Required, ""
	}
	var class *storagev1.StorageClass
	if claim.Spec.StorageClassName != nil {
		class = from.Class(*claim.Spec.StorageClassName)
	}
	if class == nil || class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return nil, fmt.Sprintf("its PersistentVolumeClaim %s isn't bound to a volume yet", name)
	}
	return topologies(class.AllowedTopologies), ""
}

// topologies returns the terms of a storage class as a node selector.
func topologies(terms []corev1.TopologySelectorTerm) *corev1.NodeSelector {
	if len(terms) == 0 {
		return nil
	}
	out := &corev1.NodeSelector{}
	for _, t := range terms {
		var term corev1.NodeSelectorTerm
		for _, e := range t.MatchLabelExpressions {
			term.MatchExpressions = append(term.MatchExpressions,
				corev1.NodeSelectorRequirement{Key: e.Key, Operator: corev1.NodeSelectorOpIn, Values: e.Values})
		}
		out.NodeSelectorTerms = append(out.NodeSelectorTerms, term)
	}
	return out
}
