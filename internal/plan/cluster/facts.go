package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Object is an object to apply.
type Object interface {
	metav1.Object
	runtime.Object
}

// Images are the images of containers for which a custom resource names none.
type Images struct{ Slurmctld, Slurmdbd, Slurmrestd, Slurmd, Login string }

// ImagesOf returns the images of a registry folder with a tag.
func ImagesOf(folder, tag string) Images {
	image := func(name string) string { return folder + "/" + name + ":" + tag }
	return Images{
		Slurmctld: image(v1beta1.NameSlurmctld), Slurmdbd: image(v1beta1.NameSlurmdbd),
		Slurmrestd: image(v1beta1.NameSlurmrestd), Slurmd: image(v1beta1.NameSlurmd), Login: image(v1beta1.NameLogin),
	}
}

// Problem is something that a person has to change. The plan holds all that is right without it.
type Problem struct {
	// Reason is one of the API's condition reasons.
	Reason string
	// Message says what is wrong, where, and what to do.
	Message string
}

// Plan is what should exist.
type Plan struct {
	// Objects in the order to apply them. Objects that were applied before and are missing
	// here because of a problem are left as they are.
	Objects  []Object
	Problems []Problem
	// Recreate is what has to go first, nil for nothing.
	Recreate *Recreate
}

// Recreate is an object to delete because Kubernetes can't change it.
type Recreate struct {
	Object Object
	// KeepPods leaves its pods running, for the object that takes its place.
	KeepPods bool
	Why      string
}

func (p *Plan) problem(reason, message string) {
	p.Problems = append(p.Problems, Problem{Reason: reason, Message: message})
}

// checksum is the hash that pod templates carry of what their pods read.
func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// checksumOfMap is the checksum of the values in the order of their keys, "" without any text.
func checksumOfMap(m map[string]string) string {
	var all strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all.WriteString(m[k])
	}
	if all.Len() == 0 {
		return ""
	}
	return checksum([]byte(all.String()))
}

// labels are what the operator's objects carry, and what selectors use.
func labels(name, instance, component string) map[string]string {
	return map[string]string{
		v1beta1.LabelName: name, v1beta1.LabelInstance: instance, v1beta1.LabelComponent: component,
	}
}

// selector is the part of labels that a workload's immutable selector uses.
func selector(name, instance string) map[string]string {
	return map[string]string{v1beta1.LabelName: name, v1beta1.LabelInstance: instance}
}

// ownedBy makes owner responsible for an object.
func ownedBy(owner metav1.Object, kind string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{
		APIVersion: v1beta1.GroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID(),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}}
}

func named(ref *corev1.LocalObjectReference) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}
