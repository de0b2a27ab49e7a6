package nodeset

import (
	"fmt"
	"strings"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/trouble"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// maxRefused is how many workers with a refused registration are told one by one.
const maxRefused = 5

// failing tells why workers don't run: of one of them, as most often all fail alike.
func (p *planner) failing() {
	first, more := "", 0
	for _, w := range p.workers() {
		if workernode.Ready(w.pod) {
			continue
		}
		switch text := trouble.OfWorker(w.pod); {
		case text == "":
		case first == "":
			first = text
		default:
			more++
		}
	}
	if first == "" {
		return
	}
	if more > 0 {
		first += fmt.Sprintf("; %d more workers don't run either", more)
	}
	p.problem(v1beta1.ReasonPodFailed, first)
}

// keepInStep keeps each worker's pod and Slurm node in step with each other. A pod that is
// deleted in this plan is not written to as well.
func (p *planner) keepInStep(condemned map[string]doom) {
	deleted := map[string]bool{}
	for _, s := range p.plan.Steps {
		if s.Action == DeletePod {
			deleted[s.Pod.Name] = true
		}
	}
	refused := 0
	for _, w := range p.workers() {
		if deleted[w.pod.Name] {
			continue
		}
		n, registered := p.Slurm.Nodes[w.node]
		side := workernode.Make(workernode.Facts{
			NodeSet: p.NodeSet, Pod: w.pod, Kube: p.Nodes[w.pod.Spec.NodeName], Remove: condemned[w.pod.Name].why,
			Propagated: p.NodeConditions, Name: w.node, Known: p.Slurm.Known, Registered: registered, Slurm: n, Deadline: p.Slurm.Deadlines[w.node], Now: p.Now,
		})
		if side.Problem != "" {
			if refused++; refused <= maxRefused {
				p.problem(v1beta1.ReasonInvalidRegistration, side.Problem)
			}
		}
		if side.Update != nil || len(side.Labels)+len(side.Annotations)+len(side.Conditions)+len(side.Gone) > 0 {
			kept := side // most workers need nothing, and nothing is allocated for them
			p.sideSteps(w, n, &kept)
		}
	}
	if more := refused - maxRefused; more > 0 {
		p.problem(v1beta1.ReasonInvalidRegistration, fmt.Sprintf("the same is true of %d more: sinfo --states=inval,drain", more))
	}
}

// sideSteps plans what one worker needs.
func (p *planner) sideSteps(w worker, n slurm.Node, side *workernode.Plan) {
	if u := side.Update; u != nil {
		p.step(Step{Action: Action(u.Action), Node: w.node, Reason: u.Why, Side: side})
	}
	if len(side.Labels)+len(side.Annotations) > 0 {
		p.step(Step{Action: Mark, Pod: identity(w.pod), Reason: strings.Join(side.Why, "; "), Side: side})
	}
	if len(side.Conditions)+len(side.Gone) > 0 {
		reason := "Slurm node " + w.node + " is " + n.States.String()
		if n.Name == "" {
			reason = "Slurm doesn't know node " + w.node
		}
		p.step(Step{Action: Mirror, Pod: identity(w.pod), Node: w.node, Reason: reason, Side: side})
	}
}
