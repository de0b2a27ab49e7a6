package box

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/slinky-hpc/slinky/internal/box/image"
	"github.com/slinky-hpc/slinky/internal/box/progress"
)

// debianImages hold Slurm and what a job or a pod may want to run; ownImages hold our programs.
func debianImages() []string {
	return []string{"debian", "slurmctld", "slurmd", "slurmrestd", "slurmdbd", "login", "mariadb", "openldap"}
}

func programImages(o Options) []string {
	if o.Bare {
		return []string{"pause"}
	}
	return []string{"pause", "operator", "operator-webhook", "bridge-scheduler", "bridge", "bridge-admission", "slinky"}
}

func (b *Box) buildImages(ctx context.Context, s *progress.Step, names []string) ([]image.Image, error) {
	images, err := image.Build(ctx, image.Options{Cache: b.Cache, Source: b.Source, Names: names, Out: s})
	if err != nil {
		return nil, err
	}
	// Two of each: who goes to another branch and back builds nothing again.
	for _, kind := range []string{"program", "image"} {
		b.prune(ctx, kind, 2)
	}
	return images, nil
}

// ownImages are our programs and the box's tools that run in pods.
func (b *Box) ownImages(ctx context.Context, s *progress.Step, t Tools, o Options) ([]image.Image, error) {
	images, err := b.buildImages(ctx, s, programImages(o))
	if err != nil {
		return nil, err
	}
	for _, p := range []image.Static{
		{Name: "slinky.box/coredns:1", Binary: t.CoreDNS, Target: "/coredns", User: "0:0"},
		{Name: "slinky.box/provisioner:1", Binary: t.Provisioner, Target: "/provisioner", User: "0:0"},
	} {
		i, err := image.BuildStatic(ctx, b.Cache, p)
		if err != nil {
			return nil, err
		}
		images = append(images, i)
	}
	return images, nil
}

// BuildImages builds the named images, or those that people use outside of a
// box, too, and writes one archive with all of them.
func (b *Box) BuildImages(ctx context.Context, names []string) (images []image.Image, archive string, err error) {
	if err := b.Preflight(); err != nil {
		return nil, "", err
	}
	if err := b.ensurePackages(ctx); err != nil {
		return nil, "", err
	}
	err = b.Report.Run(ctx, "Images", func(ctx context.Context, s *progress.Step) error {
		if len(names) == 0 {
			names = image.Names()
		}
		images, err = b.buildImages(ctx, s, names)
		if err != nil {
			return err
		}
		archive, err = image.Bundle(ctx, b.Cache, images)
		return err
	})
	return images, archive, err
}

// LoadImage brings the images of an archive to all nodes.
func (b *Box) LoadImage(ctx context.Context, path string) error {
	state, err := b.load()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("read image archive: %w", err)
	}
	return b.Report.Run(ctx, fmt.Sprintf("Bringing %s to %d nodes", path, state.Nodes), func(ctx context.Context, s *progress.Step) error {
		g, ctx := errgroup.WithContext(ctx)
		for i := 1; i <= state.Nodes; i++ {
			g.Go(func() error { return b.importImage(ctx, s, nodeName(i), path) })
		}
		return g.Wait()
	})
}

// importImage brings the images of an archive to one node.
func (b *Box) importImage(ctx context.Context, s *progress.Step, node, path string) error {
	in, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read image archive: %w", err)
	}
	defer in.Close()
	if err := b.Exec(ctx, node, false, Streams{In: in, Out: s, Err: s}, "ctr", "--namespace", "k8s.io", "images", "import", "-"); err != nil {
		return fmt.Errorf("import on %s: %w", node, err)
	}
	return nil
}
