package dracpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// A CPU goes offline and comes back while the driver runs: the slices follow, the claim that
// has it keeps it, its device is unhealthy meanwhile, and nobody can claim what isn't there.
// CPU checks 13, 28 and 41.
func TestCPUsComeAndGo(t *testing.T) {
	admin, own := apiServer(t)
	n := newTestNode(t, own)
	if err := os.MkdirAll(filepath.Join(n.dir, "plugins_registry"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.startRuntime()
	n.startDriver(DefaultConfig())
	n.register()
	n.ready("")
	if err := n.run("s", "shared"); err != nil {
		t.Fatal(err)
	}
	uid := allocated(t, admin, "exact", 1, 2, "5,7")
	if _, err := n.prepare(uid, "exact"); err != nil {
		t.Fatal(err)
	}
	if err := n.run("p", "exclusive", "DRA_CPUSET_"+uid+"=5,7"); err != nil {
		t.Fatal(err)
	}
	n.has("shared", "0-4,6")

	n.online("0-2,4-6")
	n.lists(admin, "0-2", "4-6")
	n.has("shared", "0-2,4,6")
	n.has("exclusive", "5,7")
	n.healthy(map[string]string{"cpudevnuma000": "", "cpudevnuma001": "CPUs 7 are offline"})
	n.ready("")
	gone := allocated(t, admin, "gone", 0, 1, "3")
	if _, err := n.prepare(gone, "gone"); err == nil || !strings.Contains(err.Error(), "not online: 3") {
		t.Errorf("a claim of an offline CPU: %v", err)
	}

	n.online("0-7")
	n.lists(admin, "0-3", "4-7")
	n.has("shared", "0-4,6")
	n.has("exclusive", "5,7")
	n.healthy(map[string]string{"cpudevnuma000": "", "cpudevnuma001": ""})
	if _, err := n.prepare(gone, "gone"); err != nil {
		t.Errorf("the CPU is back: %v", err)
	}
}

// lists waits until the devices have these CPUs.
func (n *testNode) lists(kube kubernetes.Interface, want ...string) {
	n.t.Helper()
	until(n.t, fmt.Sprint("the devices have ", want), func() error {
		for i, d := range published(n.t, kube, len(want)) {
			if got := d.Attributes["dra.cpu/cpuIDs"].StringValue; got == nil || *got != want[i] {
				return fmt.Errorf("%s has %v", d.Name, got)
			}
		}
		return nil
	})
}

// healthy waits until kubelet is told so of each device; the empty message means healthy.
func (n *testNode) healthy(want map[string]string) {
	n.t.Helper()
	until(n.t, "kubelet hears of the devices' health", func() error {
		report := n.d.ledger.health(time.Now())
		if len(report.Devices) != len(want) {
			return fmt.Errorf("it is of %d devices", len(report.Devices))
		}
		for _, d := range report.Devices {
			if (d.Health == kubeletplugin.HealthStatusHealthy) != (want[d.DeviceName] == "") || d.Message != want[d.DeviceName] {
				return fmt.Errorf("%s is %s: %q", d.DeviceName, d.Health, d.Message)
			}
		}
		return nil
	})
}
