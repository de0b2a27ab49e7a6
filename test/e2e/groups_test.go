package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// A JobSet, by its own controller: the second job's pods come once the first has ended,
// and each pod is a Slurm job of its own.
func TestJobSetRuns(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-jobset")
	b.addon(example(t, "bridge/jobset-depends.yaml"))
	b.wait("jobset/pipeline", "condition=Completed")
	var pods corev1.PodList
	b.get(&pods, "pods", "-l", "jobset.sigs.k8s.io/jobset-name=pipeline")
	jobs := map[string]bool{}
	for _, pod := range pods.Items {
		jobs[jobOf(b, pod)] = true
	}
	if len(pods.Items) != 3 || len(jobs) != 3 {
		t.Errorf("%d pods in %d jobs, want 3 in 3", len(pods.Items), len(jobs))
	}
	for job := range jobs {
		jobOver(b, job)
	}
}

// A replica of a LeaderWorkerSet, by its own controller, is one job, and a worker that is made again joins it.
func TestLeaderWorkerSetRuns(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-lws")
	b.addon(strings.Replace(leaderWorkerSet, "IMAGE", image, 1))
	b.wait("leaderworkerset/serve", "condition=Available")
	var leader, worker corev1.Pod
	b.get(&leader, "pod", "serve-0")
	b.get(&worker, "pod", "serve-0-1")
	job := jobOf(b, leader)
	if other := jobOf(b, worker); other != job {
		t.Errorf("leader and worker are in jobs %s and %s", job, other)
	}
	b.replaced(worker, job)
	b.kubectl("delete", "-n", b.namespace, "leaderworkerset/serve", "--wait", "--timeout="+patience.String())
	jobOver(b, job)
}

// A StatefulSet whose pods are one gang: they have Slurm's nodes in the order of their ordinals, and one that
// is made again, with the name of the old one, joins the job where that was.
func TestStatefulSetRuns(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-sts")
	b.apply(strings.Replace(statefulSet, "IMAGE", image, 1))
	b.wait("statefulset/ring", "jsonpath={.status.availableReplicas}=2")
	var first, second corev1.Pod
	b.get(&first, "pod", "ring-0")
	b.get(&second, "pod", "ring-1")
	job := jobOf(b, first)
	if other := jobOf(b, second); other != job {
		t.Errorf("the pods are in jobs %s and %s", job, other)
	}
	// Slurm's own order is that in which the nodes were registered; scontrol would sort them.
	list := first.Annotations[v1beta1.AnnotationNodeList]
	if nodes, err := hostlist.Expand(list); err != nil || !slices.Equal(nodes, []string{first.Spec.NodeName, second.Spec.NodeName}) {
		t.Errorf("the job has nodes %s (%v); ring-0 is on %s, ring-1 on %s", list, err, first.Spec.NodeName, second.Spec.NodeName)
	}
	b.replaced(first, job)
	b.kubectl("delete", "-n", b.namespace, "statefulset/ring", "--cascade=foreground", "--wait", "--timeout="+patience.String())
	jobOver(b, job)
}

// replaced deletes a pod and waits until another one of its name runs in its place.
func (b *box) replaced(old corev1.Pod, job string) {
	b.t.Helper()
	b.kubectl("delete", "-n", b.namespace, "pod/"+old.Name, "--wait", "--timeout="+patience.String())
	b.until("another "+old.Name+" takes its place", func(ctx context.Context) error {
		var now corev1.Pod
		out, err := b.run(ctx, "", "kubectl", "get", "-n", b.namespace, "pod/"+old.Name, "-o", "json")
		if err == nil {
			err = decode(out, &now)
		}
		if err != nil {
			return err
		}
		if now.UID == old.UID || now.Status.Phase != corev1.PodRunning || now.Spec.NodeName != old.Spec.NodeName || now.Labels[v1beta1.LabelJobID] != job {
			return fmt.Errorf("it is %s on %q in job %q, want %s and %s", now.Status.Phase, now.Spec.NodeName, now.Labels[v1beta1.LabelJobID], old.Spec.NodeName, job)
		}
		return nil
	})
}

const statefulSet = `
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata:
  name: ring
  annotations: {slurmjob.slinky.slurm.net/exclusive: "false", slurmjob.slinky.slurm.net/min-nodes: "2"}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ring}
spec:
  replicas: 2
  serviceName: ring
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: ring}}
  template:
    metadata: {labels: {app: ring}}
    spec:
      schedulerName: slurm-bridge-scheduler
      schedulingGroup: {podGroupName: ring}
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: "IMAGE", imagePullPolicy: IfNotPresent, command: [sleep, infinity], resources: {requests: {cpu: 100m, memory: 50Mi}}}
`

const leaderWorkerSet = `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: serve, annotations: {slurmjob.slinky.slurm.net/exclusive: "false"}}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    restartPolicy: None
    workerTemplate:
      spec:
        schedulerName: slurm-bridge-scheduler
        terminationGracePeriodSeconds: 1
        containers:
        - {name: main, image: "IMAGE", imagePullPolicy: IfNotPresent, command: [sleep, infinity], resources: {requests: {cpu: 100m, memory: 50Mi}}}
`

// addon applies what a controller's webhook has to admit, which it does a moment after the controller is there.
func (b *box) addon(manifest string) {
	b.t.Helper()
	b.until("the webhook admits it", func(ctx context.Context) error {
		_, err := b.run(ctx, manifest, "kubectl", "apply", "-n", b.namespace, "-f", "-")
		return err
	})
}

// The examples of the kinds that Kubernetes has, and of the coscheduling plugin's, run to their ends.
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-examples")
	b.apply(customResource(t, "podgroups.scheduling.x-k8s.io"))
	t.Cleanup(func() { b.drop("crd", "podgroups.scheduling.x-k8s.io") })
	b.wait("crd/podgroups.scheduling.x-k8s.io", "condition=Established")
	for _, name := range []string{"job", "gang", "gang-job", "coscheduling"} {
		b.apply(example(t, "bridge/"+name+".yaml"))
	}
	for _, pair := range []string{"pair", "duo"} {
		jobs := map[string]bool{}
		for i := range 2 {
			name := fmt.Sprintf("%s-%d", pair, i)
			b.wait("pod/"+name, "jsonpath={.status.phase}=Succeeded")
			var pod corev1.Pod
			b.get(&pod, "pod", name)
			jobs[jobOf(b, pod)] = true
		}
		if len(jobs) != 1 {
			t.Errorf("the pods of %s are in %d jobs", pair, len(jobs))
		}
	}
	b.wait("job/numbers", "condition=Complete")
	b.wait("job/ring", "condition=Complete")
	b.wait("podgroup.scheduling.k8s.io/pair", "condition=PodGroupInitiallyScheduled")
	b.wait("podgroup.scheduling.x-k8s.io/duo", "jsonpath={.status.phase}=Finished")
}

// customResource is the definition of a kind that the bridge's own tests have.
func customResource(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../cmd/bridge-scheduler/testdata/kinds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		if strings.Contains(doc, name) {
			return doc
		}
	}
	t.Fatalf("no definition of %s", name)
	return ""
}

// An autoscaler of pods makes a Deployment larger and smaller: each pod is a job, which ends with it.
func TestAutoscaledDeployment(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-hpa")
	b.apply(strings.Replace(autoscaled, "IMAGE", image, 1))
	b.wait("deployment/web", "jsonpath={.status.availableReplicas}=2")
	jobs := b.jobsOf("app=web")
	if len(jobs) != 2 {
		t.Errorf("two pods are in %d jobs", len(jobs))
	}
	b.kubectl("patch", "-n", b.namespace, "hpa/web", "--type=merge", "--patch", `{"spec":{"minReplicas":1,"maxReplicas":1}}`)
	b.wait("deployment/web", "jsonpath={.status.replicas}=1")
	var left map[string]bool
	b.until("one pod is left", func(context.Context) error {
		if left = b.jobsOf("app=web"); len(left) != 1 {
			return fmt.Errorf("there are %d", len(left))
		}
		return nil
	})
	for job := range jobs {
		if !left[job] {
			jobOver(b, job)
		}
	}
}

// jobsOf are the Slurm jobs of the pods with a label.
func (b *box) jobsOf(label string) map[string]bool {
	b.t.Helper()
	var pods corev1.PodList
	b.get(&pods, "pods", "-l", label)
	jobs := map[string]bool{}
	for _, pod := range pods.Items {
		jobs[jobOf(b, pod)] = true
	}
	return jobs
}

const autoscaled = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {slurmjob.slinky.slurm.net/exclusive: "false"}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: slurm-bridge-scheduler
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: "IMAGE", imagePullPolicy: IfNotPresent, command: [sleep, infinity], resources: {requests: {cpu: 100m, memory: 50Mi}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 3
`
