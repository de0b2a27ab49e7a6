package report

import (
	"io/fs"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/internal/dracpu"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// Report is one node's. The first four keys are the published ones.
type Report struct {
	ToolVersion   Version       `json:"toolVersion"`
	LayoutVersion string        `json:"layoutVersion"`
	CPUDetails    CPUDetails    `json:"cpuDetails"`
	DriverConfig  dracpu.Config `json:"driverConfig"`

	// Missing says what could not be looked at, and why.
	Missing  []string  `json:"missing"`
	At       time.Time `json:"at"`
	Versions Versions  `json:"versions"`
	// Driver is what the running driver knows; nil if it doesn't answer.
	Driver *dracpu.Snapshot `json:"driver"`
	// OnDisk is what is written down on the node.
	OnDisk dracpu.Disk `json:"onDisk"`
	// Cgroups are the control groups of the containers that the driver knows, by ID; Wrong are those on other CPUs than the driver wants.
	Cgroups        map[string]dracpu.Cgroup `json:"cgroups"`
	Wrong          []string                 `json:"wrong"`
	Memory         []cpuset.NodeMemory      `json:"memory"`
	ResourceSlices []Slice                  `json:"resourceSlices"`
	ResourceClaims []Claim                  `json:"resourceClaims"`
}

// Version is what the program was built from.
type Version struct {
	GoVersion   string `json:"goVersion"`
	VCSRevision string `json:"vcsRevision"`
	VCSTime     string `json:"vcsTime"`
}

// Versions are those of the others. The container runtime's is in Driver.
type Versions struct {
	Kernel     string `json:"kernel"`
	Kubernetes string `json:"kubernetes"`
}

// Slice is a ResourceSlice of the node.
type Slice struct {
	Name string                        `json:"name"`
	Spec resourceapi.ResourceSliceSpec `json:"spec"`
}

// Claim is what the API says of a prepared claim. Other drivers' devices and parameters are left out.
type Claim struct {
	Namespace string                                       `json:"namespace"`
	Name      string                                       `json:"name"`
	UID       string                                       `json:"uid"`
	For       []resourceapi.ResourceClaimConsumerReference `json:"reservedFor"`
	Results   []claimResult                                `json:"results"`
	Config    []claimConfig                                `json:"config,omitempty"`
	Deleted   *metav1.Time                                 `json:"deletionTimestamp,omitempty"`
}

type (
	claimResult = resourceapi.DeviceRequestAllocationResult
	claimConfig = resourceapi.DeviceAllocationConfiguration
)

// Sources are where a report looks. All are the node's as the driver sees it.
type Sources struct {
	Config dracpu.Config
	Node   string
	// KubeletRoot and CDIDir are folders; the others are file systems.
	KubeletRoot, CDIDir string
	Sys, Proc, Cgroups  fs.FS
	// Kube may be nil, with the reason in NoKube.
	Kube   kubernetes.Interface
	NoKube error
	Now    time.Time
}
