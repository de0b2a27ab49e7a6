package view

import (
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/slurm"
)

// without takes a part away, as a reader does who couldn't read it.
func without(f Facts, what string, forbidden bool) Facts {
	f.Kubernetes.Missing = []Part{{What: what, Error: "connection refused", Forbidden: forbidden, Read: now.Add(-5 * time.Minute)}}
	switch what {
	case PartPods:
		f.Kubernetes.Pods = nil
	case PartNodes:
		f.Kubernetes.Nodes = nil
	}
	return f
}

// What couldn't be read is neither none nor gone: no count, plan, cause or drain is made of it.
func TestMissingParts(t *testing.T) {
	full := world()
	full.pod("a", bound("k1", "0-1"))
	full.job(1, slurm.JobRunning, both(bridged("a"), on("k1")))
	full.Bridge = &Bridge{Policy: mirror.Policy{Cluster: "here", SchedulerName: scheduler, Partition: "bridge"}}

	noPods := New(without(full, PartPods, false))
	if i := noPods.Queue(false)[0]; i.PodsUnknown != 1 || i.State != StateRunning {
		t.Errorf("a job whose pod can't be seen is %+v", i)
	}
	if _, err := noPods.Find("ml", "a"); err == nil || !strings.Contains(err.Error(), "pods can't be read: connection refused") {
		t.Errorf("a pod that can't be seen: %v", err)
	}
	problems := noPods.Status().Problems
	if len(problems) != 1 || problems[0].What != "its pods can't be read, so they are not shown: connection refused; they were last read 5 min ago" {
		t.Errorf("what is wrong is %+v", problems)
	}
	if !noPods.Status().Kubernetes.Lacks(PartPods) {
		t.Error("the status doesn't tell that there are no pods in it")
	}

	for _, forbidden := range []bool{false, true} {
		noNodes := New(without(full, PartNodes, forbidden))
		for _, p := range noNodes.Plans() {
			if strings.HasPrefix(p.About, "node ") {
				t.Errorf("forbidden %v: without Kubernetes' nodes is planned %+v", forbidden, p)
			}
		}
		for _, n := range noNodes.Nodes() {
			if len(n.Causes) > 0 {
				t.Errorf("forbidden %v: node %s is said to be %v", forbidden, n.Name, n.Causes)
			}
		}
		plan, err := noNodes.Drain("k1", "fan", "ann")
		if err != nil || len(plan.Slurm) != 1 || plan.Cordon != nil || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "its nodes can't be read: connection refused") {
			t.Errorf("forbidden %v: the drain is %+v, %v", forbidden, plan, err)
		}
		if got := len(noNodes.Status().Problems); forbidden && got != 0 {
			t.Errorf("a right that somebody hasn't is called a problem: %+v", noNodes.Status().Problems)
		}
	}
}

// Pods of other namespaces than the one that may be seen are unknown, not away.
func TestPodsOfOtherNamespaces(t *testing.T) {
	f := world()
	f.Kubernetes.Namespace = "mine"
	f.job(1, slurm.JobRunning, both(bridged("a", "b"), on("k1")))
	if i := New(f).Queue(false)[0]; i.PodsUnknown != 2 {
		t.Errorf("the line is %+v", i)
	}
}
