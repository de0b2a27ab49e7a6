package box

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/slinky-hpc/slinky/internal/box/progress"
)

const (
	slurmKeySecret = "slurm-auth-slurm"
	jwtKeySecret   = "slurm-auth-jwt"
	// bridgeJWTSecret is the bridge's copy: a Secret can't be read across namespaces.
	bridgeJWTSecret = "slurm-jwt"

	bridgePartition = "slurm-bridge"
)

// installSlinky puts the operator, the bridge and a Slurm cluster on the box.
// What is there already and right is left alone.
func (b *Box) installSlinky(ctx context.Context, nodes int) error {
	if err := b.Report.Run(ctx, "Slinky: custom resources, operator, bridge", func(ctx context.Context, _ *progress.Step) error {
		if err := b.ensureKeys(ctx); err != nil {
			return err
		}
		if err := b.installCharts(ctx); err != nil {
			return err
		}
		return b.giveNodesToBridge(ctx, nodes)
	}); err != nil {
		return err
	}
	return b.Report.Run(ctx, "A Slurm cluster, made by the operator", func(ctx context.Context, s *progress.Step) error {
		if _, err := b.kubectl(ctx, nil, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"); err != nil {
			return err
		}
		if err := b.applyFolder(ctx, "examples/slurm-cluster"); err != nil {
			return err
		}
		return b.waitForSlurm(ctx, s, nodes)
	})
}

func (b *Box) applyFolder(ctx context.Context, dir string) error {
	_, err := b.kubectl(ctx, nil, "apply", "--server-side", "--force-conflicts", "--field-manager", "slinky-box",
		"--recursive", "--filename", filepath.Join(b.Source, dir))
	return err
}

// ensureKeys makes the cluster's secrets once; a second Up must not change them.
func (b *Box) ensureKeys(ctx context.Context) error {
	for _, name := range []string{slinkyNamespace, slurmNamespace} {
		if err := b.apply(ctx, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+"}\n")); err != nil {
			return err
		}
	}
	if err := b.ensureSecret(ctx, slurmNamespace, slurmKeySecret, "slurm.key", randomKey(1024)); err != nil {
		return err
	}
	if err := b.ensureSecret(ctx, slurmNamespace, jwtKeySecret, "jwt.key", randomKey(32)); err != nil {
		return err
	}
	key, err := b.kubectl(ctx, nil, "-n", slurmNamespace, "get", "secret", jwtKeySecret, "-o", `jsonpath={.data.jwt\.key}`)
	if err != nil {
		return err
	}
	return b.ensureSecret(ctx, slinkyNamespace, bridgeJWTSecret, "jwt.key", strings.TrimSpace(key))
}

// randomKey returns n random bytes in base64, the form that Secrets carry.
func randomKey(n int) string {
	key := make([]byte, n)
	_, _ = rand.Read(key) // It never fails: see its documentation.
	return base64.StdEncoding.EncodeToString(key)
}

func (b *Box) ensureSecret(ctx context.Context, namespace, name, key, value string) error {
	found, err := b.kubectl(ctx, nil, "-n", namespace, "get", "secret", name, "--ignore-not-found", "-o", "name")
	if err != nil || strings.TrimSpace(found) != "" {
		return err
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata": map[string]string{"name": name, "namespace": namespace},
		"data":     map[string]string{key: value},
	})
	if err != nil {
		return err
	}
	return b.apply(ctx, text)
}

// giveNodesToBridge lets Slurm place pods on all nodes but the first, which
// keeps the cluster's own pods.
func (b *Box) giveNodesToBridge(ctx context.Context, nodes int) error {
	for i := 2; i <= nodes; i++ {
		if _, err := b.kubectl(ctx, nil, "label", "--overwrite", "node", nodeName(i),
			"scheduler.slinky.slurm.net/external-node=true"); err != nil {
			return err
		}
		if _, err := b.kubectl(ctx, nil, "annotate", "--overwrite", "node", nodeName(i),
			"scheduler.slinky.slurm.net/external-node-partitions="+bridgePartition); err != nil {
			return err
		}
	}
	return nil
}

// waitForSlurm waits until the cluster takes jobs and the bridge pods.
func (b *Box) waitForSlurm(ctx context.Context, s *progress.Step, nodes int) error {
	err := until(ctx, slurmLimit, func(ctx context.Context) error {
		text, err := b.slurm(ctx, nil, "sinfo", "--noheader", "--Node", "--format=%N %T")
		if err != nil {
			s.Detail("waiting for slurmctld")
			return err
		}
		idle, external := countIdle(text)
		s.Detail("%d workers and %d of the bridge's %d nodes in Slurm", idle, external, nodes-1)
		if idle == 0 || external < nodes-1 {
			return fmt.Errorf("Slurm has %d idle workers and %d of the bridge's %d nodes", idle, external, nodes-1)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, b.pods(ctx))
	}
	_, err = b.kubectl(ctx, nil, "-n", slinkyNamespace, "wait", "--for=condition=Available", "deployment", "--all", "--timeout=120s")
	return err
}

// countIdle counts the nodes that take jobs, by whether they are the box's own nodes or the operator's workers.
func countIdle(sinfo string) (workers, external int) {
	seen := map[string]bool{}
	for line := range strings.Lines(sinfo) {
		f := strings.Fields(line)
		if len(f) != 2 || seen[f[0]] {
			continue
		}
		seen[f[0]] = true
		switch state := strings.TrimRight(f[1], "*"); {
		case state != "idle" && state != "mixed" && state != "allocated":
		case strings.HasPrefix(f[0], "node-"):
			external++
		default:
			workers++
		}
	}
	return workers, external
}

// pods lists Slinky's pods, for an error that would otherwise only say that time is up.
func (b *Box) pods(ctx context.Context) string {
	var text strings.Builder
	for _, namespace := range []string{slinkyNamespace, slurmNamespace} {
		list, err := b.kubectl(ctx, nil, "-n", namespace, "get", "pods", "-o", "wide")
		if err != nil {
			list = err.Error()
		}
		text.WriteString(list)
	}
	return text.String()
}
