package dracpu

import (
	"strings"
	"testing"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

func TestConfig(t *testing.T) {
	c := DefaultConfig()
	if err := c.Merge([]byte("apiVersion: v1alpha1\nreservedCPUs: 0-1\ncpuDeviceMode: individual\nminSharedCPUs: 2\n")); err != nil {
		t.Fatal(err)
	}
	e, err := c.exposure()
	if err != nil || e.Mode != cpuset.Individual || e.Reserved.String() != "0-1" || c.MinSharedCPUs != 2 || c.GroupBy != cpuset.ByNUMANode || !c.ThreadEnvironment {
		t.Errorf("got %+v, %+v, %v", c, e, err)
	}
}

// CPU check 58.
func TestConfigRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"reservedCpus: '0'\nGROUPBY: socket\n":          "GROUPBY is spelt groupBy; reservedCpus is spelt reservedCPUs",
		"colour: red\n":                                 "unknown key colour",
		"groupBy: socket\ngroupBy: machine\n":           "already set",
		"reservedCPUs: 3\n":                             "reservedCPUs",
		"apiVersion: v1\n":                              "want v1alpha1",
		"kubeletRootDir: /x\n":                          "--kubelet-root-dir",
		"- a\n":                                         "want a map",
		"groupBy: rack\n":                               `groupBy is "rack"`,
		"cpuDeviceMode: both\n":                         `cpuDeviceMode is "both"`,
		"reservedCPUs: 3-1\n":                           "ends before it begins",
		"allocator: mine\n":                             `allocator is "mine"`,
		"sharedCPUs: socket\n":                          `sharedCPUs is "socket"`,
		"reservedPods: [a/b]\nreservedCPUs: '0'\n":      `"a/b" is not a namespace`,
		"cfsQuota: off\n":                               "cfsQuota",
		"minSharedCPUs: -1\n":                           "want 0 or more",
		"memoryNodes: near\n":                           "memoryNodes",
		"cpuDeviceMode: individual\nwholeCores: true\n": "wholeCores needs cpuDeviceMode: grouped",
	} {
		c := DefaultConfig()
		err := c.Merge([]byte(text))
		if err == nil {
			_, err = c.exposure()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

// CPU check 54.
func TestKubeletRoot(t *testing.T) {
	if got, err := checkRoot("/var/lib/k0s/kubelet/"); err != nil || got != "/var/lib/k0s/kubelet" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"", "kubelet", "./x", "/" + strings.Repeat("k", 73)} {
		if got, err := checkRoot(bad); err == nil {
			t.Errorf("%q: got %q, want an error", bad, got)
		}
	}
	if _, err := checkRoot("/" + strings.Repeat("k", 72)); err != nil {
		t.Error(err)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("reservedCPUs: 0-1")
	f.Add("apiVersion: v1alpha1\ncfsQuota: keep")
	f.Fuzz(func(t *testing.T, text string) {
		c := DefaultConfig()
		if c.Merge([]byte(text)) == nil {
			_, _ = c.exposure() // must not panic
		}
	})
}
