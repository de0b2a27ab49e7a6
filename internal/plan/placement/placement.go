// Package placement turns what Slurm granted a job into a node for each pod. It is pure.
package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// SlurmName returns the name that a Kubernetes node has in Slurm.
func SlurmName(node *corev1.Node) string {
	if name := node.Labels[v1beta1.LabelSlurmNodeName]; name != "" {
		return name
	}
	return node.Name
}

// Names maps Slurm node names to Kubernetes node names. A node whose label
// claims a name goes before the node that bears it.
func Names(nodes []*corev1.Node) map[string]string {
	names := make(map[string]string, len(nodes))
	for _, n := range nodes {
		slurmName := SlurmName(n)
		if _, taken := names[slurmName]; taken && slurmName == n.Name {
			continue
		}
		names[slurmName] = n.Name
	}
	return names
}

// Place gives pod i of a job the Kubernetes node of the job's node i: pods come
// in rank order and Slurm lists nodes in its own order, which follows topology.
func Place(pods []types.UID, slurmNodes []string, names map[string]string) (map[types.UID]string, error) {
	if len(slurmNodes) < len(pods) {
		return nil, fmt.Errorf("the job has %d nodes for %d pods", len(slurmNodes), len(pods))
	}
	placed := make(map[types.UID]string, len(pods))
	for i, pod := range pods {
		node, ok := names[slurmNodes[i]]
		if !ok {
			return nil, fmt.Errorf("Slurm node %s is no Kubernetes node: give the Kubernetes node that it is the label %s=%s",
				slurmNodes[i], v1beta1.LabelSlurmNodeName, slurmNodes[i])
		}
		placed[pod] = node
	}
	return placed, nil
}
