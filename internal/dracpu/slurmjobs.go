package dracpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

const slurmJobsExclusive = "exclusive"

// slurmJobsEvery is how long a job's CPUs may still be shared after its start.
const slurmJobsEvery = time.Second

// slurmJobs finds the CPUs of Slurm's own jobs on the node. slurmd makes a cgroup for each, with the cpuset that it binds the job to
// (ConstrainCores of cgroup.conf): slurm_NODE/uid_U/job_N with cgroup v1, NODE_slurmstepd.scope/SLUID with v2, or job_N there with
// CgroupJobIdPaths; below the cgroup of its container, of its pod, or of its service.
type slurmJobs struct {
	// cgroups is the node's /sys/fs/cgroup.
	cgroups fs.FS
	// trusted tells whether a pod is a slurmd's. A cgroup of that name in another's says nothing.
	trusted func(pod types.UID) bool
}

var (
	// A SLUID is an s and 13 digits of base 32.
	jobCgroup = regexp.MustCompile(`^(?:job_([0-9]+)|(s[0-9A-Z]{13}))$`)
	// A pod's cgroup has its UID in its name; systemd's driver writes the dashes in another way.
	podCgroup = regexp.MustCompile(`(?:^|-)pod([0-9A-Za-z_-]+?)(?:\.slice)?$`)
)

// read returns what the jobs have, in the order of the tree.
func (s slurmJobs) read() ([]cpuset.Held, error) {
	root := "."
	if _, err := fs.Stat(s.cgroups, "cgroup.controllers"); err != nil {
		root = "cpuset"
	}
	var out []cpuset.Held
	err := fs.WalkDir(s.cgroups, root, func(dir string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && dir != root:
			return nil // It went away while we looked.
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		}
		if m := podCgroup.FindStringSubmatch(d.Name()); m != nil && !s.trusted(types.UID(strings.ReplaceAll(m[1], "_", "-"))) {
			return fs.SkipDir
		}
		m := jobCgroup.FindStringSubmatch(d.Name())
		if m == nil || !strings.Contains(path.Dir(dir), "slurm") {
			return nil
		}
		text, err := fs.ReadFile(s.cgroups, path.Join(dir, "cpuset.cpus"))
		if err != nil {
			return nil // It went away, or its cpuset isn't Slurm's to set.
		}
		if cpus, err := cpuset.Parse(strings.TrimSpace(string(text))); err == nil && !cpus.Empty() {
			out = append(out, cpuset.Held{Holder: "Slurm's job " + m[1] + m[2], CPUs: cpus})
		}
		return fs.SkipDir
	})
	if err != nil {
		return nil, fmt.Errorf("look for the cgroups of Slurm's jobs: %w", err)
	}
	return out, nil
}

// lookAtJobs takes over what Slurm's jobs have now, and tells whether that has changed.
func (l *ledger) lookAtJobs(s slurmJobs) (changed bool, err error) {
	jobs, err := s.read()
	if err != nil {
		return false, err // What was known stays.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	changed = !slices.EqualFunc(l.jobs, jobs, func(a, b cpuset.Held) bool { return a.Holder == b.Holder && a.CPUs.Equal(b.CPUs) })
	l.jobs = jobs
	return changed, nil
}

// jobCPUs are the CPUs of Slurm's own jobs. mu is held.
func (l *ledger) jobCPUs() cpuset.Set {
	var s cpuset.Set
	for _, j := range l.jobs {
		s = s.Union(j.CPUs)
	}
	return s
}

// followJobs moves containers without a claim off the CPUs of Slurm's jobs, and back, until ctx ends.
func (d *driver) followJobs(ctx context.Context) {
	again := time.NewTicker(slurmJobsEvery)
	defer again.Stop()
	for {
		changed, err := d.ledger.lookAtJobs(*d.jobs)
		if err != nil {
			d.Log.Error(err, "The CPUs of Slurm's jobs can't be followed")
		}
		if changed {
			wake(d.plugin.kick)
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// isAlone tells whether a pod has a container that is left alone.
func (l *ledger) isAlone(pod types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.alone {
		if of == pod {
			return true
		}
	}
	return false
}
