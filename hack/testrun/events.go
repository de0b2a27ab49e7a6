package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// outcome is how a test ended.
type outcome string

const (
	passed  outcome = "passed"
	failed  outcome = "failed"
	skipped outcome = "skipped"
	later   outcome = "later" // skipped here, because a stage of its own runs it
)

// id names a test, or a check that is no Go test and has no package.
type id struct{ pkg, test string }

// top is the test function that a subtest belongs to.
func (i id) top() id {
	i.test, _, _ = strings.Cut(i.test, "/")
	return i
}

func (i id) String() string {
	if i.pkg == "" {
		return i.test
	}
	return strings.TrimPrefix(i.pkg, module+"/") + " " + i.test
}

const module = "github.com/slinky-hpc/slinky"

type result struct {
	id
	outcome outcome
	output  string
	seconds float64
}

func failure(name, output string) result {
	return result{id: id{test: name}, outcome: failed, output: output}
}

// event is a line of "go test -json"; see "go doc test2json".
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Elapsed    float64
	Output     string
	// FailedBuild is set when a package failed because something did not compile.
	FailedBuild string
}

// collector turns the events of a go test into results. It is an io.Writer for
// the command's stdout and tells of each package as it ends.
type collector struct {
	out     io.Writer
	stories bool // tell of each test that ends too
	partial []byte
	tests   map[id]*result
	order   []id
	builds  map[string]string // what the compiler said, by package
}

func newCollector(out io.Writer) *collector {
	return &collector{out: out, tests: map[id]*result{}, builds: map[string]string{}}
}

func (c *collector) Write(p []byte) (int, error) {
	c.partial = append(c.partial, p...)
	for {
		line, rest, ok := bytes.Cut(c.partial, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		c.line(line)
		c.partial = rest
	}
}

func (c *collector) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		// What is no event is the go command itself, on modules and the like.
		fmt.Fprintf(c.out, "  %s\n", line)
		return
	}
	switch e.Action {
	case "build-output":
		c.builds[e.ImportPath] += e.Output
	case "run", "output", "pass", "fail", "skip":
		c.event(e)
	}
}

func (c *collector) event(e event) {
	key := id{e.Package, e.Test}
	t := c.tests[key]
	if t == nil {
		t = &result{id: key}
		c.tests[key] = t
		c.order = append(c.order, key)
	}
	t.output += e.Output
	switch e.Action {
	case "pass":
		t.outcome = passed
	case "fail":
		t.outcome = failed
	case "skip":
		t.outcome = skipped
	default:
		return
	}
	t.seconds = e.Elapsed
	t.output = c.builds[e.FailedBuild] + t.output
	name := strings.TrimPrefix(e.Package, module+"/")
	switch {
	case e.Test == "" && t.outcome == skipped: // no test files
	case e.Test == "":
		fmt.Fprintf(c.out, "  %-7s %s  %s\n", t.outcome, name, seconds(e.Elapsed))
	case c.stories && !strings.Contains(e.Test, "/"):
		fmt.Fprintf(c.out, "  %-7s %s  %s\n", t.outcome, e.Test, seconds(e.Elapsed))
	}
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}

// results counts each leaf once: a test with subtests only if it failed by
// itself, a package only if it failed without a failing test.
func (c *collector) results() []result {
	var all []result
	for _, key := range c.order {
		t := *c.tests[key]
		if t.outcome == "" { // the test binary died under it
			t.outcome = failed
			t.output += "    the test did not end\n"
		}
		if key.test == "" {
			if t.outcome == failed && !c.anyBelow(key, failed) {
				t.test = "(package)"
				all = append(all, t)
			}
			continue
		}
		if c.hasBelow(key) && (t.outcome != failed || c.anyBelow(key, failed)) {
			continue
		}
		if t.outcome == skipped && variable(t.output) != "" {
			t.outcome = later
		}
		all = append(all, t)
	}
	return all
}

// anyBelow tells whether a test below key, or in the package key, has this outcome.
func (c *collector) anyBelow(key id, o outcome) bool {
	return slices.ContainsFunc(c.order, func(k id) bool {
		got := c.tests[k].outcome
		return k.isBelow(key) && (got == o || got == "" && o == failed)
	})
}

func (c *collector) hasBelow(key id) bool {
	return slices.ContainsFunc(c.order, func(k id) bool { return k.isBelow(key) })
}

func (i id) isBelow(key id) bool {
	if i.pkg != key.pkg || i == key {
		return false
	}
	return key.test == "" || strings.HasPrefix(i.test, key.test+"/")
}
