package report

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/internal/dracpu"
	"github.com/slinky-hpc/slinky/internal/observe/sysfs"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// Gather looks at everything. What can't be looked at is named in Missing and hinders nothing else.
func Gather(ctx context.Context, s Sources) Report {
	r := Report{
		ToolVersion: version(), LayoutVersion: "v1", DriverConfig: s.Config, At: s.Now.UTC(),
		Missing: []string{}, Wrong: []string{}, ResourceSlices: []Slice{}, ResourceClaims: []Claim{},
	}
	top, err := sysfs.Read(s.Sys)
	r.missing("the machine's CPUs", err)
	r.CPUDetails, r.Memory = describe(top), top.Memory
	kernel, err := fs.ReadFile(s.Proc, "sys/kernel/osrelease")
	r.missing("the kernel's version", err)
	r.Versions.Kernel = strings.TrimSpace(string(kernel))
	r.OnDisk = dracpu.ReadDisk(s.KubeletRoot, s.CDIDir)
	for _, p := range r.OnDisk.Problems {
		r.Missing = append(r.Missing, "on disk: "+p)
	}
	node := s.Node
	if d, err := dracpu.AskDriver(ctx, s.KubeletRoot); err != nil {
		r.missing("what the driver knows", err)
	} else {
		r.Driver = &d
		node = d.Node
	}
	r.cgroups(s.Cgroups)
	r.api(ctx, s, node)
	return r
}

func (r *Report) missing(what string, err error) {
	if err != nil {
		r.Missing = append(r.Missing, what+": "+err.Error())
	}
}

// cgroups reads what the kernel lets the containers run on, and compares it with what they should.
func (r *Report) cgroups(cgroups fs.FS) {
	if r.Driver == nil {
		return
	}
	var ids []string
	for _, c := range r.Driver.Containers {
		ids = append(ids, c.ID)
	}
	found, err := dracpu.Cgroups(cgroups, ids)
	r.missing("the containers' cgroups", err)
	r.Cgroups = found
	if len(found) == 0 && len(ids) > 0 {
		r.Missing = append(r.Missing, "the containers' cgroups: the driver sees none of them: its --cgroup-root must be the node's /sys/fs/cgroup, as the chart mounts it")
	}
	for _, c := range r.Driver.Containers {
		has, ok := found[c.ID]
		if !ok || !c.Started || c.Want.Empty() {
			continue
		}
		// The kernel leaves out CPUs that are offline.
		if cpus, err := cpuset.Parse(has.CPUs); err != nil || !cpus.Equal(c.Want.Intersect(r.Driver.Online)) {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s runs on CPUs %s and should on %s", c.Name, has.CPUs, c.Want))
		}
	}
}

// api reads the node's slices and the prepared claims, with the driver's own rights.
func (r *Report) api(ctx context.Context, s Sources, node string) {
	if s.Kube == nil {
		r.missing("the API", s.NoKube)
		return
	}
	v, err := s.Kube.Discovery().ServerVersion()
	r.missing("the version of Kubernetes", err)
	if err == nil {
		r.Versions.Kubernetes = v.String()
	}
	list, err := s.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + cpuset.DriverName + ",spec.nodeName=" + node})
	r.missing("the ResourceSlices", err)
	if err == nil {
		for _, slice := range list.Items {
			r.ResourceSlices = append(r.ResourceSlices, Slice{slice.Name, slice.Spec})
		}
		slices.SortFunc(r.ResourceSlices, func(a, b Slice) int { return cmp.Compare(a.Name, b.Name) })
	}
	if r.Driver == nil {
		return
	}
	for _, c := range r.Driver.Claims {
		if c.Name == "" {
			continue // Only its CDI file is known.
		}
		r.claim(ctx, s, c.Namespace, c.Name)
	}
}

func (r *Report) claim(ctx context.Context, s Sources, namespace, name string) {
	rc, err := s.Kube.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		r.Missing = append(r.Missing, fmt.Sprintf("claim %s/%s: the API doesn't have it any more", namespace, name))
		return
	}
	if err != nil {
		r.missing("claim "+namespace+"/"+name, err)
		return
	}
	c := Claim{Namespace: namespace, Name: name, UID: string(rc.UID), For: rc.Status.ReservedFor, Deleted: rc.DeletionTimestamp, Results: []claimResult{}}
	if a := rc.Status.Allocation; a != nil {
		for _, result := range a.Devices.Results {
			if result.Driver == cpuset.DriverName {
				c.Results = append(c.Results, result)
			}
		}
		for _, config := range a.Devices.Config {
			if config.Opaque != nil && config.Opaque.Driver == cpuset.DriverName {
				c.Config = append(c.Config, config)
			}
		}
	}
	r.ResourceClaims = append(r.ResourceClaims, c)
}

// Text is the report as a YAML document, so that those of several nodes can be put into one file.
func (r Report) Text() ([]byte, error) {
	text, err := yaml.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	return append([]byte("---\n"), text...), nil
}

func version() Version {
	v := Version{GoVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.VCSRevision = s.Value
		case "vcs.time":
			v.VCSTime = s.Value
		}
	}
	return v
}
