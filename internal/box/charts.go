package box

import (
	"bytes"
	"context"
	_ "embed"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
)

//go:embed addons/operator.yaml
var operatorValues []byte

//go:embed addons/bridge.yaml
var bridgeValues []byte

// installCharts installs the operator with its custom resources, and the bridge, as users do.
func (b *Box) installCharts(ctx context.Context) error {
	helm, err := b.helm(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := b.install(ctx, helm, "slurm-operator-crds", nil); err != nil {
			return err
		}
		return b.install(ctx, helm, "slurm-operator", operatorValues)
	})
	g.Go(func() error { return b.install(ctx, helm, "slurm-bridge", bridgeValues) })
	return g.Wait()
}

// install installs one chart, or brings it up to date. What somebody else made
// or changed becomes the release's again, as in the rest of Up.
func (b *Box) install(ctx context.Context, helm, chart string, values []byte) error {
	args := []string{helm, "upgrade", "--install", chart, filepath.Join(b.Source, "charts", chart),
		"--namespace", slinkyNamespace, "--kubeconfig", b.Kubeconfig(),
		"--values", "-", "--take-ownership", "--force-conflicts", "--server-side=true", "--history-max=2"}
	return hostcmd.Run(ctx, hostcmd.Cmd{Name: "helm upgrade --install " + chart, Args: args,
		Stdin: bytes.NewReader(values), Env: os.Environ()})
}

// helm returns the path of helm. A box of an older build has none among its tools.
func (b *Box) helm(ctx context.Context) (string, error) {
	state, err := b.load()
	if err != nil {
		return "", err
	}
	if path := state.Parts.Tools.Helm; path != "" {
		return path, nil
	}
	return b.Tool(ctx, "helm")
}
