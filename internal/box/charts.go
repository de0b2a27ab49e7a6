package box

import (
	"bytes"
	"context"
	_ "embed"
	"os"
	"path/filepath"

	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
)

//go:embed addons/operator.yaml
var operatorValues []byte

// installOperator installs the custom resources and the operator as users do: by the charts.
func (b *Box) installOperator(ctx context.Context) error {
	helm, err := b.helm(ctx)
	if err != nil {
		return err
	}
	for _, release := range []struct {
		name   string
		values []byte
	}{{"slurm-operator-crds", nil}, {"slurm-operator", operatorValues}} {
		// What somebody else made or changed becomes the release's again, as in the rest of Up.
		args := []string{helm, "upgrade", "--install", release.name, filepath.Join(b.Source, "charts", release.name),
			"--namespace", slinkyNamespace, "--kubeconfig", b.Kubeconfig(),
			"--values", "-", "--take-ownership", "--force-conflicts", "--server-side=true", "--history-max=2"}
		if err := hostcmd.Run(ctx, hostcmd.Cmd{Name: "helm upgrade --install " + release.name, Args: args,
			Stdin: bytes.NewReader(release.values), Env: os.Environ()}); err != nil {
			return err
		}
	}
	return nil
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
