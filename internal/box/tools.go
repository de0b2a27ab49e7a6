package box

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/slinky-hpc/slinky/internal/box/cache"
	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
	"github.com/slinky-hpc/slinky/internal/box/progress"
)

// Tools are the box's own programs, built from Go modules.
type Tools struct {
	// Kube is all of Kubernetes in one binary.
	Kube        string
	CoreDNS     string
	Provisioner string
	Crictl      string
	Helm        string
}

// toolsDir is the Go module of the box's tools, below the checkout.
const toolsDir = "internal/box/tools"

// toolPackage is the package of a tool, and the folder of the module that builds it, below the checkout.
func toolPackage(name string) (pkg, module string) {
	for _, a := range addons() {
		if a.name == name {
			return a.pkg, controllersDir
		}
	}
	switch name {
	case "crictl":
		return "sigs.k8s.io/cri-tools/cmd/crictl", toolsDir
	case "helm":
		return "helm.sh/helm/v4/cmd/helm", toolsDir
	case "kwok":
		return "sigs.k8s.io/kwok/cmd/kwok", toolsDir
	}
	return "./cmd/" + name, toolsDir
}

// BuildTools builds the box's programs, or finds them in the cache.
func (b *Box) BuildTools(ctx context.Context, s *progress.Step) (Tools, error) {
	var t Tools
	for _, p := range []struct {
		name string
		path *string
	}{{"kube", &t.Kube}, {"coredns", &t.CoreDNS}, {"provisioner", &t.Provisioner}, {"crictl", &t.Crictl}, {"helm", &t.Helm}} {
		path, err := b.buildTool(ctx, s, p.name)
		if err != nil {
			return t, err
		}
		*p.path = path
	}
	return t, nil
}

func (b *Box) buildTool(ctx context.Context, s *progress.Step, name string) (string, error) {
	pkg, module := toolPackage(name)
	module, flags := filepath.Join(b.Source, module), toolFlags()
	key := cache.NewKey(name, runtime.Version(), strings.Join(flags, " ")).
		File(filepath.Join(module, "go.mod")).File(filepath.Join(module, "go.sum"))
	if strings.HasPrefix(pkg, "./") {
		key.FS(os.DirFS(filepath.Join(module, pkg)))
	}
	sum, err := key.Sum()
	if err != nil {
		return "", err
	}
	path, err := b.Cache.File(ctx, "tools", name+"-"+sum, func(ctx context.Context, path string) error {
		s.Detail("%s: downloading modules", name)
		list, err := hostcmd.Output(ctx, hostcmd.Cmd{Args: []string{"go", "list", "-deps", pkg}, Dir: module, Env: GoEnv(os.Environ()), Out: s})
		if err != nil {
			return err
		}
		args := append([]string{"go", "build", "-v"}, flags...)
		return hostcmd.Run(ctx, hostcmd.Cmd{
			Args: append(args, "-o", path, pkg), Dir: module, Env: GoEnv(os.Environ()),
			Out: &packageCounter{step: s, name: name, all: strings.Count(list, "\n")},
		})
	})
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return path, nil
}

func toolFlags() []string {
	const version = "k8s.io/component-base/version"
	minor := strings.Split(Version, ".")[1]
	// Without a stamp, nodes call themselves v0.0.0 and clients refuse to compare versions.
	return []string{"-ldflags", fmt.Sprintf("-s -w -X %[1]s.gitVersion=v%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=%[3]s"+
		" -X %[1]s.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion=v%[2]s", version, Version, minor)}
}

// GoEnv is env with the settings that all of the project's builds have in
// common, so that they share one build cache.
func GoEnv(env []string) []string {
	return append(env, "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off")
}

// packageCounter turns the output of go build -v, a package a line, into a count.
type packageCounter struct {
	step *progress.Step
	name string
	// all counts the packages that the program is made of; those in the build cache are never printed.
	all int

	mu       sync.Mutex
	compiled int
}

func (c *packageCounter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for line := range bytes.Lines(p) {
		if bytes.HasPrefix(line, []byte("go: ")) || bytes.ContainsAny(line, " #:") {
			_, _ = c.step.Write(line)
			continue
		}
		c.compiled++
		c.step.Detail("%s: compiled %d of at most %d packages", c.name, c.compiled, c.all)
	}
	return len(p), nil
}

// Tool returns the path of one of the tools, built if it has to be.
func (b *Box) Tool(ctx context.Context, name string) (path string, err error) {
	err = b.Report.Run(ctx, "Building "+name, func(ctx context.Context, s *progress.Step) error {
		path, err = b.buildTool(ctx, s, name)
		return err
	})
	return path, err
}

// EnvtestAssets returns a folder with kube-apiserver, etcd and kubectl, as
// tests of controllers against a real API server want it.
func (b *Box) EnvtestAssets(ctx context.Context) (string, error) {
	kube, err := b.Tool(ctx, "kube")
	if err != nil {
		return "", err
	}
	return b.Cache.Dir(ctx, "envtest", filepath.Base(kube), func(_ context.Context, dir string) error {
		for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
			if err := os.Symlink(kube, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return nil
	})
}
