package e2e

import (
	"context"
	"fmt"
	"strings"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// restartWithAbsence ends the driver, has a container made without it, and starts it again: it sets the container right and tells of it.
func (c cpus) restartWithAbsence(mine cpuset.Set) {
	c.t.Helper()
	const daemon = "daemonset/dra-driver-cpu"
	c.kubectl("patch", "-n", c.namespace, daemon, "--type=merge", "--patch", `{"spec":{"template":{"spec":{"nodeSelector":{"is":"nowhere"}}}}}`)
	c.kubectl("wait", "-n", c.namespace, "pod", "--for=delete", "--selector=app.kubernetes.io/name=dra-driver-cpu", "--timeout="+c.patience.String())
	c.pod("meanwhile", "")
	c.kubectl("patch", "-n", c.namespace, daemon, "--type=json", "--patch", `[{"op":"remove","path":"/spec/template/spec/nodeSelector/is"}]`)
	c.kubectl("rollout", "status", "-n", c.namespace, daemon, "--timeout="+c.patience.String())
	if got := c.now("meanwhile"); got.Overlaps(mine) {
		c.t.Errorf("a container that was made without the driver still runs on %s, and a claim has %s", got, mine)
	}
	c.until("the node has an event that names it", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "events", "-n", "default", "--field-selector", "reason=ContainersUnconfined,involvedObject.name="+driverNode, "-o",
			"jsonpath={.items[*].message}")
		want := fmt.Sprintf("made a container without it, which could run on the CPUs of claims (%s) until now: %s/meanwhile/main.", mine, c.namespace)
		if err == nil && !strings.Contains(out, want) {
			err = fmt.Errorf("events say %q, want %q", out, want)
		}
		return err
	})
	c.kubectl("delete", "pod", "-n", c.namespace, "meanwhile", "--wait")
}
