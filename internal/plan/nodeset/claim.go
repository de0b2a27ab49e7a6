package nodeset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// claims are the PersistentVolumeClaims whose names end in suffix, by the name of their template.
func (p *planner) claims(suffix string) (map[string]*corev1.PersistentVolumeClaim, error) {
	n := p.NodeSet
	out := map[string]*corev1.PersistentVolumeClaim{}
	for i, template := range n.Spec.VolumeClaimTemplates {
		var c corev1.PersistentVolumeClaim
		if err := template.Decode(&c); err != nil {
			return nil, fmt.Errorf("volumeClaimTemplates[%d]: %w", i, err)
		}
		if c.Name == "" {
			return nil, fmt.Errorf("volumeClaimTemplates[%d].metadata.name is empty", i)
		}
		labels := map[string]string{}
		maps.Copy(labels, c.Labels)
		maps.Copy(labels, Selector(n.Name))
		out[c.Name] = &corev1.PersistentVolumeClaim{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{
				Name: c.Name + "-" + n.Name + "-" + suffix, Namespace: n.Namespace, Labels: labels, Annotations: c.Annotations,
				OwnerReferences: p.claimOwners(nil),
			},
			Spec: c.Spec,
		}
	}
	return out, nil
}

// claimOwners are the owners of a claim by the retention policy: with whom it goes. leaving
// is its pod if that is given up by a scale-in.
func (p *planner) claimOwners(leaving *corev1.Pod) []metav1.OwnerReference {
	policy := p.NodeSet.Spec.PersistentVolumeClaimRetentionPolicy
	switch {
	case policy.WhenScaled == v1beta1.ClaimDelete && leaving != nil:
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: leaving.Name, UID: leaving.UID}}
	case policy.WhenDeleted == v1beta1.ClaimDelete:
		return []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindNodeSet, Name: p.NodeSet.Name, UID: p.NodeSet.UID}}
	}
	return nil
}

// keepClaims gives the claims of the workers the owners that the retention policy says. Owners
// that aren't the operator's stay.
func (p *planner) keepClaims(condemned map[string]doom) {
	if len(p.NodeSet.Spec.VolumeClaimTemplates) == 0 || p.deleting() {
		return
	}
	for _, w := range p.live {
		claims, err := p.claims(p.claimSuffix(w.slot, w.pod.Spec.Hostname))
		if err != nil {
			return // it is said where pods are made
		}
		var leaving *corev1.Pod
		if condemned[w.pod.Name].scaled {
			leaving = w.pod
		}
		for _, template := range slices.Sorted(maps.Keys(claims)) {
			have := p.Claims[claims[template].Name]
			if have == nil || have.DeletionTimestamp != nil {
				continue
			}
			want := slices.Concat(slices.DeleteFunc(slices.Clone(have.OwnerReferences), p.ownsClaims), p.claimOwners(leaving))
			if slices.EqualFunc(want, have.OwnerReferences, sameOwner) {
				continue
			}
			owned := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: have.Namespace, Name: have.Name, UID: have.UID, ResourceVersion: have.ResourceVersion, OwnerReferences: want}}
			p.step(Step{Action: OwnClaim, Claim: owned, Slot: w.slot, Reason: "spec.persistentVolumeClaimRetentionPolicy"})
		}
	}
}

// ownsClaims tells whether the operator set an owner: the NodeSet, or one of its pods.
func (p *planner) ownsClaims(o metav1.OwnerReference) bool {
	return o.UID == p.NodeSet.UID || o.Kind == "Pod" && strings.HasPrefix(o.Name, p.NodeSet.Name+"-")
}

func sameOwner(a, b metav1.OwnerReference) bool { return a.UID == b.UID && a.Name == b.Name }
