package dracpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// Config is what can be set in the configuration file or by flags.
type Config struct {
	Kubeconfig       string `json:"kubeconfig"`
	HostnameOverride string `json:"hostnameOverride"`
	// ReservedCPUs are offered to nobody, in list format.
	ReservedCPUs  string         `json:"reservedCPUs"`
	CPUDeviceMode cpuset.Mode    `json:"cpuDeviceMode"`
	GroupBy       cpuset.GroupBy `json:"groupBy"`
	// Allocator is cpumanager or external: whether the driver chooses the CPUs of a group for a claim that doesn't name them.
	Allocator string `json:"allocator"`
	// SysfsOverlay names a file with other content for files of /sys.
	SysfsOverlay                          string `json:"sysfsOverlay"`
	PublishNodeAllocatableResourceMapping bool   `json:"publishNodeAllocatableResourceMapping"`

	// What follows is not in the published driver.

	// ThreadEnvironment tells programs on exclusive CPUs how many threads to start.
	ThreadEnvironment bool `json:"threadEnvironment"`
	// CPUView is exclusive, all or none: which containers see their own CPUs in /sys and /proc instead of the machine's.
	CPUView string `json:"cpuView"`
	// MinSharedCPUs are left to containers without a claim: a claim that would take them fails.
	MinSharedCPUs int `json:"minSharedCPUs"`
	// WholeCores gives out whole cores only, so that no two claims share one.
	WholeCores bool `json:"wholeCores"`
	// CFSQuota is keep or disable: whether a CPU limit also throttles containers on exclusive CPUs.
	CFSQuota string `json:"cfsQuota"`
	// MemoryNodes is all or local: whether such containers get memory of their CPUs' NUMA nodes alone.
	MemoryNodes string `json:"memoryNodes"`
	// MemoryDevices is none or numanode: whether the NUMA nodes' memory and huge pages are offered as devices.
	MemoryDevices string `json:"memoryDevices"`
	// ReservedMemory is what of each NUMA node is offered to nobody, as in 2Gi.
	ReservedMemory string `json:"reservedMemory"`
	// SelfManaged are pods whose containers divide the node's CPUs among programs by themselves, and are left alone,
	// as "namespace/label=value": Slurm's workers, where Slurm gives out the CPUs of the node's pods as well.
	SelfManaged []string `json:"selfManaged"`
	// SharedCPUs is all or numanode: whether containers without a claim run on all shared CPUs, or those of a pod on one NUMA node's.
	SharedCPUs string `json:"sharedCPUs"`
	// ReservedPods are pods that run on the reserved CPUs, as "namespace" or "namespace/label=value".
	ReservedPods []string `json:"reservedPods"`
	// SlurmJobs is share or exclusive: whether containers without a claim may run on CPUs of Slurm's own jobs on the node.
	SlurmJobs string `json:"slurmJobs"`
}

// The values of CPUView.
const (
	viewExclusive = "exclusive"
	viewAll       = "all"
	viewNone      = "none"
)

// DefaultConfig is the configuration of the published driver, with threadEnvironment and cpuView.
func DefaultConfig() Config {
	return Config{CPUDeviceMode: cpuset.Grouped, GroupBy: cpuset.ByNUMANode, Allocator: "cpumanager", ThreadEnvironment: true, CPUView: viewExclusive, CFSQuota: "keep", MemoryNodes: "all", SlurmJobs: "share", MemoryDevices: "none", SharedCPUs: "all"}
}

// flagOnly are keys that somebody might look for in the file.
func flagOnly() map[string]string {
	return map[string]string{"bindAddress": "--bind-address", "exposePCIeRoots": "--expose-pcie-roots", "kubeletRootDir": "--kubelet-root-dir"}
}

// Merge lays a configuration file over c. A key that is unknown, twice there or in
// wrong letters is an error that names it.
func (c *Config) Merge(text []byte) error {
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return fmt.Errorf("read the configuration: want a map of keys and values: %w", err)
	}
	var version string
	if raw, ok := keys["apiVersion"]; ok {
		if err := json.Unmarshal(raw, &version); err != nil || version != "v1alpha1" {
			return fmt.Errorf("read the configuration: apiVersion is %s, want v1alpha1", raw)
		}
		delete(keys, "apiVersion")
	}
	if err := checkKeys(keys); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if data, err = json.Marshal(keys); err != nil {
		return err
	}
	if err := json.Unmarshal(data, c); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	return nil
}

func checkKeys(keys map[string]json.RawMessage) error {
	all, err := json.Marshal(Config{})
	if err != nil {
		return err
	}
	var known map[string]any
	if err := json.Unmarshal(all, &known); err != nil {
		return err
	}
	var wrong []string
	for key := range keys {
		if _, ok := known[key]; ok {
			continue
		}
		said := "unknown key " + key
		if flag, ok := flagOnly()[key]; ok {
			said = key + " can only be set by the flag " + flag
		}
		for right := range known {
			if strings.EqualFold(right, key) {
				said = key + " is spelt " + right
			}
		}
		wrong = append(wrong, said)
	}
	slices.Sort(wrong)
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// exposure checks what is offered, and reads the reserved CPUs.
func (c Config) exposure() (cpuset.Exposure, error) {
	e := cpuset.Exposure{Mode: c.CPUDeviceMode, GroupBy: c.GroupBy, NodeAllocatable: c.PublishNodeAllocatableResourceMapping, WholeCores: c.WholeCores, Named: c.Allocator == "external"}
	switch c.CPUDeviceMode {
	case cpuset.Individual:
		if e.GroupBy = ""; c.WholeCores {
			return e, errors.New("wholeCores needs cpuDeviceMode: grouped: single CPUs are chosen by the scheduler")
		}
	case cpuset.Grouped:
		groups := cpuset.Groupings()
		if !slices.Contains(groups, c.GroupBy) {
			return e, fmt.Errorf("groupBy is %q, want one of %v", c.GroupBy, groups)
		}
	default:
		return e, fmt.Errorf("cpuDeviceMode is %q, want %s or %s", c.CPUDeviceMode, cpuset.Grouped, cpuset.Individual)
	}
	var err error
	if e.Reserved, err = cpuset.Parse(c.ReservedCPUs); err != nil {
		return e, fmt.Errorf("reservedCPUs: %w", err)
	}
	for what, v := range map[string]struct {
		is    string
		right []string
	}{"allocator": {c.Allocator, []string{"cpumanager", "external"}}, "cfsQuota": {c.CFSQuota, []string{"keep", "disable"}}, "memoryNodes": {c.MemoryNodes, []string{"all", "local"}}, "slurmJobs": {c.SlurmJobs, []string{"share", slurmJobsExclusive}},
		"memoryDevices": {c.MemoryDevices, []string{"none", "numanode"}}, "sharedCPUs": {c.SharedCPUs, []string{"all", sharedByNode}},
		"cpuView": {c.CPUView, []string{viewExclusive, viewAll, viewNone}}} {
		if !slices.Contains(v.right, v.is) {
			return e, fmt.Errorf("%s is %q, want one of %v", what, v.is, v.right)
		}
	}
	if e.Memory = c.MemoryDevices == "numanode"; c.ReservedMemory != "" {
		q, err := resource.ParseQuantity(c.ReservedMemory)
		n, whole := q.AsInt64()
		if err != nil || !whole || n < 0 {
			return e, fmt.Errorf("reservedMemory is %q, want an amount of memory, as in 2Gi", c.ReservedMemory)
		}
		e.ReservedMemory = n
	}
	if _, err := parsePods(c.SelfManaged, false); err != nil {
		return e, fmt.Errorf("selfManaged: %w", err)
	}
	if _, err := parsePods(c.ReservedPods, true); err != nil {
		return e, fmt.Errorf("reservedPods: %w", err)
	}
	if len(c.ReservedPods) > 0 && e.Reserved.Empty() {
		return e, errors.New("reservedPods are to run on the reserved CPUs, and there are none: set reservedCPUs")
	}
	if c.MinSharedCPUs < 0 {
		return e, fmt.Errorf("minSharedCPUs is %d, want 0 or more", c.MinSharedCPUs)
	}
	return e, nil
}

// maxSocket is the longest path of a socket.
const maxSocket = 107

// checkRoot checks kubelet's folder: a wrong one would leave a driver that nobody finds.
func checkRoot(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("the kubelet root %q must be an absolute path", dir)
	}
	dir = filepath.Clean(dir)
	if socket := filepath.Join(dir, "plugins_registry", cpuset.DriverName+"-reg.sock"); len(socket) > maxSocket {
		return "", fmt.Errorf("the kubelet root %q is too long: the socket %s has %d bytes and may have %d", dir, socket, len(socket), maxSocket)
	}
	return dir, nil
}
