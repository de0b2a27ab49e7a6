package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/mirror"
)

func TestParseNodes(t *testing.T) {
	c, err := Parse([]byte("slurmRestApi: http://x\nmanagedSlurmdNodes: All\nsinkSlurmd: 10.0.0.5:6818\ndeviceDrivers: {dra.net: nic}"))
	if err != nil {
		t.Fatal(err)
	}
	sink, ok := c.Sink()
	if c.Shared() != mirror.SharedAll || !ok || sink.String() != "10.0.0.5:6818" {
		t.Errorf("shared %s, sink %s", c.Shared(), sink)
	}
	if d := cmp.Diff(device.Drivers{"gpu.nvidia.com": "gpu", "gpu.example.com": "gpu", "dra.net": "nic"}, c.Drivers()); d != "" {
		t.Error(d)
	}
	if c, err = Parse([]byte("slurmRestApi: http://x")); err != nil || c.Shared() != mirror.SharedInPartition {
		t.Errorf("by default %s (%v)", c.Shared(), err)
	}
	for text, want := range map[string]string{
		"managedSlurmdNodes: Some":        `managedSlurmdNodes is "Some", not Partition, All or None`,
		"sinkSlurmd: sink:6818":           `sinkSlurmd is "sink:6818", not an IP address and a port`,
		"sinkSlurmd: 10.0.0.5:0":          `sinkSlurmd is "10.0.0.5:0"`,
		`deviceDrivers: {dra.net: "a,b"}`: `driver dra.net can't be Slurm's resource "a,b"`,
		"deviceDrivers: {dra.cpu: cpu}":   `driver dra.cpu can't be`,
	} {
		if _, err := Parse([]byte("slurmRestApi: http://x\n" + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
