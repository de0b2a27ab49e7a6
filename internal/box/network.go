package box

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"

	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
)

// The box's addresses are inside network namespaces of its own, so all boxes
// have the same ones and none can clash with the machine's.
const (
	controlPlaneIP = "10.210.0.1"
	nodeNet        = "10.210.0"
	podNet         = "10.244"
	serviceCIDR    = "10.96.0.0/16"
	serviceIP      = "10.96.0.1"
	dnsIP          = "10.96.0.10"
	clusterDomain  = "cluster.local"
	maxNodes       = 200
)

func nodeIP(i int) string       { return fmt.Sprintf("%s.%d", nodeNet, 10+i) }
func podCIDR(i int) string      { return fmt.Sprintf("%s.%d.0/24", podNet, i) }
func netnsPath(n string) string { return filepath.Join("/run/netns", n) }

func (b *Box) netns(container string) string { return b.prefix() + "-" + container }

// ensureNetwork makes the control plane's namespace, which is also the router,
// and one for each node. What exists is left alone.
func (b *Box) ensureNetwork(ctx context.Context, nodes int) error {
	router := b.netns(controlPlane)
	if err := b.ensureNetns(ctx, router, [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "br0", "type", "bridge"},
		{"addr", "add", controlPlaneIP + "/24", "dev", "br0"},
		{"link", "set", "br0", "up"},
	}); err != nil {
		return err
	}
	if err := ip(ctx, "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1"); err != nil {
		return err
	}
	for i := 1; i <= nodes; i++ {
		if err := b.ensureNodeNetwork(ctx, router, i); err != nil {
			return fmt.Errorf("make the network of %s: %w", nodeName(i), err)
		}
	}
	return nil
}

func (b *Box) ensureNodeNetwork(ctx context.Context, router string, i int) error {
	ns, port := b.netns(nodeName(i)), nodeName(i)
	if err := b.ensureNetns(ctx, ns, [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", router},
		{"addr", "add", nodeIP(i) + "/24", "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "add", "default", "via", controlPlaneIP},
	}); err != nil {
		return err
	}
	if err := ip(ctx, "-n", router, "link", "set", port, "master", "br0", "up"); err != nil {
		return err
	}
	return ip(ctx, "-n", router, "route", "replace", podCIDR(i), "via", nodeIP(i))
}

// ensureNetns makes a namespace and runs ip commands in it. One that an
// interrupted run left half done is made anew.
func (b *Box) ensureNetns(ctx context.Context, name string, setUp [][]string) error {
	done := b.dir("netns", name)
	if exists(done) && exists(netnsPath(name)) {
		return nil
	}
	if exists(netnsPath(name)) {
		if err := ip(ctx, "netns", "delete", name); err != nil {
			return err
		}
	}
	if err := ip(ctx, "netns", "add", name); err != nil {
		return err
	}
	for _, args := range setUp {
		if err := ip(ctx, append([]string{"-n", name}, args...)...); err != nil {
			return err
		}
	}
	return replaceFile(done, nil, 0o644)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (b *Box) removeNetwork(ctx context.Context) error {
	paths, err := filepath.Glob(netnsPath(b.prefix()) + "-*")
	if err != nil {
		return err
	}
	// Another box's name may start with this one's.
	own := regexp.MustCompile("^" + regexp.QuoteMeta(b.prefix()) + "-(" + controlPlane + "|node-[0-9]+)$")
	var failed []error
	for _, path := range paths {
		if name := filepath.Base(path); own.MatchString(name) {
			failed = append(failed, ip(ctx, "netns", "delete", name))
		}
	}
	return errors.Join(failed...)
}

func ip(ctx context.Context, args ...string) error {
	return hostcmd.Run(ctx, hostcmd.Cmd{Args: append([]string{"ip"}, args...)})
}

// listen opens the box's door on the host's loopback: the wanted port, or any free one if it is 0 or taken.
func listen(want int) (*os.File, int, error) {
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", want))
	if err != nil && want != 0 {
		l, err = net.Listen("tcp4", "127.0.0.1:0")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open a port on the loopback for the API server: %w", err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return nil, 0, fmt.Errorf("hand the API server's port over: %w", err)
	}
	return f, l.Addr().(*net.TCPAddr).Port, nil
}
