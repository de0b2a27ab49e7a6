// Package box runs a whole cluster, Kubernetes and Slurm, on one machine.
//
// The control plane and each node are containers made by runc: with a PID
// namespace, a network and a cgroup of their own, on one root file system made
// of Debian packages. Everything that a box has lies in its folder, in runc's
// containers, in network namespaces named after it and in cgroups below one
// name, so that Down finds all of it whatever became of the process that made it.
package box

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/slinky-hpc/slinky/internal/atomicfile"
	"github.com/slinky-hpc/slinky/internal/box/cache"
	"github.com/slinky-hpc/slinky/internal/box/progress"
)

// Version is the release of Kubernetes that the box runs.
const Version = "1.37.2"

// DefaultName is the name of the box that commands mean when none is given.
const DefaultName = "slinky"

// Box is one cluster on this machine, running or not.
type Box struct {
	Name string
	// Root is the user's cache folder for Slinky; all of the box lies below it.
	Root   string
	Cache  *cache.Cache
	Report *progress.Reporter
	// Source is the checkout that images and tools are built from.
	Source string
	// Self is the slinky binary, which also runs inside the containers.
	Self string
	// Command is how its user calls slinky, for hints.
	Command string
}

var validName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`)

// CheckName tells whether a box may have this name.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%q can't be the name of a box: use up to 20 lower-case letters, digits and dashes, starting with a letter", name)
	}
	return nil
}

// nodeName is the name of a worker node, by number from 1.
func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

const controlPlane = "control-plane"

func (b *Box) dir(parts ...string) string {
	return filepath.Join(append([]string{b.Root, "boxes", b.Name}, parts...)...)
}

func (b *Box) pkiDir() string { return b.dir("pki") }
func (b *Box) containerDir(parts ...string) string {
	return b.dir(append([]string{"containers"}, parts...)...)
}

// Kubeconfig is the administrator's kubeconfig, for use on this machine.
func (b *Box) Kubeconfig() string { return b.dir("kubeconfig") }

// prefix starts the names of everything that the kernel keeps for this box.
func (b *Box) prefix() string { return "slinky-" + b.Name }

// State is what a box remembers about itself between commands.
type State struct {
	Nodes int
	// Port is where the API server is reached on the host's loopback.
	Port int
	// Parts are what the box was made from.
	Parts Parts
}

// Parts are everything that has to be on disk before a box can start.
type Parts struct {
	Tools Tools
	// Rootfs is the root file system of all containers.
	Rootfs string
	// Seed is the containerd data folder that nodes start from.
	Seed string
}

// ErrNoBox says that there is no such box.
var ErrNoBox = errors.New("no such box")

func (b *Box) load() (State, error) {
	var s State
	data, err := os.ReadFile(b.dir("state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("box %q: %w; start it with: %s", b.Name, ErrNoBox, b.call("up"))
	}
	if err != nil {
		return s, fmt.Errorf("read the state of box %q: %w", b.Name, err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read the state of box %q from %s: %w", b.Name, b.dir("state.json"), err)
	}
	return s, nil
}

func (b *Box) save(s State) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the state of box %q: %w", b.Name, err)
	}
	return replaceFile(b.dir("state.json"), data, 0o644)
}

// replaceFile makes the folder, too.
func replaceFile(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := atomicfile.Replace(path, data, mode, atomicfile.Cached); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
