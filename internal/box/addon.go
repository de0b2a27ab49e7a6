package box

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
	"github.com/slinky-hpc/slinky/internal/box/image"
	"github.com/slinky-hpc/slinky/internal/box/progress"
)

// controllersDir is the Go module of the controllers of other projects, below the checkout.
const controllersDir = "internal/box/controllers"

// addon is a controller of another project, which a box runs where it is asked for. Program and
// manifests are those of its release: both come in its Go module.
type addon struct {
	name string
	// module has the manifests, and pkg is the package of the program.
	module, pkg string
	// manifests is the folder of the module that installs everything into namespace.
	manifests string
	namespace string
}

func addons() []addon {
	return []addon{
		{name: "jobset", module: "sigs.k8s.io/jobset", pkg: "sigs.k8s.io/jobset", manifests: "config/default", namespace: "jobset-system"},
		{name: "lws", module: "sigs.k8s.io/lws", pkg: "sigs.k8s.io/lws/cmd", manifests: "config/default", namespace: "lws-system"},
	}
}

// Addons are the names that Options.With may have.
func Addons() []string {
	var names []string
	for _, a := range addons() {
		names = append(names, a.name)
	}
	return names
}

// chooseAddons returns the add-ons of some names, each once.
func chooseAddons(names []string) ([]addon, error) {
	var out []addon
	for _, name := range names {
		if !slices.Contains(Addons(), name) {
			return nil, fmt.Errorf("a box has no add-on %q; there are %s", name, strings.Join(Addons(), " and "))
		}
	}
	for _, a := range addons() {
		if slices.Contains(names, a.name) {
			out = append(out, a)
		}
	}
	return out, nil
}

// installAddons puts add-ons on a box that runs.
func (b *Box) installAddons(ctx context.Context, list []addon) error {
	for _, a := range list {
		err := b.Report.Run(ctx, "Add-on "+a.name, func(ctx context.Context, s *progress.Step) error { return b.installAddon(ctx, s, a) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *Box) installAddon(ctx context.Context, s *progress.Step, a addon) error {
	binary, err := b.buildTool(ctx, s, a.name)
	if err != nil {
		return err
	}
	dir, version, err := b.moduleOf(ctx, a)
	if err != nil {
		return err
	}
	img, err := image.BuildStatic(ctx, b.Cache, image.Static{
		Name: "slinky.box/" + a.name + ":" + version, Binary: binary, Target: "/manager", User: "65532:65532",
	})
	if err != nil {
		return fmt.Errorf("build the image of %s: %w", a.name, err)
	}
	archive, err := image.Bundle(ctx, b.Cache, []image.Image{img})
	if err != nil {
		return err
	}
	if err := b.importImage(ctx, s, nodeName(1), archive); err != nil {
		return err
	}
	text, err := b.customized(ctx, filepath.Join(dir, a.manifests), a, img.Name)
	if err != nil {
		return err
	}
	if err := b.apply(ctx, []byte(text)); err != nil {
		return err
	}
	_, err = b.kubectl(ctx, nil, "-n", a.namespace, "rollout", "status", "deployment", fmt.Sprintf("--timeout=%s", readyLimit))
	return err
}

// moduleOf returns the folder and the version of an add-on's module.
func (b *Box) moduleOf(ctx context.Context, a addon) (dir, version string, err error) {
	text, err := hostcmd.Output(ctx, hostcmd.Cmd{
		Args: []string{"go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", a.module},
		Dir:  filepath.Join(b.Source, controllersDir), Env: GoEnv(os.Environ()),
	})
	if err != nil {
		return "", "", fmt.Errorf("find the module of %s: %w", a.name, err)
	}
	dir, version, ok := strings.Cut(strings.TrimSpace(text), " ")
	if !ok {
		return "", "", fmt.Errorf("find the module of %s: go list says %q", a.name, text)
	}
	return dir, version, nil
}

// customized returns an add-on's manifests with what a box has different.
func (b *Box) customized(ctx context.Context, manifests string, a addon, img string) (string, error) {
	here := b.dir("addons", a.name)
	base, err := filepath.Rel(here, manifests) // kustomize takes no absolute path
	if err != nil {
		return "", fmt.Errorf("find the manifests of %s: %w", a.name, err)
	}
	text, err := json.MarshalIndent(overlay(base, img), "", "  ")
	if err != nil {
		return "", fmt.Errorf("customize %s: %w", a.name, err)
	}
	if err := replaceFile(filepath.Join(here, "kustomization.yaml"), text, 0o644); err != nil {
		return "", err
	}
	return b.kubectl(ctx, nil, "kustomize", here)
}

// overlay is a kustomization of an add-on's own: its controller runs once, from an image of the
// box, on the node that Slurm doesn't have.
func overlay(base, img string) map[string]any {
	type change struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	const pod = "/spec/template/spec"
	patch, _ := json.Marshal([]change{ // strings, numbers and maps of them: nothing to refuse
		{"replace", "/spec/replicas", 1},
		{"add", pod + "/nodeSelector", map[string]string{"kubernetes.io/hostname": nodeName(1)}},
		{"add", pod + "/priorityClassName", "system-cluster-critical"},
		{"replace", pod + "/containers/0/image", img},
		{"replace", pod + "/containers/0/resources", map[string]any{"requests": map[string]string{"cpu": "50m", "memory": "64Mi"}}},
		{"replace", pod + "/containers/0/readinessProbe/initialDelaySeconds", 1},
		{"replace", pod + "/containers/0/readinessProbe/periodSeconds", 1},
	})
	return map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": []string{base},
		"patches": []map[string]any{{"target": map[string]string{"kind": "Deployment"}, "patch": string(patch)}},
	}
}
