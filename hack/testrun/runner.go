package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
)

// runner is what all stages share.
type runner struct {
	root      string
	artifacts string
	out       io.Writer
	now       func() time.Time
	// left are tests that the unit stage left to others, by variable.
	left map[string][]id
	// looked is set once left is filled.
	looked bool
	// set are the variables of the stages so far: some tests need the surroundings of two.
	set []string
}

// heartbeat is how often a long command shows that it still runs.
const heartbeat = 30 * time.Second

// command runs a program in the repository. Its output goes into a log file of
// the given name and, if set, to stdout.
func (r *runner) command(ctx context.Context, log string, env []string, stdout io.Writer, args ...string) error {
	return r.commandIn(ctx, r.root, log, env, stdout, args...)
}

func (r *runner) commandIn(ctx context.Context, dir, log string, env []string, stdout io.Writer, args ...string) error {
	path := filepath.Join(r.artifacts, log+".log")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open a log: %w", err)
	}
	defer file.Close()
	fmt.Fprintf(file, "$ %s\n", strings.Join(args, " "))
	out := io.Writer(file)
	if stdout != nil {
		out = io.MultiWriter(file, stdout)
	}
	stop := r.beat(log, path)
	defer stop()
	return hostcmd.Run(ctx, hostcmd.Cmd{Args: args, Env: append(os.Environ(), env...), Dir: dir, Out: out})
}

// beat tells every half minute that what runs, runs. The returned function ends it.
func (r *runner) beat(what, log string) func() {
	start, done, ended := r.now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(heartbeat); ; {
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
				fmt.Fprintf(r.out, "  ... %s has run for %s; its log is %s\n", what, r.now().Sub(start).Round(time.Second), log)
			}
		}
	}()
	return func() { close(done); <-ended }
}

// check is a test that is one command: it passes if the command does.
func (r *runner) check(ctx context.Context, name, log string, args ...string) result {
	return r.checkIn(ctx, r.root, name, log, args...)
}

func (r *runner) checkIn(ctx context.Context, dir, name, log string, args ...string) result {
	var output bytes.Buffer
	start := r.now()
	err := r.commandIn(ctx, dir, log, nil, &output, args...)
	return r.checked(name, start, output.String(), err)
}

func (r *runner) checked(name string, start time.Time, output string, err error) result {
	res := result{id: id{test: name}, outcome: passed, output: output, seconds: r.now().Sub(start).Seconds()}
	if err != nil {
		res.outcome = failed
		if !strings.Contains(output, err.Error()) {
			// The rest of the error repeats the output.
			line, _, _ := strings.Cut(err.Error(), "\n")
			res.output += strings.TrimSuffix(line, "; its last output:") + "\n"
		}
	}
	fmt.Fprintf(r.out, "  %-7s %s  %s\n", res.outcome, name, seconds(res.seconds))
	return res
}

// goTest runs "go test" with some more arguments and returns its results.
func (r *runner) goTest(ctx context.Context, log string, stories bool, env []string, args ...string) []result {
	c := newCollector(r.out)
	c.stories = stories
	// The linter vets all code; here it would vet all of Kubernetes again.
	args = append([]string{"go", "test", "-json", "-p=2", "-vet=off"}, args...)
	err := r.command(ctx, log, env, c, args...)
	results := c.results()
	if ctx.Err() != nil {
		return append(results, failure(log, "stopped: "+context.Cause(ctx).Error()))
	}
	anyFailed := slices.ContainsFunc(results, func(t result) bool { return t.outcome == failed })
	if err != nil && !anyFailed {
		results = append(results, failure(log, err.Error()))
	}
	return results
}

// gated runs the tests that were left to the stage of this variable.
func (r *runner) gated(ctx context.Context, log, wants string, env ...string) []result {
	r.set = append(append(r.set, env...), wants+"=1")
	if !r.looked {
		fmt.Fprintln(r.out, "  looking for the tests that need this stage")
		quiet := *r
		quiet.out = io.Discard
		r.look(quiet.goTest(ctx, "unit", false, nil, unitFlags(r.root)...))
	}
	tests := r.left[wants]
	if len(tests) == 0 {
		return []result{failure(log, "no test asks for "+wants+": a stage without tests shows nothing\n")}
	}
	var packages, names []string
	for _, t := range tests {
		packages = append(packages, t.pkg)
		names = append(names, regexp.QuoteMeta(t.test))
	}
	slices.Sort(packages)
	slices.Sort(names)
	args := []string{"-count=1", "-timeout=15m", "-run=^(" + strings.Join(slices.Compact(names), "|") + ")$"}
	results := r.goTest(ctx, log, false, r.set, append(args, slices.Compact(packages)...)...)
	// A test of the same name in another of these packages has run before.
	results = slices.DeleteFunc(results, func(t result) bool {
		return t.outcome != failed && !slices.Contains(tests, t.top())
	})
	results = refuseSet(results, r.set)
	r.look(results)
	return results
}

// refuseSet turns skips that ask for a variable which was set into plain ones.
func refuseSet(results []result, set []string) []result {
	for i, t := range results {
		if t.outcome == later && slices.Contains(set, variable(t.output)+"=1") {
			results[i].outcome = skipped
		}
	}
	return results
}

// look notes which tests are left to other stages.
func (r *runner) look(results []result) {
	if !r.looked {
		r.left, r.looked = map[string][]id{}, true
	}
	for _, t := range results {
		if t.outcome != later {
			continue
		}
		v := variable(t.output)
		if !slices.Contains(r.left[v], t.top()) {
			r.left[v] = append(r.left[v], t.top())
		}
	}
}

// slinky builds the command line tool and returns its path.
func (r *runner) slinky(ctx context.Context) (string, error) {
	path := filepath.Join(r.root, "bin", "slinky")
	if err := r.command(ctx, "build", nil, nil, "go", "build", "-o", path, "./cmd/slinky"); err != nil {
		return "", fmt.Errorf("build slinky: %w", err)
	}
	return path, nil
}
