package nodeset

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// manyWorkers are the facts of a NodeSet whose workers are as they should be.
func manyWorkers(n int, mode v1beta1.ScalingMode) Facts {
	f := facts(int32(n))
	f.NodeSet.Spec.ScalingMode = mode
	for i := range n {
		name := fmt.Sprintf("k%04d", i)
		f.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	for len(f.Pods) < n {
		before := len(f.Pods)
		plan := Make(f)
		for _, s := range plan.Steps {
			switch s.Action {
			case CreateRevision:
				f.Revisions = append(f.Revisions, *s.Revision)
			case CreatePod:
				pod := *s.Pod
				pod.Spec.NodeName = fmt.Sprintf("k%04d", len(f.Pods))
				if target := targetNode(s.Pod); target != "" {
					pod.Spec.NodeName = target
				}
				pod.Status.Phase = corev1.PodRunning
				setReady(&pod, true, f.Now)
				f.Pods = append(f.Pods, pod)
				f.Slurm.Nodes[SlurmNode(&pod)] = slurm.Node{Name: SlurmNode(&pod), States: slurm.StatesOf(slurm.NodeIdle)}
			}
		}
		if len(f.Pods) == before {
			panic("no pods are made")
		}
	}
	w := &world{pods: map[string]*corev1.Pod{}, nodes: map[string]*slurm.Node{}, facts: f}
	for i := range f.Pods {
		w.pods[f.Pods[i].Name] = &f.Pods[i]
	}
	for name, n := range f.Slurm.Nodes {
		w.nodes[name] = &n
	}
	for range 3 { // comments, then conditions
		for _, s := range Make(f).Steps {
			w.do(s)
		}
		for name, n := range w.nodes {
			f.Slurm.Nodes[name] = *n
		}
	}
	return f
}

// measure reports the processor's time, too: the clock of a shared machine says little.
func measure(b *testing.B, plan func()) {
	begin := processor(b)
	for b.Loop() {
		plan()
	}
	b.ReportMetric((processor(b)-begin).Seconds()/float64(b.N), "cpu-sec/op")
}

func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkPlan2000(b *testing.B) {
	for _, mode := range []v1beta1.ScalingMode{v1beta1.ScalingModeStatefulSet, v1beta1.ScalingModeDaemonSet} {
		f := manyWorkers(2000, mode)
		b.Run(string(mode)+"/nothing to do", func(b *testing.B) {
			measure(b, func() {
				if steps := Make(f).Steps; len(steps) > 0 {
					b.Fatalf("%d steps, first %s", len(steps), steps[0])
				}
			})
		})
		b.Run(string(mode)+"/update", func(b *testing.B) {
			changed := f
			set := *f.NodeSet
			set.Spec.ExtraConf = "Weight=5"
			changed.NodeSet = &set
			measure(b, func() {
				if steps := Make(changed).Steps; len(steps) < 500 {
					b.Fatalf("%d steps", len(steps))
				}
			})
		})
	}
	b.Run("first 250 pods", func(b *testing.B) {
		f := facts(2000)
		measure(b, func() {
			if steps := Make(f).Steps; len(steps) < burst {
				b.Fatalf("%d steps", len(steps))
			}
		})
	})
}
