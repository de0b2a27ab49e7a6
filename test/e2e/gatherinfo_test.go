package e2e

import (
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/internal/dracpu"
	"github.com/slinky-hpc/slinky/internal/dracpu/report"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// gathers: the report of the node is whole, and tells of the pinned container what the kernel says of it.
func (c cpus) gathers(pinned, shared string, mine cpuset.Set) {
	c.t.Helper()
	text := c.kubectl("exec", "-n", c.namespace, "daemonset/dra-driver-cpu", "--", "/dracpu-gatherinfo", "--stdout")
	var r report.Report
	if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(text, "---\n")), &r); err != nil {
		c.t.Fatalf("%v:\n%s", err, text)
	}
	if len(r.Missing) > 0 || len(r.Wrong) > 0 || r.Driver == nil || len(r.Driver.Problems) > 0 || r.Driver.Runtime == "" || len(r.Driver.Log) == 0 {
		c.t.Fatalf("the report has holes, or tells of faults:\n%s", text)
	}
	if len(r.ResourceSlices) != 1 || len(r.ResourceClaims) != 1 || len(r.OnDisk.Checkpoint) != 1 || len(r.OnDisk.CDIFiles) != 1 ||
		r.OnDisk.Kubelet.CPUManagerPolicy != "none" || r.Versions.Kubernetes == "" || r.CPUDetails.Topology.NumCPUs != r.Driver.Online.Len() {
		c.t.Errorf("the report should have one slice, one claim and its files, and kubelet's policy:\n%s", text)
	}
	if !r.Driver.Claimed.Equal(mine) {
		c.t.Errorf("the report says that claims have %s, want %s", r.Driver.Claimed, mine)
	}
	found := 0
	for _, state := range r.Driver.Containers {
		if !strings.HasPrefix(state.Name, c.namespace+"/"+pinned+"/") && !strings.HasPrefix(state.Name, c.namespace+"/"+shared+"/") {
			continue
		}
		found++
		if got := r.Cgroups[state.ID].CPUs; got != state.Want.String() || state.Exclusive != strings.Contains(state.Name, "/"+pinned+"/") {
			c.t.Errorf("the kernel lets %s run on %q, and it should on %s (exclusive: %v)", state.Name, got, state.Want, state.Exclusive)
		}
	}
	if found != 2 {
		c.t.Errorf("of %d containers, want 2: %v", found, r.Driver.Containers)
	}
	var s dracpu.Snapshot
	if err := decode(c.kubectl("exec", "-n", c.namespace, "daemonset/dra-driver-cpu", "--", "/dracpu", "introspect", "state"), &s); err != nil || !s.Claimed.Equal(mine) {
		c.t.Errorf("introspect state says that claims have %s, want %s: %v", s.Claimed, mine, err)
	}
}
