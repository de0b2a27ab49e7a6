package nodeset

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// claims are the PersistentVolumeClaims of an ordinal, by the name of their template.
func (p *planner) claims(ordinal int) (map[string]*corev1.PersistentVolumeClaim, error) {
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
		name := c.Name
		labels := map[string]string{}
		maps.Copy(labels, c.Labels)
		maps.Copy(labels, Selector(n.Name))
		claim := &corev1.PersistentVolumeClaim{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{
				Name:      fmt.Sprintf("%s-%s-%0*d", name, n.Name, n.Spec.OrdinalPadding, ordinal),
				Namespace: n.Namespace, Labels: labels, Annotations: c.Annotations,
			},
			Spec: c.Spec,
		}
		if n.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted == v1beta1.ClaimDelete {
			claim.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindNodeSet, Name: n.Name, UID: n.UID,
			}}
		}
		out[name] = claim
	}
	return out, nil
}
