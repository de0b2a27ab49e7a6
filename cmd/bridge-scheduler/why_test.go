package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/why"
)

// why is what "slinky why" says.
func (w *world) why(t *testing.T, target string) string {
	t.Helper()
	s := why.Sources{Kube: w.kube, Slurm: w.slurm, Namespace: namespace, SchedulerName: w.settings.SchedulerName, Now: time.Now()}
	facts, err := s.Find(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	return explain.Why(facts).Text()
}

func (w *world) fullIsExplained(t *testing.T) {
	for i := range 3 {
		w.pod(fmt.Sprintf("full-%d", i), func(p *corev1.Pod) { p.Annotations[v1beta1.AnnotationTimeLimit] = "60" })
	}
	first := w.job(t, w.bound(t, "full-0"))
	w.bound(t, "full-1")
	w.bound(t, "full-2")
	w.pod("next", nil)
	w.held(t, "next", "QueuedInSlurm")
	w.eventually(t, "Slurm has a reason and a plan", func() error {
		text := w.why(t, "next")
		for _, want := range []string{
			"no suitable nodes are free now (Resources)", "  pod            default/next\n", "has its nodes  job ", " of slurm, pods default/full-", ", until ",
			"place          1 of 1 in partition ext", "start          expected at ", "What to do:\n  - nothing: it starts when nodes are free\n",
		} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("%w: %q is not in\n%s", errWait, want, text)
			}
		}
		return nil
	})
	if text := w.why(t, fmt.Sprint(first.ID)); !strings.HasPrefix(text, fmt.Sprintf("The pod is on node %s, in Slurm job %d.\n", first.Nodes, first.ID)) {
		t.Errorf("of a job that runs it says\n%s", text)
	}
	w.kubelet(t, "full-0", corev1.PodSucceeded)
	w.bound(t, "next")
	w.jobEnds(t, first.ID)
	if text := w.why(t, fmt.Sprint(first.ID)); !strings.Contains(text, "pods ended     1 pod succeeded") {
		t.Errorf("of a job that has ended it says\n%s", text)
	}
}

func (w *world) limitIsExplained(t *testing.T) {
	w.cluster.Run(t, "sacctmgr", "-i", "modify", "account", "pods", "set", "GrpTRES=cpu=4")
	defer w.cluster.Run(t, "sacctmgr", "-i", "modify", "account", "pods", "set", "GrpTRES=cpu=-1")
	w.eventually(t, "slurmctld knows the limit", func() error {
		if text := w.cluster.Run(t, "scontrol", "-o", "show", "assoc_mgr", "accounts=pods", "flags=assoc"); !strings.Contains(text, "GrpTRES=cpu=4(") {
			return fmt.Errorf("%w: %s", errWait, text)
		}
		return nil
	})
	w.pod("within", nil)
	w.bound(t, "within")
	w.pod("beyond", nil)
	w.held(t, "beyond", "QueuedInSlurm")
	w.eventually(t, "the limit is explained", func() error {
		text := w.why(t, "beyond")
		for _, want := range []string{
			"waits: account pods has reached its limit of CPUs (AssocGrpCpuLimit).", "limit          CPUs, at most 4, 4 in use",
			"counts there   job ", "sacctmgr show assoc where account=pods",
		} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("%w: %q is not in\n%s", errWait, want, text)
			}
		}
		return nil
	})
}
