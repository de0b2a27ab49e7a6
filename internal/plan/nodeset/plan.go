package nodeset

import (
	"slices"
	"time"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// How long until a plan is made again, with and without something under way.
const (
	againSoon  = 3 * time.Second
	againLater = 15 * time.Second
	// againAtOnce is for what a plan had no room for.
	againAtOnce = 50 * time.Millisecond
)

// burst is how many pods are made, and how many deleted, in one plan.
const burst = 250

// planner is one planning.
type planner struct {
	Facts
	plan Plan
	// hash is the revision that new pods get, empty if none can be built; equal are all hashes that mean the same.
	hash  string
	equal map[string]bool
	// live are the pods of the current scaling mode that are there to stay, others those of the other mode.
	live, others []worker
	// ended are the pods whose containers have ended.
	ended []worker
	// taken are the slots that have any pod of the current mode, also one on its way out.
	taken map[string]bool
	// pins are where the ordinals belong.
	pins       map[string]string
	collisions *int32
	// places are the Kubernetes nodes of a NodeSet in DaemonSet mode.
	places map[string]place
	wanted []string
	// reserves: a reservation is being made. leftRecords: some of a deleted NodeSet are still in Slurm.
	reserves, leftRecords bool
	// deletes counts the deletions, unknown those of pods that Slurm doesn't know.
	deletes, unknown int
}

// Make plans the next steps of a NodeSet.
func Make(f Facts) Plan {
	p := planner{Facts: f, taken: make(map[string]bool, len(f.Pods))}
	p.plan.Again = againLater
	p.sshProblems()
	p.revise()
	p.sort()
	p.adopt()
	p.findPlaces()
	condemned := p.condemned()
	p.removeEnded()
	p.remove(condemned)
	p.forget()
	p.create()
	p.keepClaims(condemned)
	p.reserve()
	p.keepInStep(condemned)
	p.failing()
	p.finalizers()
	p.status()
	if p.plan.Status.ReadyReplicas != p.desired() || len(p.live) != int(p.desired()) || len(condemned) > 0 || !f.Slurm.Known {
		p.again(againSoon)
	}
	return p.plan
}

func (p *planner) step(s Step) { p.plan.Steps = append(p.plan.Steps, s) }

func (p *planner) problem(reason, message string) {
	p.plan.Problems = append(p.plan.Problems, Problem{reason, message})
}

// again asks for a plan in d at the latest.
func (p *planner) again(d time.Duration) {
	p.plan.Again = min(p.plan.Again, max(d, againAtOnce))
}

// held tells whether a slot has to wait after a failure.
func (p *planner) held(slot string) bool {
	wait := p.NotBefore[slot].Sub(p.Now)
	if wait <= 0 {
		return false
	}
	p.again(wait)
	return true
}

// desired is the wanted number of pods.
func (p *planner) desired() int32 {
	switch {
	case p.daemon():
		return int32(len(p.wantedPlaces()))
	case p.NodeSet.Spec.Replicas == nil:
		return 1
	}
	return max(0, *p.NodeSet.Spec.Replicas)
}

func (p *planner) daemon() bool { return p.NodeSet.Spec.ScalingMode == v1beta1.ScalingModeDaemonSet }

// workers are all pods that may run jobs, of both scaling modes.
func (p *planner) workers() []worker {
	if len(p.others) == 0 {
		return p.live
	}
	return slices.Concat(p.live, p.others)
}
