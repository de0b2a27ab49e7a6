package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// bridgePod is a pod that leaves its place to Slurm.
func bridgePod(name, command string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %[1]s}}
spec:
  schedulerName: slurm-bridge-scheduler
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: %s
    imagePullPolicy: IfNotPresent
    command: [bash, -c, %q]
    resources: {requests: {cpu: 100m, memory: 50Mi}}
`, name, image, command)
}

// jobOf is the Slurm job that a pod says it belongs to.
func jobOf(b *box, pod corev1.Pod) string {
	b.t.Helper()
	job := pod.Labels[v1beta1.LabelJobID]
	if job == "" {
		b.t.Fatalf("pod %s has no label %s", pod.Name, v1beta1.LabelJobID)
	}
	return job
}

// jobOver waits until a job has ended, however it did.
func jobOver(b *box, job string) {
	b.t.Helper()
	b.until("job "+job+" is over", func(ctx context.Context) error {
		out, err := b.run(ctx, "", "slurm", "squeue", "--noheader", "--states", "all", "--jobs", job, "--format", "%T")
		if err != nil {
			return err
		}
		switch state := strings.TrimSpace(out); state {
		case "PENDING", "RUNNING", "COMPLETING", "SUSPENDED":
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
}

// nodesOf are the nodes of a job, as Slurm names them.
func nodesOf(b *box, job string) []string {
	b.t.Helper()
	list := field(b.slurm("", "scontrol", "show", "job", job, "--oneliner"), "NodeList")
	return strings.Fields(b.slurm("", "scontrol", "show", "hostnames", list))
}

func TestPodIsPlacedBySlurm(t *testing.T) {
	b := open(t, "e2e-pod")
	b.apply(bridgePod("single", "echo ran && exec sleep infinity"))
	b.wait("pod/single", "condition=Ready")
	var pod corev1.Pod
	b.get(&pod, "pod", "single")
	job := jobOf(b, pod)
	if got := field(b.slurm("", "scontrol", "show", "job", job, "--oneliner"), "JobState"); got != "RUNNING" {
		t.Errorf("job %s of a running pod is %s", job, got)
	}
	if nodes := nodesOf(b, job); len(nodes) != 1 || nodes[0] != pod.Spec.NodeName {
		t.Errorf("Slurm gave job %s nodes %q, and the pod runs on %s", job, nodes, pod.Spec.NodeName)
	}
	if got := b.kubectl("logs", "-n", b.namespace, "single"); got != "ran\n" {
		t.Errorf("logs of the pod: %q", got)
	}
	b.kubectl("delete", "-n", b.namespace, "pod/single", "--wait", "--timeout="+patience.String())
	jobOver(b, job)
}

// Two pods become one job on two nodes, and the job ends when they have.
func TestGangRunsAsOneJob(t *testing.T) {
	b := open(t, "e2e-gang")
	b.apply(example(t, "primes/gang.yaml"))
	b.wait("pod/primes-0", "jsonpath={.status.phase}=Succeeded")
	b.wait("pod/primes-1", "jsonpath={.status.phase}=Succeeded")
	var pods corev1.PodList
	b.get(&pods, "pods", "-l", "app=primes")
	if len(pods.Items) != 2 {
		t.Fatalf("%d pods, want 2", len(pods.Items))
	}
	first, second := pods.Items[0], pods.Items[1]
	job := jobOf(b, first)
	if other := jobOf(b, second); other != job {
		t.Errorf("the pods of one gang are in jobs %s and %s", job, other)
	}
	if first.Spec.NodeName == second.Spec.NodeName {
		t.Errorf("both pods ran on %s", first.Spec.NodeName)
	}
	total := 0
	for _, pod := range pods.Items {
		var node string
		var count int
		if _, err := fmt.Sscan(b.kubectl("logs", "-n", b.namespace, pod.Name), &node, &count); err != nil {
			t.Fatalf("read the logs of %s: %v", pod.Name, err)
		}
		if node != pod.Spec.NodeName {
			t.Errorf("pod %s says it ran on %s, and Kubernetes says %s", pod.Name, node, pod.Spec.NodeName)
		}
		total += count
	}
	if got := fmt.Sprintf("primes below 2000000: %d", total); got != primes {
		t.Errorf("the pods counted %q, want %q", got, primes)
	}
	jobOver(b, job)
}

func TestScancelEndsThePods(t *testing.T) {
	b := open(t, "e2e-cancel")
	b.apply(`
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: pair}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
`)
	b.apply(alone("pair-0", "pair", "", "infinity") + alone("pair-1", "pair", "", "infinity"))
	b.wait("pod/pair-0", "condition=Ready")
	b.wait("pod/pair-1", "condition=Ready")
	var pod corev1.Pod
	b.get(&pod, "pod", "pair-0")
	job := jobOf(b, pod)
	if nodes := nodesOf(b, job); len(nodes) != 2 {
		t.Errorf("Slurm gave job %s nodes %q, want two", job, nodes)
	}
	b.slurm("", "scancel", job)
	b.disrupted("pair-0", v1beta1.ReasonSlurmCancelled)
	b.hadItsGrace("pair-0")
	b.hadItsGrace("pair-1")
}
