// Package placement turns what Slurm granted a job into a node, cores, memory and
// devices for each pod. It is pure.
package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
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

// Grant is what one pod gets of its job's allocation. A pod that is alone on its
// node has all that the job has there, which may be more than it asked for; pods
// that share a node have what each asked for, and no core or device in common.
type Grant struct {
	// Node is the Kubernetes node, SlurmNode its name in Slurm.
	Node, SlurmNode string
	// Sockets and CoresPerSocket are the node's shape in Slurm.
	Sockets, CoresPerSocket int
	// Cores are Slurm's abstract core numbers, ascending.
	Cores []int
	// Memory is in MiB.
	Memory uint64
	// GRES are the generic resources; those that Slurm gives no index are only counted.
	GRES []slurm.GRESAllocation
}

// Equal tells whether two grants are the same.
func (g Grant) Equal(h Grant) bool {
	return g.Node == h.Node && g.SlurmNode == h.SlurmNode && g.Sockets == h.Sockets && g.CoresPerSocket == h.CoresPerSocket &&
		g.Memory == h.Memory && slices.Equal(g.Cores, h.Cores) &&
		slices.EqualFunc(g.GRES, h.GRES, func(a, b slurm.GRESAllocation) bool {
			return a.Name == b.Name && a.Type == b.Type && a.Count == b.Count && slices.Equal(a.Indexes, b.Indexes)
		})
}

// Cluster is what placing needs to know of the nodes.
type Cluster struct {
	// Names maps Slurm node names to Kubernetes node names.
	Names map[string]string
	// Threads is the number of threads of each core, by Slurm node name; 1 where it isn't known.
	Threads map[string]int
}

// TooSmallError says how a job is smaller than its pods need, as one is that somebody
// made smaller while it waited. More time makes it no greater.
type TooSmallError struct{ text string }

func (e TooSmallError) Error() string { return e.text }

func tooSmall(format string, args ...any) error { return TooSmallError{fmt.Sprintf(format, args...)} }

// Place divides the allocation of a job between the pods of its mark. The same mark
// and allocation give the same, whoever took the place of a pod meanwhile. Pods come
// in rank order, and Slurm lists nodes in its own order, which follows topology.
func Place(mark workload.Mark, nodes []slurm.NodeAllocation, c Cluster) (map[types.UID]Grant, error) {
	for _, n := range nodes {
		if c.Names[n.Node] == "" {
			return nil, fmt.Errorf("Slurm node %s is no Kubernetes node: give the Kubernetes node that it is the label %s=%s",
				n.Node, v1beta1.LabelSlurmNodeName, n.Node)
		}
	}
	if mark.Slots != nil {
		return share(mark, nodes, c)
	}
	if len(nodes) < len(mark.Pods) {
		return nil, tooSmall("the job has %d nodes for %d pods", len(nodes), len(mark.Pods))
	}
	placed := make(map[types.UID]Grant, len(mark.Pods))
	for i, pod := range mark.Pods {
		placed[pod] = whole(nodes[i], c)
	}
	return placed, nil
}

func whole(n slurm.NodeAllocation, c Cluster) Grant {
	return Grant{
		Node: c.Names[n.Node], SlurmNode: n.Node, Sockets: n.Sockets, CoresPerSocket: n.CoresPerSocket,
		Cores: n.Cores, Memory: n.Memory, GRES: n.GRES,
	}
}
