package device

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
)

// apart returns the devices of a pool without those that overlap. A driver that can divide
// a device publishes it beside all its possible parts, which consume the same counters;
// Slurm can only count what is always there. Which parts there are is said as
// "mig-1g.5gb=4,mig-3g.20gb=1" by the types in Slurm; what that leaves is registered undivided.
func apart(p pool, parts string) []resourcev1.Device {
	var out, overlapping []resourcev1.Device
	for _, d := range p.devices {
		if len(d.ConsumesCounters) > 0 {
			overlapping = append(overlapping, d)
		} else {
			out = append(out, d)
		}
	}
	if len(overlapping) == 0 {
		return p.devices
	}
	slices.SortStableFunc(overlapping, func(a, b resourcev1.Device) int { return cmp.Compare(a.Name, b.Name) })
	left := countersOf(p)
	take := func(from []resourcev1.Device, most int) {
		for _, d := range from {
			if most > 0 && left.take(d) {
				out = append(out, d)
				most--
			}
		}
	}
	for term := range strings.SplitSeq(parts, ",") {
		kind, count, _ := strings.Cut(strings.TrimSpace(term), "=")
		n, err := strconv.Atoi(count)
		if err != nil {
			continue
		}
		take(slices.DeleteFunc(slices.Clone(overlapping), func(d resourcev1.Device) bool {
			return typeOf(p.driver, "", attributes{p.driver, d.Attributes}) != kind
		}), n)
	}
	slices.SortStableFunc(overlapping, func(a, b resourcev1.Device) int { return cmp.Compare(left.part(b), left.part(a)) })
	take(slices.DeleteFunc(overlapping, func(d resourcev1.Device) bool { return left.part(d) < 1 }), len(overlapping))
	return out
}

// counters are what is left of a pool's, and what there was, by set and counter.
type counters struct{ left, all map[[2]string]float64 }

func countersOf(p pool) counters {
	c := counters{map[[2]string]float64{}, map[[2]string]float64{}}
	for _, set := range p.counters {
		for name, counter := range set.Counters {
			c.left[[2]string{set.Name, name}] = counter.Value.AsApproximateFloat64()
			c.all[[2]string{set.Name, name}] = counter.Value.AsApproximateFloat64()
		}
	}
	return c
}

// take takes what a device consumes, false if there is too little left.
func (c counters) take(d resourcev1.Device) bool {
	for _, sign := range []float64{0, 1} {
		for _, use := range d.ConsumesCounters {
			for name, counter := range use.Counters {
				key, want := [2]string{use.CounterSet, name}, counter.Value.AsApproximateFloat64()
				if c.left[key] < want {
					return false
				}
				c.left[key] -= sign * want
			}
		}
	}
	return true
}

// part is the greatest part of a counter that a device consumes: 1 for an undivided one.
func (c counters) part(d resourcev1.Device) float64 {
	most := 0.0
	for _, use := range d.ConsumesCounters {
		for name, counter := range use.Counters {
			if all := c.all[[2]string{use.CounterSet, name}]; all > 0 {
				most = max(most, counter.Value.AsApproximateFloat64()/all)
			}
		}
	}
	return most
}
