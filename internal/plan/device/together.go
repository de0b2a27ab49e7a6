package device

import "slices"

// located is a granted device with the name of its resource.
type located struct {
	id   ID
	name string
	Device
}

// together returns the granted devices in the order in which a pod is to take them that
// needs only some: first those of the PCIe root or NUMA node where the most kinds of
// devices are, with the most granted cores, then what is near these.
func (n Node) together(g Grant) []ID {
	var rest []located
	for i := range n.Resources {
		r := &n.Resources[i]
		mine, _ := n.given(g, r)
		for _, d := range mine {
			rest = append(rest, located{ID{r.driver, r.pool, d.Name}, r.Name, d})
		}
	}
	var out []ID
	for len(rest) > 0 {
		best, most := 0, -1
		for i := range rest {
			if score := n.company(rest[i], rest, g); score > most {
				best, most = i, score
			}
		}
		anchor := rest[best]
		slices.SortStableFunc(rest, func(a, b located) int { return closeness(anchor, b) - closeness(anchor, a) })
		taken := 0
		for taken < len(rest) && (closeness(anchor, rest[taken]) > 0 || taken == 0) {
			out = append(out, rest[taken].id)
			taken++
		}
		rest = rest[taken:]
	}
	return out
}

// company tells how good a place a device is in: how many kinds of devices share its PCIe
// root, then its NUMA node, then how many granted cores are near.
func (n Node) company(d located, all []located, g Grant) int {
	kinds := map[string]int{}
	for _, other := range all {
		kinds[other.name] = max(kinds[other.name], closeness(d, other))
	}
	sum := 0
	for _, c := range kinds {
		sum += c
	}
	cores := 0
	for _, i := range g.Cores {
		if d.First >= 0 && i >= d.First && i <= d.Last {
			cores++
		}
	}
	return sum*maxID + cores
}

// closeness is 3 for devices of one PCIe root, 2 of one NUMA node, 1 of one socket, 0 else.
func closeness(a, b located) int {
	switch p, q := a.place, b.place; {
	case a.id == b.id || slices.ContainsFunc(p.roots, func(r string) bool { return slices.Contains(q.roots, r) }):
		return 3
	case p.numa >= 0 && p.numa == q.numa:
		return 2
	case p.socket >= 0 && p.socket == q.socket:
		return 1
	}
	return 0
}
