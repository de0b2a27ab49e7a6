package dracpu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// Snapshot is what a running driver knows, for people. It has no environment, command
// or opaque parameter of anybody's.
type Snapshot struct {
	Node string `json:"node"`
	// Runtime is the container runtime's name and version, as it said at registration.
	Runtime string `json:"runtime,omitempty"`
	// Problems are what /readyz says; none means ready.
	Problems []string `json:"problems"`
	// Free is what claims can still get, Shared where containers without a claim run.
	Online   cpuset.Set `json:"online"`
	Reserved cpuset.Set `json:"reserved"`
	Claimed  cpuset.Set `json:"claimed"`
	Free     cpuset.Set `json:"free"`
	Shared   cpuset.Set `json:"shared"`
	// SlurmJobs is what Slurm's own jobs have, where that is followed.
	SlurmJobs  []cpuset.Held    `json:"slurmJobs,omitempty"`
	Claims     []*claim         `json:"claims"`
	Containers []ContainerState `json:"containers"`
	// SelfManaged are the containers that are left alone, by ID, with their pods.
	SelfManaged map[string]types.UID `json:"selfManaged,omitempty"`
	// Log is the end of the driver's log.
	Log []string `json:"log,omitempty"`
}

// ContainerState is a container as the driver knows it.
type ContainerState struct {
	ID   string    `json:"id"`
	Name string    `json:"name"` // namespace/pod/container
	Pod  types.UID `json:"pod"`
	// Claims are the UIDs of those that it uses.
	Claims    []types.UID `json:"claims,omitempty"`
	Exclusive bool        `json:"exclusive"`
	// Want is what it should run on, Told what the runtime was told last; it is empty after a failure, until the next attempt.
	Want cpuset.Set `json:"want"`
	Told cpuset.Set `json:"told"`
	// MemoryNodes are those that it must have its memory of; empty means any.
	MemoryNodes cpuset.Set `json:"memoryNodes"`
	Started     bool       `json:"started"`
}

func (l *ledger) snapshot() Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Snapshot{
		Node: l.machine.Pool, Online: l.machine.Topology.All(), Reserved: l.machine.Exposure.Reserved, Free: l.free().Minus(l.jobCPUs()), Shared: l.shared(),
		SlurmJobs: slices.Clone(l.jobs), Claims: []*claim{}, Containers: []ContainerState{}, SelfManaged: maps.Clone(l.alone),
	}
	for _, c := range l.sorted() { // entries are replaced, never changed
		s.Claims, s.Claimed = append(s.Claims, c), s.Claimed.Union(c.cpus())
	}
	now := l.pools()
	for _, c := range l.containers {
		state := ContainerState{ID: c.id, Name: c.name, Pod: c.pod, Exclusive: c.exclusive(), Want: l.want(c, now).cpus, Told: c.applied, MemoryNodes: l.nodes(c), Started: c.started}
		for _, u := range c.uses {
			state.Claims = append(state.Claims, u.claim)
		}
		state.Claims = slices.Compact(slices.Sorted(slices.Values(state.Claims)))
		s.Containers = append(s.Containers, state)
	}
	slices.SortFunc(s.Containers, func(a, b ContainerState) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return s
}

func (d *driver) snapshot() Snapshot {
	s := d.ledger.snapshot()
	c := d.node.state.get()
	s.Runtime, s.Problems = c.runtime, append([]string{}, c.problems()...)
	if d.Recent != nil {
		s.Log = d.Recent.Lines()
	}
	return s
}

func dataDir(kubeletRoot string) string {
	return filepath.Join(kubeletRoot, "plugins", cpuset.DriverName)
}

func introspectSocket(kubeletRoot string) string {
	return filepath.Join(dataDir(kubeletRoot), "introspect.sock")
}

// serveSnapshot answers on a socket that only root reaches: names of pods and claims
// are nobody else's, and the port of health and metrics is open to the node's network.
func (d *driver) serveSnapshot(ctx context.Context) error {
	path := introspectSocket(d.KubeletRoot)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an earlier run's socket: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("serve what the driver knows: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(fmt.Errorf("serve what the driver knows: %w", err), listener.Close())
	}
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(d.snapshot()); err != nil {
			d.Log.Error(err, "What the driver knows can't be told")
		}
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.Log.Error(err, "What the driver knows can't be asked any more")
		}
	}()
	return nil
}

// AskDriver asks the driver that runs with that folder of kubelet what it knows.
func AskDriver(ctx context.Context, kubeletRoot string) (Snapshot, error) {
	var s Snapshot
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", introspectSocket(kubeletRoot))
		}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://driver/", nil)
	if err != nil {
		return s, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return s, fmt.Errorf("ask the running driver: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read the running driver's answer: %w", err)
	}
	return s, nil
}
