package device

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/slinky-hpc/slinky/slurm"
)

// ID names a device.
type ID struct{ Driver, Pool, Device string }

// Whole returns all that Slurm may give of a node.
func (n Node) Whole() Grant {
	var g Grant
	if n.CPUs != nil {
		for i, core := range n.CPUs.Cores {
			if len(core.CPUs) > 0 {
				g.Cores = append(g.Cores, i)
			}
		}
	}
	first := map[string]int{}
	for _, r := range n.Resources {
		a := slurm.GRESAllocation{Name: r.Name, Type: r.Type, Count: uint64(r.Count)}
		for i := range r.Count {
			a.Indexes = append(a.Indexes, first[r.Name]+i)
		}
		first[r.Name] += r.Count
		g.GRES = append(g.GRES, a)
	}
	return g
}

// given returns the devices of a resource that a grant has. counted is how many more it
// has that Slurm counts without saying which.
func (n Node) given(g Grant, r *Resource) (out []Device, counted int) {
	first := 0
	for i := range n.Resources {
		if &n.Resources[i] == r {
			break
		}
		if n.Resources[i].Name == r.Name {
			first += n.Resources[i].Count
		}
	}
	for _, a := range g.GRES {
		if a.Name != r.Name || a.Type != "" && a.Type != r.Type {
			continue
		}
		for _, i := range a.Indexes {
			if i >= first && i < first+len(r.Devices) {
				out = append(out, r.Devices[i-first])
			}
		}
		if len(a.Indexes) == 0 {
			counted += int(a.Count)
		}
	}
	// It doesn't matter which where the job has all.
	if counted > 0 && (counted >= r.Count || n.whole(g)) {
		return r.Devices, 0
	}
	return out, counted
}

// whole tells whether a grant has all cores of the node.
func (n Node) whole(g Grant) bool {
	if n.CPUs == nil {
		return false
	}
	for i, core := range n.CPUs.Cores {
		if len(core.CPUs) > 0 && !slices.Contains(g.Cores, i) {
			return false
		}
	}
	return true
}

// Share is what a grant means for the devices that are published of a node.
type Share struct {
	// Withheld are the devices that Slurm knows of and didn't grant.
	Withheld []ID
	// Hidden are those that Slurm can't count, because they overlap with others that it does.
	Hidden map[ID]bool
	// Spent is how many CPUs of each group weren't granted.
	Spent map[ID]int
	// Order is which devices are to be taken first, the lowest first.
	Order map[ID]int
}

// ShareOf returns what a grant leaves of the published devices to a pod.
func (n Node) ShareOf(published []*resourcev1.ResourceSlice, g Grant, drivers Drivers) Share {
	s := Share{Spent: map[ID]int{}, Hidden: map[ID]bool{}, Order: map[ID]int{}}
	have := map[ID]bool{}
	ids := map[ID]int{}
	for i := range n.Resources {
		r := &n.Resources[i]
		mine, _ := n.given(g, r)
		for _, d := range mine {
			have[ID{r.driver, r.pool, d.Name}] = true
		}
	}
	if n.CPUs != nil {
		for at, i := range n.cores(g) {
			for t, c := range n.CPUs.Cores[i].CPUs {
				id := ID{DriverCPU, n.CPUs.pool, c.Device}
				have[id] = true
				ids[id]++
				if _, ok := s.Order[id]; !ok {
					s.Order[id] = at*maxThreads + t
				}
			}
		}
	}
	for at, id := range n.together(g) {
		s.Order[id] = at
	}
	for _, p := range poolsOf(n.Name, published) {
		if _, known := drivers[p.driver]; !known && p.driver != DriverCPU {
			continue
		}
		for _, d := range p.devices {
			id := ID{p.driver, p.name, d.Name}
			capacity, group := d.Capacity[CapacityCPU]
			switch {
			case p.driver == DriverCPU && group:
				s.Spent[id] = int(capacity.Value.Value()) - ids[id]
			case have[id]:
			case len(d.ConsumesCounters) > 0 && !n.registered(id):
				s.Hidden[id] = true
			default:
				s.Withheld = append(s.Withheld, id)
			}
		}
	}
	return s
}

const maxThreads = 16

// cores are the granted cores that have CPUs.
func (n Node) cores(g Grant) []int {
	var out []int
	for _, i := range g.Cores {
		if i >= 0 && i < len(n.CPUs.Cores) && len(n.CPUs.Cores[i].CPUs) > 0 {
			out = append(out, i)
		}
	}
	return out
}

// registered tells whether Slurm counts a device.
func (n Node) registered(id ID) bool {
	for _, r := range n.Resources {
		if r.driver == id.Driver && r.pool == id.Pool &&
			slices.ContainsFunc(r.Devices, func(d Device) bool { return d.Name == id.Device }) {
			return true
		}
	}
	return false
}
