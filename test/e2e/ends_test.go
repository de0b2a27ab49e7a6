package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// diary is a container that writes down, in a folder of all nodes, when it starts, is told
// to end, and ends. It takes two seconds to end.
const diary = `exec >> /srv/shared/$NAMESPACE.$POD; echo start $(date +%s.%N)
trap 'echo told $(date +%s.%N); sleep 2; echo end $(date +%s.%N); exit 3' TERM
sleep DURATION & wait; echo end $(date +%s.%N)`

// diarist is a pod that keeps a diary, with whole nodes of its own, for so long (as sleep takes it).
func diarist(duration string) string {
	return fmt.Sprintf(`
    schedulerName: slurm-bridge-scheduler
    terminationGracePeriodSeconds: 20
    volumes: [{name: shared, hostPath: {path: /srv/shared}}]
    containers:
    - name: main
      image: %s
      imagePullPolicy: IfNotPresent
      command: [bash, -c, %q]
      env:
      - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
      - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
      volumeMounts: [{name: shared, mountPath: /srv/shared}]
      resources: {requests: {cpu: 100m, memory: 20Mi}}
`, image, strings.Replace(diary, "DURATION", duration, 1))
}

// alone is a diarist by itself; group may be empty.
func alone(name, group, annotations, duration string) string {
	spec := strings.ReplaceAll(diarist(duration), "\n    ", "\n  ")
	if group != "" {
		spec = "\n  schedulingGroup: {podGroupName: " + group + "}" + spec
	}
	return fmt.Sprintf("\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {app: %[1]s}, annotations: {%s}}\nspec:\n  restartPolicy: Never%s",
		name, annotations, spec)
}

// deployed are diarists who are made again when they end.
func deployed(name string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:%[3]s`, name, replicas, strings.ReplaceAll(diarist("infinity"), "\n", "\n  "))
}

// wrote is what a pod has written: when it did what.
func (b *box) wrote(pod string) map[string]float64 {
	b.t.Helper()
	out := map[string]float64{}
	for line := range strings.Lines(b.must("", "exec", "node-1", "cat", "/srv/shared/"+b.namespace+"."+pod)) {
		what, when, _ := strings.Cut(strings.TrimSpace(line), " ")
		seconds, err := strconv.ParseFloat(when, 64)
		if err != nil {
			b.t.Fatalf("pod %s wrote %q", pod, line)
		}
		out[what] = seconds
	}
	return out
}

// disrupted waits until a pod with the label app is to end for the reason, and returns it.
func (b *box) disrupted(app, reason string) corev1.Pod {
	b.t.Helper()
	var found corev1.Pod
	b.until("a pod of "+app+" ends for "+reason, func(ctx context.Context) error {
		var pods corev1.PodList
		out, err := b.run(ctx, "", "kubectl", "get", "-n", b.namespace, "pods", "-l", "app="+app, "-o", "json")
		if err != nil {
			return err
		}
		if err := decode(out, &pods); err != nil {
			return err
		}
		for _, p := range pods.Items {
			if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == reason && p.DeletionTimestamp != nil
			}) {
				found = p
				return nil
			}
		}
		return errors.New("none does")
	})
	return found
}

// hadItsGrace waits until a pod is gone, and checks that it was told and had the time to end by itself.
func (b *box) hadItsGrace(pod string) map[string]float64 {
	b.t.Helper()
	b.wait("pod/"+pod, "delete")
	wrote := b.wrote(pod)
	if wrote["told"] == 0 || wrote["end"] < wrote["told"] {
		b.t.Errorf("pod %s had no time to end: %v", pod, wrote)
	}
	return wrote
}

// Two gangs of two pods want whole nodes while a single pod has one of the two nodes: none of
// them starts by half on the one that is free, and the second runs when the first has ended.
func TestGangsContend(t *testing.T) {
	b := open(t, "e2e-contend")
	b.apply(alone("single", "", "", "infinity"))
	b.wait("pod/single", "condition=Ready")
	for _, gang := range []string{"a", "b"} {
		group := "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: " + gang + "}\nspec: {schedulingPolicy: {gang: {minCount: 2}}}\n"
		b.apply(group + alone(gang+"-0", gang, "", "1") + alone(gang+"-1", gang, "", "3"))
	}
	for _, pod := range []string{"a-0", "a-1", "b-0", "b-1"} {
		b.wait("pod/"+pod, "condition="+v1beta1.ConditionSlurmScheduled+"=False")
	}
	b.kubectl("delete", "-n", b.namespace, "pod/single", "--wait=false")
	single := b.hadItsGrace("single")
	wrote := map[string]map[string]float64{}
	for _, pod := range []string{"a-0", "a-1", "b-0", "b-1"} {
		b.wait("pod/"+pod, "jsonpath={.status.phase}=Succeeded")
		wrote[pod] = b.wrote(pod)
		if wrote[pod]["start"] < single["end"] {
			t.Errorf("pod %s of a gang of two started at %.1f, and one node was another's until %.1f", pod, wrote[pod]["start"], single["end"])
		}
	}
	first, second := "a", "b"
	if wrote["b-0"]["start"] < wrote["a-0"]["start"] {
		first, second = second, first
	}
	for _, gang := range []string{first, second} {
		if wrote[gang+"-1"]["end"] < wrote[gang+"-0"]["start"] || wrote[gang+"-0"]["end"] < wrote[gang+"-1"]["start"]-1 {
			t.Errorf("the pods of gang %s did not run together: %v and %v", gang, wrote[gang+"-0"], wrote[gang+"-1"])
		}
		if first == gang {
			continue
		}
		for _, pod := range []string{"-0", "-1"} {
			if end := max(wrote[first+"-0"]["end"], wrote[first+"-1"]["end"]); wrote[second+pod]["start"] < end {
				t.Errorf("pod %s%s started at %.1f, while gang %s had its nodes until %.1f", second, pod, wrote[second+pod]["start"], first, end)
			}
		}
	}
}

func TestTimeLimitEndsThePod(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-limit")
	b.apply(alone("long", "", v1beta1.AnnotationExclusive+`: "false"`, "infinity"))
	b.wait("pod/long", "condition=Ready")
	var pod corev1.Pod
	b.get(&pod, "pod", "long")
	job := jobOf(b, pod)
	// slurmctld looks for jobs whose time is over each half minute.
	b.slurm("", "scontrol", "update", "jobid="+job, "TimeLimit=1", "EndTime=now")
	b.disrupted("long", v1beta1.ReasonSlurmTimeLimit)
	b.hadItsGrace("long")
	b.jobState(job, "TIMEOUT")
}

// A Deployment's pods lose their nodes, are told why, end by themselves, and are made again: one makes room
// for a pod of an urgent partition, which doesn't start before, and one is on a node that Slurm takes for lost.
func TestPodsThatLoseTheirNodes(t *testing.T) {
	b := open(t, "e2e-lose")
	b.cleanup("remove the partition", "bash", "-c", "scancel --partition=urgent; sleep 1; scontrol delete PartitionName=urgent")
	b.slurm("", "scontrol", "create", "PartitionName=urgent", "Nodes=node-[2-3]", "State=UP", "PriorityTier=10")
	b.apply(deployed("patient", 2))
	b.wait("deployment/patient", "condition=Available")

	b.apply(alone("urgent", "", v1beta1.AnnotationPartition+": urgent", "infinity"))
	loser := b.disrupted("patient", v1beta1.ReasonSlurmPreempted)
	lost := b.hadItsGrace(loser.Name)
	b.wait("pod/urgent", "condition=Ready")
	b.jobState(jobOf(b, loser), "PREEMPTED")
	if won := b.wrote("urgent"); won["start"] < lost["end"] {
		t.Errorf("the urgent pod started at %.1f, and the other one ended at %.1f", won["start"], lost["end"])
	}
	b.wait("deployment/patient", "jsonpath={.status.unavailableReplicas}=1")
	b.kubectl("delete", "-n", b.namespace, "pod/urgent", "--wait=false")
	b.wait("deployment/patient", "jsonpath={.status.availableReplicas}=2")

	const node = "node-3"
	resume := []string{"scontrol", "update", "nodename=" + node, "state=resume"}
	b.cleanup("bring the node back", "bash", "-c", "sinfo --noheader --Node --nodes="+node+" --states=down | grep -q . || exit 0; exec "+strings.Join(resume, " "))
	b.slurm("", "scontrol", "update", "nodename="+node, "state=down", "reason=power")
	gone := b.disrupted("patient", v1beta1.ReasonSlurmNodeFail)
	away := "node/" + node
	b.kubectl("wait", away, "--for=condition="+v1beta1.ConditionSlurmAway, "--timeout="+patience.String())
	b.hadItsGrace(gone.Name)
	b.jobState(jobOf(b, gone), "NODE_FAIL")
	if gone.Spec.NodeName != node {
		t.Errorf("%s is lost, and a pod of %s ended", node, gone.Spec.NodeName)
	}
	b.wait("deployment/patient", "jsonpath={.status.unavailableReplicas}=1")
	b.slurm("", resume...)
	b.wait("deployment/patient", "jsonpath={.status.availableReplicas}=2")
	b.kubectl("wait", away, "--for=condition="+v1beta1.ConditionSlurmAway+"=False", "--timeout="+patience.String())
}

// cleanup runs a Slurm command at the end of the test.
func (b *box) cleanup(what string, command ...string) {
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if out, err := b.run(ctx, "", append([]string{"slurm"}, command...)...); err != nil {
			b.t.Errorf("%s: %v\n%s", what, err, out)
		}
	})
}
