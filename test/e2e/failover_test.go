package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// lean is a Slurm cluster that takes little of the machine: every worker claims four CPUs
// of its own. More fields of the Controller's spec go in, each line indented by two.
func (b *box) lean(controller string, workers int) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: slurm-files}
data:
  cgroup.conf: |
    CgroupPlugin=disabled
---
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: {name: slurm}
spec:
  slurmKeyRef: {name: slurm-auth-slurm, key: slurm.key}
  jwtKeyRef: {name: slurm-auth-jwt, key: jwt.key}
  configFileRefs: [{name: slurm-files}]
%[1]s---
apiVersion: slinky.slurm.net/v1beta1
kind: RestApi
metadata: {name: slurm}
spec:
  controllerRef: {name: slurm}
  template: {spec: {tolerations: [{operator: Exists}]}}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: cpu}
spec:
  controllerRef: {name: slurm}
  replicas: %[2]d
  oversubscribeNode: true
  extraConf: CPUs=4 CoresPerSocket=4
  partition: {enabled: true, config: State=UP Default=YES MaxTime=INFINITE}
  template:
    spec:
      terminationGracePeriodSeconds: 5
      tolerations: [{operator: Exists}]
`, controller, workers)
}

// leanConf are lines of slurm.conf for it.
const leanConf = `  extraConf: |
    SlurmctldTimeout=10
    MessageTimeout=60
    SelectType=select/cons_tres
    SelectTypeParameters=CR_Core
    ProctrackType=proctrack/linuxproc
    TaskPlugin=task/none
    SlurmdParameters=config_overrides
    ReturnToService=2
    SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
`

// leanState keeps its state, on a claim of its own.
const leanState = `  persistence: {enabled: true, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  template:
    spec:
      terminationGracePeriodSeconds: 5
      tolerations: [{operator: Exists}]
`

// sharedVolume is a claim on a folder that all nodes share.
func (b *box) sharedVolume(name string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s-%[2]s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  storageClassName: shared
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: %[1]s, name: %[2]s}
  hostPath: {path: /srv/shared/%[1]s-%[3]s, type: DirectoryOrCreate}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[2]s}
spec:
  storageClassName: shared
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 1Gi}}
---
`, b.namespace, name, rand.Text())
}

// in runs a command in a pod of slurmctld.
func (c *cluster) in(pod, stdin string, args ...string) string {
	c.t.Helper()
	return c.must(stdin, append([]string{"kubectl", "exec", "-i", "-n", c.namespace, pod, "-c", "slurmctld", "--"}, args...)...)
}

// inControl waits until one pod, and no other, is labelled as the active controller and is
// the Service's endpoint.
func (c *cluster) inControl(pod string) {
	c.t.Helper()
	c.until(pod+" is in control", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "pods", "-n", c.namespace, "-l", "controller.slinky.slurm.net/active=true", "-o", "name")
		if err == nil && strings.TrimSpace(out) != "pod/"+pod {
			err = fmt.Errorf("labelled are %q", out)
		}
		if err != nil {
			return err
		}
		ready, err := c.endpoints(ctx)
		if err == nil && !slices.Equal(ready, []string{pod}) {
			err = fmt.Errorf("endpoints are %q", ready)
		}
		return err
	})
}

func (c *cluster) endpoints(ctx context.Context) ([]string, error) {
	out, err := c.run(ctx, "", "kubectl", "get", "endpointslices", "-n", c.namespace, "-l", "kubernetes.io/service-name=slurm-controller", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list discoveryv1.EndpointSliceList
	if err := decode(out, &list); err != nil {
		return nil, err
	}
	var names []string
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.TargetRef != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				names = append(names, e.TargetRef.Name)
			}
		}
	}
	return names, nil
}

// signal sends a signal to slurmctld and its helper process. A command in a container that
// dies of it dies too.
func (c *cluster) signal(pod, name string) {
	c.t.Helper()
	_, err := c.run(c.t.Context(), "", "kubectl", "exec", "-n", c.namespace, pod, "-c", "slurmctld", "--", "bash", "-c",
		`for p in /proc/[0-9]*; do case "$(cat $p/comm 2>/dev/null)" in slurm*) kill -`+name+` ${p#/proc/};; esac; done`)
	if err != nil && name != "KILL" {
		c.t.Fatal(err)
	}
}

// saved waits until slurmctld has written a running job to disk: it does so a few seconds
// after a change, and what it hasn't written is lost with it. A file of the job's first second
// may be from before it, and stays as it is without a change.
func (c *cluster) saved(job string) {
	c.t.Helper()
	c.until("job "+job+" is saved", func(ctx context.Context) error {
		out, err := c.run(ctx, "", c.command("bash", "-c", `state=/var/spool/slurmctld/*/job_state
			[ $(stat -c %Y $state) -gt $(date -d "$(squeue -h -j `+job+` -o %S)" +%s) ] && echo saved ||
			{ scontrol update JobId=`+job+` Comment=saved && echo "not yet"; }`)...)
		if err == nil && strings.TrimSpace(out) != "saved" {
			err = fmt.Errorf("it is not: %s", out)
		}
		return err
	})
}

// pair is a Slurm cluster with two slurmctld and two workers. The kubelet is patient with a
// frozen slurmctld: on a slow machine it would end it while the story is still about the freeze.
func (b *box) pair() string {
	return b.sharedVolume("state") + b.lean(`  ha: {enabled: true, backups: 1}
  persistence: {enabled: true, existingClaim: state}
  slurmctld: {livenessProbe: {failureThreshold: 100}}
  template:
    spec:
      terminationGracePeriodSeconds: 5
      tolerations: [{operator: Exists}]
      initContainers:
      - name: own-the-state
        image: `+image+`
        imagePullPolicy: IfNotPresent
        command: [chown, "401:401", /state]
        securityContext: {runAsUser: 0, runAsNonRoot: false}
        volumeMounts: [{name: statesave, mountPath: /state}]
`+leanConf, 2)
}

// Without any slurmrestd: the active slurmctld freezes, and later its pod is killed. Another
// one takes over each time, commands and jobs go on, and every job ends with its right result.
func TestCheck15FailoverWithoutRestApi(t *testing.T) {
	b := open(t, "e2e-failover")
	t.Parallel()
	t.Cleanup(func() { b.drop("pv", "e2e-failover-state") })
	c := b.cluster(b.pair())
	c.nodesAre("idle", "cpu-0", "cpu-1")
	c.inControl("slurm-controller-0")
	c.kubectl("scale", "-n", c.namespace, "deployment/slurm-restapi", "--replicas=0")
	c.kubectl("patch", "-n", c.namespace, "restapi.slinky.slurm.net/slurm", "--type=merge", "-p", `{"spec":{"replicas":0}}`)

	long := c.submit("#!/bin/bash\nsrun sleep 45\nsrun bash -c 'echo $SLURMD_NODENAME'\n", "--nodes=2", "--output=/tmp/long")
	c.jobIs(long, "RUNNING")
	c.saved(long)

	c.signal("slurm-controller-0", "STOP")
	c.inControl("slurm-controller-1")
	if got := strings.TrimSpace(c.in("slurm-controller-1", "", "squeue", "--noheader", "--format", "%i %T")); got != long+" RUNNING" {
		t.Errorf("after the fail-over the queue is %q, want job %s running", got, long)
	}
	during := strings.TrimSpace(c.in("slurm-controller-1", "#!/bin/bash\necho six times seven is $((6 * 7))\n", "sbatch", "--parsable", "--output=/tmp/during"))
	c.until("job "+during+" ends", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "exec", "-n", c.namespace, "slurm-controller-1", "-c", "slurmctld", "--", "scontrol", "show", "job", during, "--oneliner")
		if err == nil && field(out, "JobState") != "COMPLETED" {
			err = fmt.Errorf("it is %s", field(out, "JobState"))
		}
		return err
	})

	// The kubelet would do this when /livez has failed often enough.
	c.signal("slurm-controller-0", "KILL")
	c.inControl("slurm-controller-0")
	c.kubectl("delete", "pod", "-n", c.namespace, "slurm-controller-0", "--grace-period=0", "--force")
	c.until("some slurmctld is in control", func(ctx context.Context) error {
		ready, err := c.endpoints(ctx)
		if err == nil && len(ready) != 1 {
			err = fmt.Errorf("endpoints are %q", ready)
		}
		return err
	})
	c.inControl("slurm-controller-0") // it is the primary, and comes back

	for _, job := range []string{long, during} {
		c.jobIs(job, "COMPLETED")
	}
	first := c.batchHost(long)
	if d := cmp.Diff([]string{"cpu-0", "cpu-1"}, hosts(c.kubectl("exec", "-n", c.namespace, first, "-c", "slurmd", "--", "cat", "/tmp/long"))); d != "" {
		t.Errorf("output of the job that ran all the time (-want +got):\n%s", d)
	}
	second := c.batchHost(during)
	if got := c.kubectl("exec", "-n", c.namespace, second, "-c", "slurmd", "--", "cat", "/tmp/during"); got != "six times seven is 42\n" {
		t.Errorf("output of the job from the standby's time: %q", got)
	}
}
