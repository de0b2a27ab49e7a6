package nodeset

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// status fills in the counters. What Slurm doesn't tell keeps its last value.
func (p *planner) status() {
	old := p.NodeSet.Status
	s := v1beta1.NodeSetStatus{
		Desired: p.desired(), ObservedGeneration: p.NodeSet.Generation, NodeSetHash: p.hash,
		Selector:       labels.SelectorFromSet(Selector(p.NodeSet.Name)).String(),
		CollisionCount: p.collisions, OrdinalToNode: p.ordinalToNode(), Status: old.Status, Autoscaling: old.Autoscaling,
		SlurmIdle: old.SlurmIdle, SlurmAllocated: old.SlurmAllocated, SlurmDown: old.SlurmDown, SlurmDrain: old.SlurmDrain,
	}
	if s.NodeSetHash == "" {
		s.NodeSetHash = old.NodeSetHash
	}
	s.Replicas = int32(len(p.Pods))
	for _, w := range p.live {
		if !w.old {
			s.UpdatedReplicas++
		}
		if workernode.Ready(w.pod) {
			s.ReadyReplicas++
			if p.available(w.pod) {
				s.AvailableReplicas++
			}
		}
	}
	s.UnavailableReplicas = max(0, s.Desired-s.AvailableReplicas)
	if p.Slurm.Known {
		p.countSlurm(&s)
	}
	s.Conditions = p.reservationCondition(s.Conditions)
	p.plan.Status = s
}

func (p *planner) countSlurm(s *v1beta1.NodeSetStatus) {
	s.SlurmIdle, s.SlurmAllocated, s.SlurmDown, s.SlurmDrain = 0, 0, 0, 0
	for _, w := range p.workers() {
		states := p.Slurm.Nodes[w.node].States
		switch {
		case states.HasAny(slurm.NodeAllocated, slurm.NodeMixed):
			s.SlurmAllocated++
		case states.Has(slurm.NodeDown):
			s.SlurmDown++
		case states.Has(slurm.NodeIdle):
			s.SlurmIdle++
		}
		if states.Has(slurm.NodeDrain) {
			s.SlurmDrain++
		}
	}
}

// Selector selects a NodeSet's pods.
func Selector(nodeSet string) map[string]string {
	return map[string]string{v1beta1.LabelName: v1beta1.NameSlurmd, v1beta1.LabelInstance: nodeSet}
}
