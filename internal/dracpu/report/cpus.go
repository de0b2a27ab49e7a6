package report

import (
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// CPUDetails is the machine as the driver reads it, in the published form. -1 is what the machine doesn't say.
type CPUDetails struct {
	Topology Counts `json:"topology"`
	CPUs     []CPU  `json:"cpus"`
}

// Counts are the machine's numbers of each.
type Counts struct {
	NumCPUs        int  `json:"numCPUs"`
	NumCores       int  `json:"numCores"`
	NumUncoreCache int  `json:"numUncoreCache"`
	NumSockets     int  `json:"numSockets"`
	NumNUMANodes   int  `json:"numNUMANodes"`
	SMTEnabled     bool `json:"smtEnabled"`
}

// CPU is one of them. Sibling is the other thread of its core, where there are two; Siblings are all of them.
type CPU struct {
	CPUID          int             `json:"cpuID"`
	CoreID         int             `json:"coreID"`
	SocketID       int             `json:"socketID"`
	ClusterID      int             `json:"clusterID"`
	NUMANodeID     int             `json:"numaNodeID"`
	NUMANodeCPUSet cpuset.Set      `json:"numaNodeCPUSet"`
	Sibling        int             `json:"sibling"`
	CoreType       cpuset.CoreType `json:"coreType"`
	UncoreCacheID  int             `json:"uncoreCacheID"`

	// Not in the published form.
	PhysicalCoreID int        `json:"physicalCoreID"`
	Siblings       cpuset.Set `json:"siblings"`
	DieID          int        `json:"dieID"`
	CacheL2ID      int        `json:"cacheL2ID"`
	Isolated       bool       `json:"isolated"`
}

func describe(t cpuset.Topology) CPUDetails {
	by := func(id func(cpuset.CPU) int) map[int]cpuset.Set {
		out := map[int]cpuset.Set{}
		for _, g := range t.GroupBy(id) {
			if g.ID >= 0 {
				out[g.ID] = g.CPUs
			}
		}
		return out
	}
	cores, nodes := by(func(c cpuset.CPU) int { return c.Core }), by(func(c cpuset.CPU) int { return c.NUMA })
	d := CPUDetails{CPUs: []CPU{}, Topology: Counts{
		NumCPUs: len(t.CPUs), NumCores: len(cores), NumUncoreCache: len(by(func(c cpuset.CPU) int { return c.L3 })),
		NumSockets: len(by(func(c cpuset.CPU) int { return max(c.Socket, 0) })), NumNUMANodes: len(nodes), SMTEnabled: t.SMT,
	}}
	for _, c := range t.CPUs {
		siblings := cores[c.Core].Minus(cpuset.Of(c.ID))
		sibling := cpuset.Unknown
		if siblings.Len() == 1 {
			sibling = siblings.First()
		}
		d.CPUs = append(d.CPUs, CPU{
			CPUID: c.ID, CoreID: c.CoreID, SocketID: c.Socket, ClusterID: c.Cluster, NUMANodeID: c.NUMA, NUMANodeCPUSet: nodes[c.NUMA],
			Sibling: sibling, CoreType: c.Type, UncoreCacheID: c.L3,
			PhysicalCoreID: c.Core, Siblings: siblings, DieID: c.Die, CacheL2ID: c.L2, Isolated: c.Isolated,
		})
	}
	return d
}
