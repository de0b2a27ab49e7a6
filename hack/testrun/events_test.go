package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// events as "go test -json" writes them, shortened.
const recorded = `{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestTable"}
{"Action":"run","Package":"m/a","Test":"TestTable/one"}
{"Action":"pass","Package":"m/a","Test":"TestTable/one","Elapsed":0}
{"Action":"run","Package":"m/a","Test":"TestTable/two"}
{"Action":"output","Package":"m/a","Test":"TestTable/two","Output":"    a_test.go:9: got 1, want 2\n"}
{"Action":"fail","Package":"m/a","Test":"TestTable/two","Elapsed":0}
{"Action":"fail","Package":"m/a","Test":"TestTable","Elapsed":0}
{"Action":"run","Package":"m/a","Test":"TestServer"}
{"Action":"output","Package":"m/a","Test":"TestServer","Output":"    a_test.go:3: set SLINKY_TEST_APISERVER=1 to run this\n"}
{"Action":"skip","Package":"m/a","Test":"TestServer","Elapsed":0}
{"Action":"run","Package":"m/a","Test":"TestOdd"}
{"Action":"output","Package":"m/a","Test":"TestOdd","Output":"    a_test.go:5: not today\n"}
{"Action":"skip","Package":"m/a","Test":"TestOdd","Elapsed":0}
{"Action":"fail","Package":"m/a","Elapsed":0.1}
{"Action":"run","Package":"m/b","Test":"TestPanics"}
{"Action":"output","Package":"m/b","Test":"TestPanics","Output":"panic: oh\n"}
{"Action":"fail","Package":"m/b","Elapsed":0.1}
{"ImportPath":"m/c [m/c.test]","Action":"build-output","Output":"c.go:1: undefined: x\n"}
{"ImportPath":"m/c [m/c.test]","Action":"build-fail"}
{"Action":"output","Package":"m/c","Output":"FAIL\tm/c [build failed]\n"}
{"Action":"fail","Package":"m/c","Elapsed":0,"FailedBuild":"m/c [m/c.test]"}
{"Action":"output","Package":"m/d","Output":"?   \tm/d\t[no test files]\n"}
{"Action":"skip","Package":"m/d","Elapsed":0}
`

func collect(t *testing.T, text string) []result {
	t.Helper()
	c := newCollector(io.Discard)
	// Lines come in pieces of any size.
	for i := 0; i < len(text); i += 7 {
		if _, err := c.Write([]byte(text[i:min(i+7, len(text))])); err != nil {
			t.Fatal(err)
		}
	}
	return c.results()
}

func TestCollector(t *testing.T) {
	got := map[string]outcome{}
	for _, r := range collect(t, recorded) {
		got[r.pkg+" "+r.test] = r.outcome
	}
	want := map[string]outcome{
		"m/a TestTable/one": passed,
		"m/a TestTable/two": failed,
		"m/a TestServer":    later,
		"m/a TestOdd":       skipped,
		"m/b TestPanics":    failed,
		"m/c (package)":     failed,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
}

func TestFailedBuildIsShown(t *testing.T) {
	for _, r := range collect(t, recorded) {
		if r.pkg == "m/c" && !strings.Contains(r.output, "undefined: x") {
			t.Errorf("the output of m/c is %q, without what the compiler said", r.output)
		}
	}
}

func TestSkipInItsOwnStageFails(t *testing.T) {
	got := refuseSkips([]result{{outcome: skipped}, {outcome: passed}})
	if got[0].outcome != failed || got[1].outcome != passed {
		t.Errorf("outcomes %q and %q, want failed and passed", got[0].outcome, got[1].outcome)
	}
}

func TestSkipOfWhatIsSetIsNotLeftToLater(t *testing.T) {
	asks := func(name string) result {
		return result{outcome: later, output: "set SLINKY_TEST_" + name + "=1 to run this"}
	}
	got := refuseSet([]result{asks("APISERVER"), asks("SLURM")}, []string{"KUBEBUILDER_ASSETS=/x", "SLINKY_TEST_APISERVER=1"})
	if got[0].outcome != skipped {
		t.Errorf("a test skips for want of what is set, and its outcome is %q", got[0].outcome)
	}
	if got[1].outcome != later {
		t.Errorf("a test that asks for a later stage too has outcome %q, want %q", got[1].outcome, later)
	}
}

func TestSettleLater(t *testing.T) {
	left := result{id: id{"m/a", "TestServer/sub"}, outcome: later}
	ran := result{id: id{"m/a", "TestServer/other"}, outcome: passed}
	cases := map[string]struct {
		later []result
		full  bool
		want  outcome
	}{
		"its stage has run it":               {[]result{ran}, true, later},
		"all stages ran and none has run it": {nil, true, failed},
		"its stage was not asked for":        {nil, false, skipped},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reports := settleLater([]report{{results: []result{left}}, {results: c.later}}, c.full)
			if got := reports[0].results[0].outcome; got != c.want {
				t.Errorf("outcome %q, want %q", got, c.want)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	var out strings.Builder
	ok := printSummary(&out, []report{
		{stage: stages()[0], results: []result{{outcome: passed}, {outcome: later}}},
		{stage: stages()[1], results: []result{{id: id{"m/a", "TestX"}, outcome: failed}, {outcome: passed}, {outcome: skipped}}},
	}, "/logs")
	if ok {
		t.Error("a failed test, and all is said to be well")
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	if got, want := lines[len(lines)-1], "2 passed, 1 failed, 1 skipped"; got != want {
		t.Errorf("last line %q, want %q", got, want)
	}
	if !strings.Contains(out.String(), "failed: unit: m/a TestX") {
		t.Errorf("the summary does not name the failed test:\n%s", out.String())
	}
	if printSummary(io.Discard, nil, "/logs") {
		t.Error("nothing ran, and all is said to be well")
	}
}

func TestLeftOut(t *testing.T) {
	good, bad := report{results: []result{{outcome: passed}}}, report{results: []result{{outcome: passed}, {outcome: failed}}}
	slow := stage{spare: time.Minute}
	for name, c := range map[string]struct {
		stage   stage
		left    time.Duration
		reports []report
		want    string
	}{
		"time enough":             {slow, time.Minute, []report{good}, ""},
		"time is short":           {slow, 59 * time.Second, []report{good}, "it may take 1m0s, and 59s are left"},
		"something failed":        {slow, time.Hour, []report{good, bad}, "something has failed already"},
		"one that always runs":    {stage{}, 0, []report{bad}, ""},
		"it was asked for, alone": {chosen(t, "numa"), 0, nil, ""},
	} {
		if got := c.stage.leftOut(c.left, c.reports); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(100, 0))
	defer cancel()
	if got := timeLeft(ctx, time.Unix(40, 0)); got != time.Minute {
		t.Errorf("a minute before the deadline %s are left", got)
	}
}

func chosen(t *testing.T, name string) stage {
	t.Helper()
	stages, err := choose(name)
	if err != nil || len(stages) != 1 {
		t.Fatalf("%v, %v", stages, err)
	}
	return stages[0]
}
