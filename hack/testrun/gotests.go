package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// unitFlags are the arguments of "go test" for all packages but that of the
// lint stage.
func unitFlags(root string) []string {
	args := []string{"-timeout=5m"}
	cmd := exec.Command("go", "list", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		// The go command tells what is wrong better when it runs the tests.
		return append(args, "./...")
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		if pkg != archtest {
			args = append(args, pkg)
		}
	}
	return args
}

func unit(ctx context.Context, r *runner) []result {
	results := r.goTest(ctx, "unit", false, nil, unitFlags(r.root)...)
	r.look(results)
	return results
}

func apiserver(ctx context.Context, r *runner) []result {
	assets, err := r.tool(ctx, "envtest")
	if err != nil {
		return []result{failure("build kube-apiserver and etcd", err.Error())}
	}
	// Some of these tests install the charts.
	helm, err := r.tool(ctx, "helm")
	if err != nil {
		return []result{failure("build helm", err.Error())}
	}
	return r.gated(ctx, "apiserver", "SLINKY_TEST_APISERVER", "KUBEBUILDER_ASSETS="+assets, "SLINKY_TEST_HELM=1", "SLINKY_HELM="+helm)
}

func charts(ctx context.Context, r *runner) []result {
	helm, err := r.tool(ctx, "helm")
	if err != nil {
		return []result{failure("build helm", err.Error())}
	}
	return r.gated(ctx, "charts", "SLINKY_TEST_HELM", "SLINKY_HELM="+helm)
}

// tool builds a tool of the box, or finds it, and returns its path.
func (r *runner) tool(ctx context.Context, name string) (string, error) {
	slinky, err := r.slinky(ctx)
	if err != nil {
		return "", err
	}
	var stdout bytes.Buffer
	if err := r.command(ctx, "tools-"+name, nil, &stdout, slinky, "tools", name); err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	return lines[len(lines)-1], nil
}

func realSlurm(ctx context.Context, r *runner) []result {
	return r.gated(ctx, "slurm", "SLINKY_TEST_SLURM")
}

const boxName = "test"

func e2e(ctx context.Context, r *runner) []result {
	return r.inBox(ctx, func(slinky string) []result {
		up := r.check(ctx, "slinky up", "e2e-up", slinky, "up", "--name", boxName, "--with", "jobset,lws")
		if up.outcome != passed {
			return []result{up}
		}
		return append([]result{up}, r.goTest(ctx, "e2e", true, []string{"SLINKY_TEST_BOX=" + boxName},
			"-count=1", "-v", "-timeout=45m", "./test/e2e/...")...)
	})
}

// numa is slow, as its machine is emulated.
func numa(ctx context.Context, r *runner) []result {
	return r.inBox(ctx, func(slinky string) []result {
		results := []result{r.check(ctx, "slinky up", "numa-up", slinky, "up", "--name", boxName)}
		if results[0].outcome == passed {
			results = append(results, r.check(ctx, "slinky emulate", "numa-emulate", slinky, "emulate", "--name", boxName, "dra-cpu", "slurmd"))
		}
		if last := results[len(results)-1]; last.outcome != passed {
			return results
		}
		return append(results, r.goTest(ctx, "numa", true, []string{"SLINKY_TEST_NUMA=" + boxName},
			"-count=1", "-v", "-timeout=45m", "-run=^TestNUMA", "./test/e2e")...)
	})
}

// inBox runs stories in a box of their own, which they start themselves, and removes it.
func (r *runner) inBox(ctx context.Context, stories func(slinky string) []result) []result {
	slinky, err := r.slinky(ctx)
	if err != nil {
		return []result{failure("e2e", err.Error())}
	}
	// What a run before left, say because it was killed.
	if err := r.command(ctx, "e2e-down", nil, nil, slinky, "down", "--name", boxName); err != nil {
		return []result{failure("remove what an earlier run left", err.Error())}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return []result{failure("find the cache folder", err.Error())}
	}
	boxes := filepath.Join(cache, "slinky", "boxes")
	before, err := look("/", boxes)
	if err != nil {
		return []result{failure("look at this machine", err.Error())}
	}
	results := stories(slinky)
	return append(results, r.takeDown(ctx, slinky, boxes, before)...)
}

// takeDown removes the box also when ctx has ended, and looks for leftovers.
func (r *runner) takeDown(ctx context.Context, slinky, boxes string, before machine) []result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downLimit)
	defer cancel()
	down := r.check(ctx, "slinky down", "e2e-down", slinky, "down", "--name", boxName)
	start := r.now()
	after, err := look("/", boxes)
	output := ""
	if left := after.minus(before); err == nil && len(left) > 0 {
		output = strings.Join(left, "\n") + "\n"
		err = fmt.Errorf("slinky down left %d things behind", len(left))
	}
	return []result{down, r.checked("nothing is left of the box", start, output, err)}
}
