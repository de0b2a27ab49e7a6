package dracpu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/atomicfile"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// claim is what the driver remembers of a prepared ResourceClaim.
type claim struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace,omitempty"` // empty if only a CDI file told of the claim
	Name      string    `json:"name,omitempty"`
	// Pods are those that the claim was reserved for; empty means not known.
	Pods []types.UID `json:"pods,omitempty"`
	// Owner is the pod that has used the claim first. It stays the owner until the end.
	Owner types.UID `json:"owner,omitempty"`
	cpuset.Terms
	Grants []cpuset.Grant `json:"grants"`
}

// sound tells what is wrong with a claim that was read: its UID names files, and without
// grants it has nothing.
func (c *claim) sound() error {
	switch {
	case c == nil:
		return errors.New("it is empty")
	case c.UID == "" || strings.ContainsAny(string(c.UID), "/\\\x00_") || len(c.UID) > 128:
		return fmt.Errorf("%q is no UID", c.UID)
	case len(c.Grants) == 0:
		return fmt.Errorf("%s has nothing", c)
	}
	for _, g := range c.Grants {
		if g.Memory != nil && (g.Memory.Node < 0 || g.Memory.Node >= cpuset.MaxCPUs) {
			return fmt.Errorf("%s has memory of NUMA node %d, which is none", c, g.Memory.Node)
		}
	}
	return nil
}

func (c *claim) cpus() cpuset.Set {
	var s cpuset.Set
	for _, g := range c.Grants {
		s = s.Union(g.CPUs)
	}
	return s
}

// nodesOf are the NUMA nodes that the i-th request has memory of, or all of them if i is -1.
func (c *claim) nodesOf(i int) cpuset.Set {
	var s cpuset.Set
	for _, m := range c.memoryOf(i) {
		s = s.Union(cpuset.Of(m.Node))
	}
	return s
}

// memoryOf is the memory of the i-th request by NUMA node, or all of it if i is -1.
func (c *claim) memoryOf(i int) []cpuset.NodeMemory {
	var out []cpuset.NodeMemory
	names := c.requests()
	for _, g := range c.Grants {
		if g.Memory != nil && (i < 0 || i < len(names) && g.Request == names[i]) {
			out = append(out, *g.Memory)
		}
	}
	return cpuset.MemoryByNode(out)
}

// requests are the names of the claim's requests that have grants, in their order.
func (c *claim) requests() []string {
	var names []string
	for _, g := range c.Grants {
		if !slices.Contains(names, g.Request) {
			names = append(names, g.Request)
		}
	}
	return names
}

// cpusOf are the CPUs of the i-th request, or of all of them if i is -1.
func (c *claim) cpusOf(i int) cpuset.Set {
	if i < 0 {
		return c.cpus()
	}
	var s cpuset.Set
	if names := c.requests(); i < len(names) {
		for _, g := range c.Grants {
			if g.Request == names[i] {
				s = s.Union(g.CPUs)
			}
		}
	}
	return s
}

// String is the claim's name for people.
func (c *claim) String() string {
	if c.Name == "" {
		return "claim " + string(c.UID)
	}
	return "claim " + c.Namespace + "/" + c.Name
}

const checkpointVersion = 1

// checkpoint is the file's form. The checksum is over Data as it is in the file,
// so that fields of a later version don't break it.
type checkpoint struct {
	Version  int             `json:"version"`
	Checksum string          `json:"checksum"`
	Data     json.RawMessage `json:"data"`
}

type checkpointData struct {
	BootID string   `json:"bootID,omitempty"`
	Claims []*claim `json:"claims"`
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// checkpointWriter writes the file. A claim of the ledger is never changed, only replaced,
// so its text is made once, however often the file is written while the claim is there.
type checkpointWriter struct {
	path  string
	texts map[*claim][]byte
	file  []byte // the last one, for its memory
}

func (w *checkpointWriter) write(bootID string, claims []*claim) error {
	file := fmt.Appendf(w.file[:0], `{"version":%d,"checksum":"`, checkpointVersion)
	sum := len(file)
	file = append(file, checksum(nil)+`","data":`...) // for its length
	data := len(file)
	boot, err := json.Marshal(bootID)
	if err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	file = fmt.Appendf(file, `{"bootID":%s,"claims":[`, boot)
	texts := make(map[*claim][]byte, len(claims))
	for i, c := range claims {
		if texts[c] = w.texts[c]; texts[c] == nil {
			if texts[c], err = json.Marshal(c); err != nil {
				return fmt.Errorf("write the checkpoint: %s: %w", c, err)
			}
		}
		if i > 0 {
			file = append(file, ',')
		}
		file = append(file, texts[c]...)
	}
	file = append(file, "]}}"...)
	copy(file[sum:], checksum(file[data:len(file)-1]))
	w.texts, w.file = texts, file
	// What a crash of the machine can take from the disk is void after it: load tells so by the boot. Only where the boot isn't
	// known is the disk waited for.
	d := atomicfile.Cached
	if bootID == "" {
		d = atomicfile.Flushed
	}
	if err := atomicfile.Replace(w.path, file, 0o600, d); err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	return nil
}

// errNoCheckpoint: this node has none yet.
var errNoCheckpoint = errors.New("no checkpoint")

func readCheckpoint(path string) (checkpointData, error) {
	var d checkpointData
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return d, errNoCheckpoint
	}
	if err != nil {
		return d, fmt.Errorf("read the checkpoint: %w", err)
	}
	var c checkpoint
	if err := json.Unmarshal(text, &c); err != nil {
		return d, fmt.Errorf("read the checkpoint %s: %w", path, err)
	}
	if got := checksum(c.Data); got != c.Checksum {
		return d, fmt.Errorf("read the checkpoint %s: its checksum is %q and its content has %q", path, c.Checksum, got)
	}
	if c.Version != checkpointVersion {
		return d, fmt.Errorf("read the checkpoint %s: it is of version %d, this driver knows %d", path, c.Version, checkpointVersion)
	}
	if err := json.Unmarshal(c.Data, &d); err != nil {
		return d, fmt.Errorf("read the checkpoint %s: %w", path, err)
	}
	return d, nil
}
