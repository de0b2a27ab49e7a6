package debian

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/internal/box/cache"
	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
)

// minContainerd is the first containerd with the CRI and NRI versions that the box's kubelet speaks.
const minContainerd = 2

// NodeRootfs returns the root file system of the box's nodes: containerd, runc, the CNI plugins and the programs that kubelet
// and kube-proxy call. It is shared by all nodes and must be used read-only.
func NodeRootfs(ctx context.Context, c *cache.Cache, out io.Writer) (string, error) {
	return Rootfs(ctx, c, out, Spec{
		Name: "node",
		Include: []string{
			"containerd", "runc", "containernetworking-plugins", "nftables", "iptables", "conntrack", "iproute2", "procps", "mount",
			"kmod", "ethtool", "socat", "tini", "ca-certificates",
		},
		Finish:  finishNode,
		Version: "1",
	})
}

func finishNode(ctx context.Context, dir string) error {
	for _, d := range []string{"opt/cni", "etc/cni/net.d", "etc/cdi", "var/lib/kubelet", "var/lib/containerd", "etc/containerd"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	// Debian's place for the CNI plugins is not the one that everything else looks at.
	if err := os.Symlink("/usr/lib/cni", filepath.Join(dir, "opt/cni/bin")); err != nil {
		return err
	}
	text, err := hostcmd.Output(ctx, hostcmd.Cmd{Args: []string{"chroot", dir, "containerd", "--version"}})
	if err != nil {
		return fmt.Errorf("ask the node's containerd for its version: %w", err)
	}
	return checkContainerd(text)
}

// checkContainerd reads "containerd github.com/containerd/containerd/v2 2.1.9-debian REVISION".
func checkContainerd(text string) error {
	fields := strings.Fields(text)
	if len(fields) < 3 {
		return fmt.Errorf("containerd --version says %q, which has no version", strings.TrimSpace(text))
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(fields[2], "v"), ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return fmt.Errorf("containerd --version says %q, whose version is not a number", strings.TrimSpace(text))
	}
	if n < minContainerd {
		return fmt.Errorf("the Debian mirror has containerd %s; the box's nodes need %d or later", fields[2], minContainerd)
	}
	return nil
}
