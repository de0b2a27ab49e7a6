package dracpu

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

// after is the container's environment after the runtime has taken the adjustment over.
func after(c *api.Container, a *api.ContainerAdjustment) []string {
	drop, set := map[string]bool{}, []string{}
	for _, e := range a.GetEnv() {
		if name, removed := strings.CutPrefix(e.GetKey(), "-"); removed {
			drop[name] = true
		} else {
			drop[e.GetKey()] = true
			set = append(set, e.GetKey()+"="+e.GetValue())
		}
	}
	var out []string
	for _, e := range c.GetEnv() {
		name, _, _ := strings.Cut(e, "=")
		if !drop[name] {
			out = append(out, e)
		}
	}
	return append(out, set...)
}

// Containers that have one of two requests each keep its CPUs when the driver starts anew (CPU checks 37 and 53).
func TestRequestsAfterRestart(t *testing.T) {
	d := newDisk(t)
	l := d.start(t, "boot", numa(8, ""))
	rc := on("a", 0, 2, "")
	second := on("x", 1, 1, "").Status.Allocation.Devices.Results[0]
	second.Request = "more"
	rc.Status.Allocation.Devices.Results = append(rc.Status.Allocation.Devices.Results, second)
	prepared(t, l, rc)
	p := testPlugin(t, l)
	var all []*api.Container
	for id, env := range map[string]string{"first": "DRA_CPUSET_a_0=0-1", "second": "DRA_CPUSET_a_1=4"} {
		c := ctr(id, "p", env)
		c.Name = id
		a, _, err := p.CreateContainer(t.Context(), pod("p"), c)
		if err != nil {
			t.Fatal(err)
		}
		c.Env, c.State = after(c, a), api.ContainerState_CONTAINER_RUNNING
		all = append(all, c)
	}
	u, err := testPlugin(t, d.start(t, "boot", numa(8, ""))).Synchronize(t.Context(), []*api.PodSandbox{pod("p")}, all)
	if got := told(u); err != nil || got["first"] != "0-1" || got["second"] != "4" {
		t.Errorf("told are %v, %v", got, err)
	}
}
