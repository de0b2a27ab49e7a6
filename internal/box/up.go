package box

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slinky-hpc/slinky/internal/box/cache"
	"github.com/slinky-hpc/slinky/internal/box/debian"
	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
	"github.com/slinky-hpc/slinky/internal/box/image"
	"github.com/slinky-hpc/slinky/internal/box/progress"
)

//go:embed addons/coredns.yaml
var corednsManifest []byte

//go:embed addons/storage.yaml
var storageManifest []byte

// Options say what Up makes.
type Options struct {
	// Nodes is the number of worker nodes; 0 keeps what the box has, or takes DefaultNodes.
	Nodes int
	// Bare leaves Slurm, the operator and the bridge out.
	Bare bool
	// With names the add-ons that the box has besides, of Addons.
	With []string
}

// DefaultNodes is how many worker nodes a new box has.
const DefaultNodes = 3

const (
	readyLimit = 3 * time.Minute
	slurmLimit = 4 * time.Minute
)

// Up makes the box run. On a running one it changes nothing; after an
// interrupted or killed Up it goes on from where that one was.
func (b *Box) Up(ctx context.Context, o Options) error {
	with, err := chooseAddons(o.With)
	if err != nil {
		return err
	}
	if err := b.Preflight(); err != nil {
		return err
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := b.plan(o)
	if err != nil {
		return err
	}
	if err := b.keepSelf(ctx); err != nil {
		return err
	}
	running, err := b.allRun(ctx, state)
	if err != nil {
		return err
	}
	// A running box keeps what it was made from, whatever has become of the checkout since.
	if !running {
		if state.Parts, err = b.prepare(ctx, o); err != nil {
			return err
		}
	}
	if err := b.startCluster(ctx, &state); err != nil {
		return err
	}
	if !o.Bare {
		if err := b.installSlinky(ctx, state.Nodes); err != nil {
			return err
		}
	}
	return b.installAddons(ctx, with)
}

// keepSelf makes the containers run a copy of this program, which a later build doesn't change under them.
func (b *Box) keepSelf(ctx context.Context) error {
	key, err := cache.NewKey("program").File(b.Self).Sum()
	if err != nil {
		return err
	}
	b.Self, err = b.Cache.File(ctx, "program", "slinky-"+key, func(ctx context.Context, path string) error {
		return hostcmd.Run(ctx, hostcmd.Cmd{Args: []string{"cp", b.Self, path}})
	})
	return err
}

// plan is the state that the box is to have.
func (b *Box) plan(o Options) (State, error) {
	var state State
	if exists(b.dir("state.json")) {
		var err error
		if state, err = b.load(); err != nil {
			return state, err
		}
	}
	switch {
	case o.Nodes < 0 || o.Nodes > maxNodes:
		return state, fmt.Errorf("a box can have 1 to %d nodes, not %d", maxNodes, o.Nodes)
	case state.Nodes == 0 && o.Nodes == 0:
		state.Nodes = DefaultNodes
	case state.Nodes == 0:
		state.Nodes = o.Nodes
	case o.Nodes != 0 && o.Nodes != state.Nodes:
		return state, fmt.Errorf("box %q has %d nodes already; to change that, remove it first: %s", b.Name, state.Nodes, b.call("down"))
	}
	return state, nil
}

// prepare builds or finds everything that has to be on disk first.
func (b *Box) prepare(ctx context.Context, o Options) (Parts, error) {
	var p Parts
	if err := b.ensurePackages(ctx); err != nil {
		return p, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return b.Report.Run(gctx, "Root file system of the nodes", func(ctx context.Context, s *progress.Step) (err error) {
			p.Rootfs, err = debian.NodeRootfs(ctx, b.Cache, s)
			return err
		})
	})
	var slurm []image.Image
	if !o.Bare {
		g.Go(func() error {
			return b.Report.Run(gctx, "Images of Slurm", func(ctx context.Context, s *progress.Step) (err error) {
				slurm, err = b.buildImages(ctx, s, debianImages())
				return err
			})
		})
	}
	var own []image.Image
	g.Go(func() error {
		err := b.Report.Run(gctx, "Kubernetes "+Version+", built from its Go modules", func(ctx context.Context, s *progress.Step) (err error) {
			p.Tools, err = b.BuildTools(ctx, s)
			return err
		})
		if err != nil {
			return err
		}
		return b.Report.Run(gctx, "Slinky's own programs", func(ctx context.Context, s *progress.Step) (err error) {
			own, err = b.ownImages(ctx, s, p.Tools, o)
			return err
		})
	})
	if err := g.Wait(); err != nil {
		return p, err
	}
	return p, b.Report.Run(ctx, "Images, unpacked once for all nodes", func(ctx context.Context, _ *progress.Step) (err error) {
		p.Seed, err = b.makeSeed(ctx, p.Rootfs, append(own, slurm...))
		return err
	})
}

func (b *Box) ensurePackages(ctx context.Context) error {
	return b.Report.Run(ctx, "Debian packages of this machine", func(ctx context.Context, s *progress.Step) error {
		return debian.EnsureHostPackages(ctx, s, hostPackages()...)
	})
}

func (b *Box) startCluster(ctx context.Context, state *State) error {
	p := state.Parts
	if err := b.Report.Run(ctx, "Control plane: etcd, API server, controllers, scheduler", func(ctx context.Context, _ *progress.Step) error {
		if err := b.ensureNetwork(ctx, state.Nodes); err != nil {
			return err
		}
		if err := b.startControlPlane(ctx, p.Rootfs, p.Tools, state); err != nil {
			return err
		}
		if err := b.save(*state); err != nil {
			return err
		}
		err := until(ctx, readyLimit, func(ctx context.Context) error {
			_, err := b.kubectl(ctx, nil, "get", "--raw", "/readyz")
			return err
		})
		if err != nil {
			return fmt.Errorf("%w\nThe end of the API server's log:\n%s", err, fileTail(b.containerDir(controlPlane, "logs", "kube-apiserver.log")))
		}
		return nil
	}); err != nil {
		return err
	}
	return b.Report.Run(ctx, fmt.Sprintf("Nodes (%d), cluster DNS and storage", state.Nodes), func(ctx context.Context, s *progress.Step) error {
		g, gctx := errgroup.WithContext(ctx)
		for i := 1; i <= state.Nodes; i++ {
			g.Go(func() error { return b.startNode(gctx, i, p.Rootfs, p.Seed, p.Tools) })
		}
		g.Go(func() error {
			for _, text := range [][]byte{storageManifest, corednsManifest} {
				if err := b.apply(gctx, text); err != nil {
					return err
				}
			}
			return nil
		})
		if err := g.Wait(); err != nil {
			return err
		}
		return b.waitForNodes(ctx, s, state.Nodes)
	})
}

func (b *Box) waitForNodes(ctx context.Context, s *progress.Step, nodes int) error {
	err := until(ctx, readyLimit, func(ctx context.Context) error {
		ready, err := b.readyNodes(ctx)
		s.Detail("%d of %d nodes ready", ready, nodes)
		if err == nil && ready < nodes {
			err = fmt.Errorf("%d of %d nodes are ready", ready, nodes)
		}
		return err
	})
	if err != nil {
		return err
	}
	limit := fmt.Sprintf("--timeout=%s", readyLimit)
	if _, err = b.kubectl(ctx, nil, "-n", "kube-system", "rollout", "status", "deployment/coredns", limit); err != nil {
		return err
	}
	_, err = b.kubectl(ctx, nil, "-n", "kube-system", "rollout", "status", "daemonset/provisioner", limit)
	return err
}

func (b *Box) readyNodes(ctx context.Context) (int, error) {
	text, err := b.kubectl(ctx, nil, "get", "nodes", "-o", "json")
	if err != nil {
		return 0, err
	}
	var list struct {
		Items []struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return 0, fmt.Errorf("read the list of nodes: %w", err)
	}
	ready := 0
	for _, n := range list.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				ready++
			}
		}
	}
	return ready, nil
}

func (s State) containers() []string {
	names := []string{controlPlane}
	for i := 1; i <= s.Nodes; i++ {
		names = append(names, nodeName(i))
	}
	return names
}

// countRunning counts the box's containers that run.
func (b *Box) countRunning(ctx context.Context, s State) (int, error) {
	running := 0
	for _, name := range s.containers() {
		status, err := b.status(ctx, name)
		if err != nil {
			return 0, err
		}
		if status == "running" {
			running++
		}
	}
	return running, nil
}

func (b *Box) allRun(ctx context.Context, s State) (bool, error) {
	if s.Parts.Seed == "" {
		return false, nil
	}
	running, err := b.countRunning(ctx, s)
	return running == len(s.containers()), err
}
