package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A running container has the number of its CPUs, and its job, in its environment.
func TestThreadsAreTold(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-threads")
	b.apply(example(t, "bridge/threads.yaml"))
	b.wait("pod/threads", "jsonpath={.status.phase}=Succeeded")
	var pod corev1.Pod
	b.get(&pod, "pod", "threads")
	want := fmt.Sprintf("2 threads, job %s, node %s\n100\n", jobOf(b, pod), pod.Spec.NodeName)
	if got := b.kubectl("logs", "-n", b.namespace, "threads"); got != want {
		t.Errorf("the pod says %q, want %q", got, want)
	}
}

// Two ranks find each other by what they are told, and share the work.
func TestRanksMeet(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-ranks")
	b.apply(example(t, "bridge/ranks.yaml"))
	sums := []string{"sum 125250", "sum 375250"}
	for rank, sum := range sums {
		name := fmt.Sprintf("ring-%d", rank)
		b.wait("pod/"+name, "jsonpath={.status.phase}=Succeeded")
		var pod corev1.Pod
		b.get(&pod, "pod", name)
		got := b.kubectl("logs", "-n", b.namespace, name)
		for _, want := range []string{
			fmt.Sprintf("rank %d of 2, job %s on ", rank, jobOf(b, pod)), "peers ring-0.ring,ring-1.ring\n", fmt.Sprintf("rank %d: %s\n", rank, sum),
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s says %q, want %q in it", name, got, want)
			}
		}
	}
}

// What a tenant may not ask for is refused where it is asked, with the rule.
func TestRulesOfANamespace(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-rules")
	b.kubectl("annotate", "namespace", b.namespace, "slurmjob-allowed.slinky.slurm.net/account=physics")
	b.until("the rule counts", func(ctx context.Context) error {
		out, err := b.run(ctx, `
apiVersion: v1
kind: Pod
metadata: {name: other, annotations: {slurmjob.slinky.slurm.net/account: chemistry}}
spec:
  schedulerName: slurm-bridge-scheduler
  containers: [{name: main, image: none}]
`, "kubectl", "apply", "-n", b.namespace, "--dry-run=server", "-f", "-")
		if err == nil {
			return fmt.Errorf("it was let in: %s", out)
		}
		if !strings.Contains(err.Error(), "may only have physics (annotation slurmjob-allowed.slinky.slurm.net/account of Namespace e2e-rules)") {
			return err
		}
		return nil
	})
}
