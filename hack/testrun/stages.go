package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// stage is a part of the tests that needs one kind of surroundings.
type stage struct {
	name  string
	where string
	run   func(context.Context, *runner) []result
	// wants is set for a stage that runs what "go test ./..." skips. The reason
	// for the skip names this variable; with it set, nothing may be skipped.
	wants string
	// spare is set for a stage that nobody waits for when time is short: as much must be left for it to
	// run unless it was asked for by name.
	spare time.Duration
}

func stages() []stage {
	return []stage{
		{name: "lint", where: "source code", run: lint},
		{name: "unit", where: "this host, no root needed", run: unit},
		{name: "charts", where: "helm, no cluster", run: charts, wants: "SLINKY_TEST_HELM"},
		{name: "apiserver", where: "real kube-apiserver and etcd", run: apiserver, wants: "SLINKY_TEST_APISERVER"},
		{name: "slurm", where: "real Slurm daemons", run: realSlurm, wants: "SLINKY_TEST_SLURM"},
		{name: "e2e", where: "box " + boxName + ": real nodes, real Slurm", run: e2e, wants: "SLINKY_TEST_BOX"},
		{name: "numa", where: "box " + boxName + " with an emulated machine", run: numa, wants: "SLINKY_TEST_NUMA", spare: 25 * time.Minute},
	}
}

// isSpare tells whether a test is left to a stage that may be left out.
func isSpare(output string) bool {
	wants := variable(output)
	return slices.ContainsFunc(stages(), func(s stage) bool { return s.spare > 0 && s.wants == wants })
}

// leftOut says why a stage that may be left out is, with so much time left and after these reports; else "".
func (s stage) leftOut(left time.Duration, reports []report) string {
	failures := slices.ContainsFunc(reports, func(r report) bool {
		return slices.ContainsFunc(r.results, func(t result) bool { return t.outcome == failed })
	})
	switch {
	case s.spare == 0:
		return ""
	case failures:
		return "something has failed already"
	case left < s.spare:
		return fmt.Sprintf("it may take %s, and %s are left", s.spare, left.Round(time.Second))
	}
	return ""
}

func stageNames() []string {
	var names []string
	for _, s := range stages() {
		names = append(names, s.name)
	}
	return names
}

// report is what came out of a stage.
type report struct {
	stage   stage
	results []result
	elapsed time.Duration
}

func (r *runner) runStages(ctx context.Context, chosen []stage) []report {
	var reports []report
	for _, s := range chosen {
		start := r.now()
		if why := s.leftOut(timeLeft(ctx, start), reports); why != "" {
			fmt.Fprintf(r.out, "\n=== %s (%s) is left out: %s; run it by -stages %s\n", s.name, s.where, why, s.name)
			continue
		}
		fmt.Fprintf(r.out, "\n=== %s (%s)\n", s.name, s.where)
		var results []result
		if ctx.Err() != nil {
			results = []result{failure("stage "+s.name, "did not run: "+context.Cause(ctx).Error())}
		} else {
			results = s.run(ctx, r)
		}
		if s.wants != "" {
			results = refuseSkips(results)
		}
		r.printFailures(results)
		reports = append(reports, report{s, results, r.now().Sub(start)})
	}
	full := !slices.ContainsFunc(stages(), func(s stage) bool {
		return s.spare == 0 && !slices.ContainsFunc(chosen, func(c stage) bool { return c.name == s.name })
	})
	return settleLater(reports, full)
}

// timeLeft is the time until a context's deadline; without one there is all the time in the world.
func timeLeft(ctx context.Context, now time.Time) time.Duration {
	deadline, limited := ctx.Deadline()
	if !limited {
		return math.MaxInt64
	}
	return deadline.Sub(now)
}

// refuseSkips: in its own stage a test has all it needs, so a skip hides something.
func refuseSkips(results []result) []result {
	out := slices.Clone(results)
	for i := range out {
		if out[i].outcome == skipped {
			out[i].outcome = failed
			out[i].output += "    this test may not be skipped here\n"
		}
	}
	return out
}

// settleLater looks for the tests that were left to a later stage. When all
// stages ran, each of them must have run; else they count as skipped.
func settleLater(reports []report, full bool) []report {
	ran := map[id]bool{}
	for _, rep := range reports {
		for _, t := range rep.results {
			if t.outcome != later {
				ran[t.top()] = true
			}
		}
	}
	for _, rep := range reports {
		for i, t := range rep.results {
			switch {
			case t.outcome != later || ran[t.top()] || full && isSpare(t.output):
			case full:
				rep.results[i].outcome = failed
				rep.results[i].output += "    no stage has run this test\n"
			default:
				rep.results[i].outcome = skipped
			}
		}
	}
	return reports
}

// variable finds the name of the stage's variable in the reason of a skip.
func variable(output string) string {
	found := ""
	for _, s := range stages() {
		// Of two, the later stage has both.
		if s.wants != "" && strings.Contains(output, s.wants) {
			found = s.wants
		}
	}
	return found
}
