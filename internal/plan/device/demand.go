package device

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
)

// Demand is what devices take of a node, as Slurm counts it.
type Demand struct {
	CPUs int
	// GRES counts generic resources by their name in a TRES expression, as "gres/gpu:h100".
	GRES map[string]int64
}

// DemandOf returns what some allocated devices of a node are to Slurm. Those that Slurm knows
// nothing of, and those that are only looked at, are nothing.
func (n Node) DemandOf(results []resourcev1.DeviceRequestAllocationResult) Demand {
	d := Demand{GRES: map[string]int64{}}
	seen := map[ID]bool{}
	for _, r := range results {
		id := ID{r.Driver, r.Pool, r.Device}
		if r.AdminAccess != nil && *r.AdminAccess {
			continue
		}
		if r.Driver == DriverCPU {
			capacity, group := r.ConsumedCapacity[CapacityCPU]
			if group {
				d.CPUs += int(capacity.Value())
			} else {
				d.CPUs++
			}
			continue
		}
		for _, res := range n.Resources {
			if res.driver == r.Driver && res.pool == r.Pool && !seen[id] &&
				slices.ContainsFunc(res.Devices, func(dev Device) bool { return dev.Name == r.Device }) {
				d.GRES["gres/"+res.Name+":"+res.Type]++
				seen[id] = true // several may share a device, and Slurm gives it whole
			}
		}
	}
	return d
}

// Offer is what a pod's claims would take of a node that can serve them.
type Offer struct {
	Node string
	Demand
	// Choice is the place, among the alternatives of each request that has such, of the one
	// that the node would serve.
	Choice []int
	// Types is how many types of each resource that is taken the node has.
	Types map[string]int
}

// OfferOf returns a node's offer by what an allocator would take of it.
func (n Node) OfferOf(claims []*resourcev1.ResourceClaim, results []resourcev1.AllocationResult) Offer {
	o := Offer{Node: n.Name, Types: map[string]int{}}
	var all []resourcev1.DeviceRequestAllocationResult
	for i, c := range claims {
		all = append(all, results[i].Devices.Results...)
		for _, req := range c.Spec.Devices.Requests {
			if len(req.FirstAvailable) == 0 {
				continue
			}
			o.Choice = append(o.Choice, slices.IndexFunc(req.FirstAvailable, func(sub resourcev1.DeviceSubRequest) bool {
				return slices.ContainsFunc(results[i].Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
					return r.Request == req.Name+"/"+sub.Name
				})
			}))
		}
	}
	o.Demand = n.DemandOf(all)
	for _, r := range n.Resources {
		o.Types[r.Name]++
	}
	return o
}

// Agree chooses what to ask Slurm for, which asks the same of each node, and tells why
// nodes with other offers are left out. The first alternatives go first, then what the
// most nodes offer. Where nodes offer as many of another type, any type is asked for.
func Agree(offers []Offer) (Demand, map[string]string) {
	if len(offers) == 0 {
		return Demand{}, nil
	}
	groups := map[string][]Offer{}
	for _, o := range offers {
		key := fmt.Sprint(o.Choice, o.CPUs, untyped(o.GRES))
		groups[key] = append(groups[key], o)
	}
	best := ""
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		had, is := groups[best], groups[key]
		if best == "" || cmp.Or(slices.Compare(is[0].Choice, had[0].Choice), len(had)-len(is)) < 0 {
			best = key
		}
	}
	chosen, out := sameTypes(groups[best])
	except := map[string]string{}
	for _, o := range offers {
		if !slices.ContainsFunc(chosen, func(c Offer) bool { return c.Node == o.Node }) {
			except[o.Node] = "its devices would serve the claims with others than those that Slurm is asked for"
		}
	}
	return out, except
}

// sameTypes returns those of some offers of equal numbers that one request can mean.
func sameTypes(offers []Offer) ([]Offer, Demand) {
	typed := map[string][]Offer{}
	for _, o := range offers {
		typed[fmt.Sprint(o.GRES)] = append(typed[fmt.Sprint(o.GRES)], o)
	}
	if len(typed) == 1 {
		return offers, offers[0].Demand
	}
	// On a node with several types Slurm might give the wrong one.
	var plain []Offer
	for _, o := range offers {
		one := true
		for name := range untyped(o.GRES) {
			one = one && o.Types[strings.TrimPrefix(name, "gres/")] == 1
		}
		if one {
			plain = append(plain, o)
		}
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(typed)), func(a, b string) int { return len(typed[a]) - len(typed[b]) })
	if len(plain) > len(typed[most]) {
		return plain, Demand{CPUs: plain[0].CPUs, GRES: untyped(plain[0].GRES)}
	}
	return typed[most], typed[most][0].Demand
}

func untyped(gres map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for name, n := range gres {
		name, _, _ = strings.Cut(name, ":")
		out[name] += n
	}
	return out
}
