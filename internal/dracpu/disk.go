package dracpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Disk is what is written down of claims on a node, by the driver and by kubelet.
type Disk struct {
	Checkpoint []*claim  `json:"checkpoint"`
	CDIFiles   []CDIFile `json:"cdiFiles"`
	Kubelet    Kubelet   `json:"kubelet"`
	// Problems are the files that can't be used, with the reason.
	Problems []string `json:"-"`
}

// CDIFile is a claim's, as it is on the disk.
type CDIFile struct {
	Name  string `json:"name"`
	Claim *claim `json:"claim"`
}

// Kubelet is what the state of its CPU manager says.
type Kubelet struct {
	CPUManagerPolicy string `json:"cpuManagerPolicy"`
	DefaultCPUSet    string `json:"defaultCPUSet,omitempty"`
	// Containers is how many pods it has given CPUs of its own.
	Containers int `json:"podsWithCPUs,omitempty"`
}

// ReadDisk reads it; what can't be read is among the problems.
func ReadDisk(kubeletRoot, cdiDir string) Disk {
	d := Disk{Checkpoint: []*claim{}, CDIFiles: []CDIFile{}}
	problem := func(err error) {
		if err != nil {
			d.Problems = append(d.Problems, err.Error())
		}
	}
	kept, err := readCheckpoint(filepath.Join(dataDir(kubeletRoot), "checkpoint.json"))
	problem(err)
	d.Checkpoint = append(d.Checkpoint, kept.Claims...)
	claims, broken := readCDI(cdiDir)
	for _, err := range broken {
		problem(err)
	}
	for _, c := range claims {
		d.CDIFiles = append(d.CDIFiles, CDIFile{filepath.Base(cdiPath(cdiDir, c.UID)), c})
	}
	d.Kubelet, err = readKubelet(kubeletRoot)
	problem(err)
	return d
}

// readKubelet reads which CPU manager kubelet runs. No file means that it has none yet.
func readKubelet(root string) (Kubelet, error) {
	path := filepath.Join(root, "cpu_manager_state")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Kubelet{}, nil
	}
	var state struct {
		PolicyName    string                     `json:"policyName"`
		DefaultCPUSet string                     `json:"defaultCpuSet"`
		Entries       map[string]json.RawMessage `json:"entries"`
	}
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err != nil {
		return Kubelet{}, fmt.Errorf("read the state of kubelet's CPU manager (%s): %w", path, err)
	}
	return Kubelet{state.PolicyName, state.DefaultCPUSet, len(state.Entries)}, nil
}
