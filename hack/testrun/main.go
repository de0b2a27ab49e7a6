// Command testrun runs every test of the repository, stage by stage, and says
// what ran where. "make test" is this command.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	var only, artifacts string
	var limit time.Duration
	flag.StringVar(&only, "stages", "", "comma-separated stages to run (default all, numa if time is left for it): "+strings.Join(stageNames(), ","))
	flag.StringVar(&artifacts, "artifacts", "", "folder for the logs (default a new one below the temporary folder)")
	flag.DurationVar(&limit, "timeout", 80*time.Minute, "end everything after this time, and still clean up")
	flag.Parse()
	// A CI system that gives up sends SIGTERM: the box must not stay behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the tests took longer than %s", limit))
	defer cancel()
	ok, err := run(ctx, only, artifacts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

func run(ctx context.Context, only, artifacts string) (bool, error) {
	chosen, err := choose(only)
	if err != nil {
		return false, err
	}
	root, err := findRoot()
	if err != nil {
		return false, err
	}
	if artifacts == "" {
		artifacts, err = os.MkdirTemp("", "slinky-test-")
	} else {
		err = os.MkdirAll(artifacts, 0o755)
	}
	if err != nil {
		return false, fmt.Errorf("make the folder for logs: %w", err)
	}
	if artifacts, err = filepath.Abs(artifacts); err != nil {
		return false, fmt.Errorf("find the folder for logs: %w", err)
	}
	r := &runner{root: root, artifacts: artifacts, out: os.Stdout, now: time.Now}
	reports := r.runStages(ctx, chosen)
	return printSummary(os.Stdout, reports, artifacts), nil
}

// choose turns the flag into stages, in their fixed order.
func choose(only string) ([]stage, error) {
	if only == "" {
		return stages(), nil
	}
	names := strings.Split(only, ",")
	for _, n := range names {
		if !slices.Contains(stageNames(), n) {
			return nil, fmt.Errorf("there is no stage %q: use some of %s", n, strings.Join(stageNames(), ", "))
		}
	}
	chosen := slices.DeleteFunc(stages(), func(s stage) bool { return !slices.Contains(names, s.name) })
	for i := range chosen {
		chosen[i].spare = 0
	}
	return chosen, nil
}

// findRoot is the repository around the working folder.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working folder: %w", err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "internal/box/tools/go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("run this inside a checkout of the project")
}
