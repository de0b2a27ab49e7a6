package nodeset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
)

// create makes the pods that are missing.
func (p *planner) create() {
	if p.hash == "" || p.deleting() {
		return
	}
	missing := p.missing()
	if len(missing) == 0 {
		return
	}
	base, err := p.base()
	if err != nil {
		p.problem(v1beta1.ReasonInvalidSpec, "spec."+err.Error())
		return
	}
	room := min(burst, p.registrations())
	reason := fmt.Sprintf("%d of %d workers exist", len(p.live), p.desired())
	for _, slot := range missing {
		if room <= 0 {
			p.again(againSoon)
			if p.registrations() > burst {
				p.again(againAtOnce)
			}
			return
		}
		if p.held(slot) {
			continue
		}
		made, err := p.createIn(slot, base, reason)
		if err != nil {
			p.problem(v1beta1.ReasonInvalidSpec, "spec."+err.Error())
			if !p.daemon() {
				return // the others fail alike
			}
		}
		if made {
			room--
		}
	}
}

// createIn plans a pod and its claims.
func (p *planner) createIn(slot string, base *corev1.Pod, reason string) (made bool, err error) {
	hostname, err := p.hostnameIn(slot)
	if err != nil {
		return false, err
	}
	claims, err := p.claims(p.claimSuffix(slot, hostname))
	if err != nil {
		return false, err
	}
	for _, template := range slices.Sorted(maps.Keys(claims)) {
		if have := p.Claims[claims[template].Name]; have != nil && have.DeletionTimestamp != nil {
			p.step(Step{Action: Wait, Claim: claims[template], Slot: slot, Reason: "it is being deleted, a pod that needs it comes after that"})
			return false, nil
		}
	}
	for _, template := range slices.Sorted(maps.Keys(claims)) {
		if c := claims[template]; p.Claims[c.Name] == nil {
			p.step(Step{Action: CreateClaim, Claim: c, Slot: slot, Reason: "pod " + p.podName(slot) + " uses it"})
		}
	}
	p.step(Step{Action: CreatePod, Pod: p.instance(base, slot, hostname, claims), Slot: slot, Reason: reason, Event: v1beta1.EventScalingUp})
	return true, nil
}

// missing are the slots without a pod: the lowest ordinals that are free, or Kubernetes nodes.
func (p *planner) missing() []string {
	var out []string
	if p.daemon() {
		for _, name := range p.wantedPlaces() {
			if !p.taken[name] {
				out = append(out, name)
			}
		}
		return out
	}
	for ordinal, n := 0, int(p.desired())-len(p.taken); n > 0; ordinal++ {
		if slot := strconv.Itoa(ordinal); !p.taken[slot] {
			out = append(out, slot)
			n--
		}
	}
	return out
}

// registrations is how many more workers may be on their way to register in Slurm.
func (p *planner) registrations() int {
	limit := p.NodeSet.Spec.RegistrationLimit
	if limit == nil {
		return burst + 1
	}
	under := 0
	for _, w := range p.live {
		if _, registered := p.Slurm.Nodes[w.node]; !workernode.Ready(w.pod) || p.Slurm.Known && !registered {
			under++
		}
	}
	return max(0, int(*limit)-under)
}
