package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/slurm"
)

// registration describes a Kubernetes node to Slurm by what pods can use of it.
func registration(f Facts) (slurm.NodeCreate, string) {
	n := f.Kube
	memory := n.Status.Allocatable.Memory().Value() >> 20
	c := slurm.NodeCreate{
		Name: placement.SlurmName(n), Address: f.SinkAddress, Port: f.SinkPort, RealMemory: uint64(max(memory, 0)),
		Features: featuresOf(n), Topology: n.Annotations[v1beta1.AnnotationTopology], External: true,
	}
	cores(&c, n, f.Devices.CPUs)
	if c.Address == "" {
		c.Address = internalIP(n)
	}
	switch {
	case c.CPUs-len(c.ReservedCPUs) < 1 || memory < 1:
		return slurm.NodeCreate{}, "the node offers less than one CPU or one MiB of memory to pods"
	case c.Address == "":
		return slurm.NodeCreate{}, "the node has no InternalIP, without which Slurm would look its name up at each job start"
	}
	c.GRES, c.GRESConf = device.GRES(f.Devices.Resources)
	mark := Mark{
		Cluster: f.Cluster, Features: c.Features, Shape: shapeOf(c),
		Devices: f.Devices.Fingerprint(), Drivers: f.Devices.Drivers(),
	}
	if n.Name != c.Name {
		mark.Node = n.Name
	}
	c.Extra = mark.encode()
	return c, ""
}

// cores describes the processors: as the CPU driver publishes them, else as one
// socket with the CPUs that Kubernetes counts.
func cores(c *slurm.NodeCreate, n *corev1.Node, cpus *device.CPUs) {
	if cpus != nil {
		c.Sockets, c.CoresPerSocket, c.ThreadsPerCore = cpus.Sockets, cpus.CoresPerSocket, cpus.Threads
		c.CPUs = c.Sockets * c.CoresPerSocket * c.ThreadsPerCore
		c.ReservedCPUs = cpus.Reserved()
		return
	}
	c.CPUs = int(n.Status.Allocatable.Cpu().MilliValue() / 1000)
	c.Sockets, c.CoresPerSocket, c.ThreadsPerCore = 1, c.CPUs, 1
}

// shapeOf condenses what a registration fixes, as "2x16x2" for sockets, cores and
// threads, with a digest of the rest where there is any.
func shapeOf(c slurm.NodeCreate) string {
	shape := fmt.Sprintf("%dx%dx%d", c.Sockets, c.CoresPerSocket, c.ThreadsPerCore)
	if len(c.ReservedCPUs) == 0 && c.GRES == "" && c.Port == 0 {
		return shape
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%v %s %s %d", c.ReservedCPUs, c.GRES, c.GRESConf, c.Port))
	return shape + "-" + hex.EncodeToString(sum[:6])
}

func internalIP(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && a.Address != "" {
			return a.Address
		}
	}
	return ""
}

// featuresOf returns the partitions that the node's annotation names: in Slurm
// they are features, by which its configuration makes partitions.
func featuresOf(n *corev1.Node) []string {
	var out []string
	for _, name := range strings.Split(n.Annotations[v1beta1.AnnotationExternalNodePartitions], ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// difference is why a node must be registered anew. A harmless one waits until the
// node is idle without keeping jobs away: Slurm gives nothing there that isn't so.
type difference struct {
	reason   string
	harmless bool
}

// driverAway is how long an idle node waits for a driver that publishes nothing any
// more: one that is updated is back within minutes.
const driverAway = 10 * time.Minute

// differs compares what is registered with what should be. wait is why that can't
// be told now, and no job should start meanwhile.
func differs(f Facts, want slurm.NodeCreate) (d difference, wait string) {
	have, mark := f.Slurm, MarkOf(f.Slurm)
	if f.Devices.Unsettled != "" {
		return difference{}, ""
	}
	if mark != nil {
		if gone := missing(mark.Drivers, f.Devices.Drivers()); gone != "" {
			wait = "its driver " + gone + " publishes no devices"
			if busy(have) || !slices.Contains(f.Uninstalled, gone) && (!told(f, wait) || f.Now.Sub(have.ReasonTime) < driverAway) {
				return difference{}, wait
			}
		}
	}
	switch memory := want.RealMemory; {
	case have.States.Has(slurm.NodeNotResponding):
		return difference{reason: "Slurm takes it for not responding, from which an external node doesn't recover"}, ""
	case have.CPUs != want.CPUs:
		return difference{reason: fmt.Sprintf("its CPUs changed from %d to %d", have.CPUs, want.CPUs)}, ""
	case have.RealMemory > memory, have.RealMemory < memory-memory/50:
		return difference{reason: fmt.Sprintf("its memory changed from %d to %d MiB", have.RealMemory, memory)}, ""
	case mark != nil && mark.Shape != "":
		if now := MarkOf(&slurm.Node{Extra: want.Extra}); mark.Shape != now.Shape || mark.Devices != now.Devices {
			return difference{reason: "its cores or devices changed"}, ""
		}
	case !sameShape(have, want):
		// Registered by the published bridge, or by an older version.
		return difference{reason: "it is registered without its sockets, cores and devices", harmless: true}, ""
	}
	if mark != nil && !slices.Equal(mark.Features, want.Features) ||
		mark == nil && len(want.Features) > 0 && changed(have.Features, want.Features) != nil {
		return difference{reason: "its partitions changed"}, ""
	}
	return difference{}, ""
}

// told tells whether the node is drained for a reason already, and since when.
func told(f Facts, reason string) bool {
	return f.Slurm.Reason == v1beta1.BridgeReasonPrefix+reason && !f.Slurm.ReasonTime.IsZero()
}

// waits is how long a driver that is away is still waited for.
func waits(f Facts, reason string) time.Duration {
	if left := driverAway - f.Now.Sub(f.Slurm.ReasonTime); told(f, reason) && left > 0 {
		return left
	}
	return driverAway
}

// DriversAway returns a driver that published devices when a node was registered and
// publishes none now, "" if there is none.
func DriversAway(have *slurm.Node, now device.Node) string {
	if m := MarkOf(have); m != nil {
		return missing(m.Drivers, now.Drivers())
	}
	return ""
}

// missing returns a driver that published before and doesn't now.
func missing(before, now []string) string {
	for _, d := range before {
		if !slices.Contains(now, d) {
			return d
		}
	}
	return ""
}

// sameShape compares what Slurm tells of a node without a mark.
func sameShape(have *slurm.Node, want slurm.NodeCreate) bool {
	return have.Sockets == want.Sockets && have.Cores == want.CoresPerSocket && have.Threads == want.ThreadsPerCore &&
		have.CPUs-have.EffectiveCPUs == len(want.ReservedCPUs) && gresCounts(have.GRES) == gresCounts(want.GRES)
}

// gresCounts strips what Slurm adds to the Gres that a node was registered with, as "(S:0)".
func gresCounts(s string) string {
	var out []string
	for _, part := range strings.Split(s, ",") {
		part, _, _ = strings.Cut(part, "(")
		if strings.Contains(part, ":") {
			out = append(out, part)
		}
	}
	return strings.Join(out, ",")
}

// hasGRES tells whether a node's Gres has a name.
func hasGRES(gres, name string) bool {
	for _, part := range strings.Split(gres, ",") {
		if kind, _, _ := strings.Cut(part, ":"); kind == name {
			return true
		}
	}
	return false
}
