package dracpu

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

const (
	slurmd = "dcc1378e-e863-4763-89b1-1f3d2d8b0532"
	other  = "bb979181-06ae-4ac7-b78d-2e57143d94b4"
)

// The trees are as slurmd 26.05 makes them, in a pod and as a service.
func TestSlurmJobs(t *testing.T) {
	for name, x := range map[string]struct {
		files map[string]string
		want  []cpuset.Held
	}{
		"v1, in a pod": {files: map[string]string{
			"cpuset/cpuset.cpus": "0-7",
			"cpuset/kubepods/burstable/pod" + slurmd + "/4834b2/cpuset.cpus":                                              "0-7",
			"cpuset/kubepods/burstable/pod" + slurmd + "/4834b2/slurm_cpu-0/uid_401/job_12/cpuset.cpus":                   "2-3\n",
			"cpuset/kubepods/burstable/pod" + slurmd + "/4834b2/slurm_cpu-0/uid_401/job_12/step_batch/task_0/cpuset.cpus": "2\n",
			"cpuset/kubepods/burstable/pod" + slurmd + "/4834b2/slurm_cpu-0/uid_402/job_7/cpuset.cpus":                    "5\n",
		}, want: []cpuset.Held{{Holder: "Slurm's job 12", CPUs: set("2-3")}, {Holder: "Slurm's job 7", CPUs: set("5")}}},
		"v2, as a service": {files: map[string]string{
			"cgroup.controllers": "cpuset cpu", "system.slice/slurmd.service/cgroup.procs": "",
			"system.slice/n1_slurmstepd.scope/job_3/cpuset.cpus":        "4-5\n",
			"system.slice/n1_slurmstepd.scope/system/cpuset.cpus":       "",
			"system.slice/n1_slurmstepd.scope/job_3/step_0/cpuset.cpus": "4\n",
		}, want: []cpuset.Held{{Holder: "Slurm's job 3", CPUs: set("4-5")}}},
		"v2, in a pod": {files: map[string]string{
			"cgroup.controllers": "cpuset", "kubepods/besteffort/pod" + slurmd + "/65aea14c/cgroup.procs": "",
			"kubepods/besteffort/pod" + slurmd + "/system.slice/numa-0_slurmstepd.scope/s2XDM8NG0GW300/cpuset.cpus":            "0-1\n",
			"kubepods/besteffort/pod" + slurmd + "/system.slice/numa-0_slurmstepd.scope/s2XDM8NG0GW300/step_batch/cpuset.cpus": "0-1\n",
			"kubepods/besteffort/pod" + slurmd + "/system.slice/numa-0_slurmstepd.scope/system/cpuset.cpus":                    "\n",
		}, want: []cpuset.Held{{Holder: "Slurm's job s2XDM8NG0GW300", CPUs: set("0-1")}}},
		"v2, in a pod, with systemd's names": {files: map[string]string{
			"cgroup.controllers": "cpuset",
			"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(slurmd, "-", "_") +
				".slice/cri-containerd-65ae.scope/system.slice/slurmstepd.scope/job_3/cpuset.cpus": "1",
		}, want: []cpuset.Held{{Holder: "Slurm's job 3", CPUs: set("1")}}},
		"in a pod that isn't slurmd's": {files: map[string]string{
			"cpuset/kubepods/pod" + other + "/4834b2/slurm_x/uid_0/job_1/cpuset.cpus": "0-7"}},
		"not below Slurm's": {files: map[string]string{"cpuset/job_1/cpuset.cpus": "0-7"}},
		"not bound to CPUs": {files: map[string]string{"cgroup.controllers": "cpuset", "system.slice/slurmstepd.scope/job_3/cpuset.cpus": "\n",
			"system.slice/slurmstepd.scope/job_4/cgroup.procs": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for path, text := range x.files {
				tree[path] = &fstest.MapFile{Data: []byte(text)}
			}
			got, err := slurmJobs{tree, func(pod types.UID) bool { return pod == slurmd }}.read()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(x.want, got, cmp.Comparer(cpuset.Set.Equal)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := (slurmJobs{fstest.MapFS{}, nil}).read(); err == nil {
		t.Error("a node without cgroups has no jobs")
	}
}

// Cores of Slurm's jobs leave the shared pool, no claim gets them, and they come back.
func TestSlurmJobsAreNotShared(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := testPlugin(t, l)
	if a, _ := create(t, p, "s", "shared"); cpusOf(a) != "0-7" {
		t.Fatalf("the shared container has %s", cpusOf(a))
	}
	l.stored("shared")
	job := fstest.MapFS{"cgroup.controllers": {}, "system.slice/slurmstepd.scope/job_3/cpuset.cpus": {Data: []byte("0-1")}}
	none := fstest.MapFS{"cgroup.controllers": {}}
	look := func(tree fstest.MapFS, want bool) {
		t.Helper()
		if changed, err := l.lookAtJobs(slurmJobs{tree, l.isAlone}); err != nil || changed != want {
			t.Errorf("changed: %v, %v", changed, err)
		}
	}
	look(job, true)
	look(job, false)
	if diff := cmp.Diff(map[string]string{"shared": "2-7"}, told(updates(l.pending()))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := prepareOne(l, on("a", 0, 2, "1-2")); err == nil || !strings.Contains(err.Error(), "Slurm's job 3") {
		t.Errorf("a claim on a job's CPU: %v", err)
	}
	if got := prepared(t, l, on("a", 0, 2, "")); got != "2-3" {
		t.Errorf("the driver chooses %s", got)
	}
	// An unreadable tree is not one without jobs.
	if _, err := l.lookAtJobs(slurmJobs{fstest.MapFS{}, l.isAlone}); err == nil || l.shared().String() != "4-7" {
		t.Errorf("shared are %s, %v", l.shared(), err)
	}
	// A job on all that is left shares it, as without the option: containers must run somewhere.
	look(fstest.MapFS{"cgroup.controllers": {}, "system.slice/slurmstepd.scope/job_4/cpuset.cpus": {Data: []byte("0-1,4-7")}}, true)
	if got := l.shared().String(); got != "0-1,4-7" {
		t.Errorf("shared are %s", got)
	}
	look(none, true)
	if got := l.shared().String(); got != "0-1,4-7" {
		t.Errorf("after the job shared are %s", got)
	}
}
