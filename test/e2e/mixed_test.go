package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// mixed is the story of one node on which slurmd runs jobs and kubelet runs pods, each on cores that Slurm gave it.
type mixed struct {
	cpus
	// worker is the node's name in Slurm, node its name in Kubernetes.
	worker, node string
}

// Slurm's own jobs and pods are on one node at the same time, and no core is ever two of theirs: each writes down
// the CPUs that it has, as long as it lives.
func TestSlurmJobsAndPodsShareANode(t *testing.T) {
	m := mixed{cpus: cpus{open(t, "e2e-mixed")}, worker: "cpu-0"}
	back := m.give()
	m.install(m.node, "groupBy: machine", "selfManaged: [slurm/app.kubernetes.io/name=slurmd]", "slurmJobs: exclusive")
	m.until("the driver's slice is there", func(ctx context.Context) error {
		out, err := m.run(ctx, "", "kubectl", "get", "resourceslices", "--field-selector", "spec.driver=dra.cpu,spec.nodeName="+m.node, "-o", "name")
		if err == nil && out == "" {
			err = fmt.Errorf("there is none")
		}
		return err
	})

	all := m.bystander()
	first := m.native("first")
	m.jobState(first, "RUNNING")
	a := m.only("first", m.written("first"))
	m.has("bystander", all.Minus(a))
	m.apply(m.beside("one"))
	m.wait("pod/one", "condition=Ready")
	one := m.only("one", m.kubectl("logs", "-n", m.namespace, "one"))
	// When jobs have all that claims leave, it shares these with the jobs.
	if rest := all.Minus(one).Minus(a); rest.Empty() {
		m.has("bystander", all.Minus(one))
	} else {
		m.has("bystander", rest)
	}
	if one.Overlaps(a) {
		t.Errorf("the pod has CPUs %s, and the Slurm job %s", one, a)
	}

	// The node is full: a second pod waits for the job, and gets its core.
	m.apply(m.beside("two"))
	m.wait("pod/two", "condition="+v1beta1.ConditionSlurmScheduled+"=False")
	m.slurm("", "scancel", first)
	m.wait("pod/two", "condition=Ready")
	if two := m.only("two", m.kubectl("logs", "-n", m.namespace, "two")); !two.Equal(a) {
		t.Errorf("the second pod has CPUs %s, and only %s were free", two, a)
	}

	// The other way round: a job waits for a pod.
	second := m.native("second")
	m.kubectl("delete", "pod", "-n", m.namespace, "two", "--wait")
	m.jobState(second, "RUNNING")
	if b := m.only("second", m.written("second")); b.Overlaps(one) {
		t.Errorf("the second Slurm job has CPUs %s, and the pod %s", b, one)
	}
	if now := m.only("one", m.kubectl("logs", "-n", m.namespace, "one")); !now.Equal(one) {
		t.Errorf("the pod was moved from CPUs %s to %s", one, now)
	}
	m.slurm("", "scancel", second)
	m.kubectl("delete", "pod", "-n", m.namespace, "one", "--wait")
	m.has("bystander", all)
	back()
	m.uninstalled()
}

// uninstalled takes the driver away for good: the node, which was registered with its CPUs, isn't kept from jobs for it.
func (m *mixed) uninstalled() {
	m.t.Helper()
	m.must("", "helm", "uninstall", "dra-driver-cpu", "--namespace", m.namespace, "--wait")
	m.until("node "+m.node+" is registered without the driver", func(ctx context.Context) error {
		out, err := m.run(ctx, "", "slurm", "scontrol", "show", "node", m.node, "--oneliner")
		if err == nil && (strings.Contains(field(out, "Extra"), "dra.cpu") || strings.Contains(field(out, "State"), "DRAIN")) {
			err = fmt.Errorf("scontrol says %s", out)
		}
		return err
	})
}

// bystander is a pod on the node that neither Slurm nor a claim knows of. It returns what it runs on.
func (m *mixed) bystander() cpuset.Set {
	m.t.Helper()
	m.apply(strings.NewReplacer("kubernetes.io/hostname: "+driverNode, "kubernetes.io/hostname: "+m.node,
		"  terminationGracePeriodSeconds", "  tolerations: [{operator: Exists}]\n  terminationGracePeriodSeconds").Replace(podWith("bystander", "")))
	m.wait("pod/bystander", "condition=Ready")
	return m.now("bystander")
}

// has waits until a pod's container may run on these CPUs.
func (m *mixed) has(pod string, want cpuset.Set) {
	m.t.Helper()
	m.until(pod+" has CPUs "+want.String(), func(context.Context) error {
		if got := m.now(pod); !got.Equal(want) {
			return fmt.Errorf("it has %s", got)
		}
		return nil
	})
}

// give makes the Kubernetes node of a worker known under the worker's name in Slurm. back undoes it.
func (m *mixed) give() (back func()) {
	m.t.Helper()
	var pod corev1.Pod
	m.read(&pod, "get", "pod", "-n", "slurm", m.worker)
	m.node = pod.Spec.NodeName
	var node corev1.Node
	m.read(&node, "get", "node", m.node)
	give, take := []string{v1beta1.LabelSlurmNodeName + "=" + m.worker}, []string{v1beta1.LabelSlurmNodeName + "-"}
	_, external := node.Labels[v1beta1.LabelExternalNode]
	if external {
		give, take = append(give, v1beta1.LabelExternalNode+"-"), append(take, v1beta1.LabelExternalNode+"=")
	}
	label := []string{"kubectl", "label", "node", "--overwrite", m.node}
	m.t.Cleanup(func() { // for a story that ended early
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if out, err := m.run(ctx, "", append(label, take...)...); err != nil {
			m.t.Errorf("give node %s back: %v\n%s", m.node, err, out)
		}
	})
	m.must("", append(label, give...)...)
	return func() {
		m.t.Helper()
		m.must("", append(label, take...)...)
		if external {
			m.until("Slurm has node "+m.node+" again", func(ctx context.Context) error {
				out, err := m.run(ctx, "", "slurm", "sinfo", "--noheader", "--Node", "--nodes="+m.node, "--format=%T")
				if err == nil && strings.TrimSpace(out) != "idle" {
					err = fmt.Errorf("it is %q there", out)
				}
				return err
			})
		}
	}
}

// read reads an object of any namespace.
func (m *mixed) read(v any, args ...string) {
	m.t.Helper()
	if err := decode(m.kubectl(append(args, "-o", "json")...), v); err != nil {
		m.t.Fatalf("read kubectl %s: %v", strings.Join(args, " "), err)
	}
}

// native starts a job of Slurm's own on one core of the worker.
func (m *mixed) native(name string) string {
	m.t.Helper()
	return strings.TrimSpace(m.slurm("#!/bin/bash\n"+watchCPUs+"\n", "sbatch", "--parsable", "--partition=cpu", "--nodelist="+m.worker,
		"--ntasks=1", "--cpus-per-task=1", "--mem=50", "--time=10", "--output=/tmp/mixed-"+name))
}

// written is what a job of Slurm's own has written, once there is something.
func (m *mixed) written(name string) (out string) {
	m.t.Helper()
	m.until("job "+name+" has written its CPUs", func(ctx context.Context) (err error) {
		out, err = m.run(ctx, "", "kubectl", "exec", "-n", "slurm", m.worker, "-c", "slurmd", "--", "cat", "/tmp/mixed-"+name)
		if err == nil && out == "" {
			err = fmt.Errorf("nothing yet")
		}
		return err
	})
	return out
}

// only is the one set of CPUs that something has had in all its life.
func (m *mixed) only(name, written string) cpuset.Set {
	m.t.Helper()
	lines := strings.Split(strings.TrimSpace(written), "\n")
	_, list, _ := strings.Cut(lines[0], " ")
	set, err := cpuset.Parse(list)
	if err != nil || set.Empty() || len(lines) != 1 {
		m.t.Fatalf("%s has had these CPUs: %q", name, written)
	}
	return set
}

// beside is a pod that shares its node, on one core.
func (m *mixed) beside(name string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations:
    %spartition: cpu
    %[2]sexclusive: "false"
    %[2]smem-per-node: 50Mi
spec:
  schedulerName: slurm-bridge-scheduler
  nodeSelector: {kubernetes.io/hostname: %s}
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: %s
    imagePullPolicy: IfNotPresent
    command: ["bash", "-c", %q]
    resources: {limits: {deviceclass.resource.kubernetes.io/dra.cpu: 1}}
`, name, v1beta1.JobAnnotationPrefix, m.node, image, watchCPUs)
}
