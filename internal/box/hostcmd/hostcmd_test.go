package hostcmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := Run(t.Context(), Cmd{Args: []string{"sh", "-c", "echo one; echo two >&2"}, Out: &out}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "one\ntwo\n" {
		t.Errorf("output %q", out.String())
	}
}

func TestOutputIsStdoutOnly(t *testing.T) {
	var out bytes.Buffer
	got, err := Output(t.Context(), Cmd{Args: []string{"sh", "-c", "echo one; echo two >&2"}, Out: &out})
	if err != nil || got != "one\n" || out.String() != "two\n" {
		t.Errorf("got %q, %v; stderr %q", got, err, out.String())
	}
}

func TestErrorsSayWhatHappened(t *testing.T) {
	err := Run(t.Context(), Cmd{Args: []string{"sh", "-c", "echo the reason; exit 3"}})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("error %v", err)
	}
	err = Run(t.Context(), Cmd{Args: []string{"no-such-program-at-all"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-program-at-all is not installed") {
		t.Errorf("error %v", err)
	}
}

// TestCancelEndsChildren: the child of the child holds the pipe, so the read ends only when it is gone too.
func TestCancelEndsChildren(t *testing.T) {
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		line := make([]byte, 6)
		io.ReadFull(r, line)
		cancel()
		io.Copy(io.Discard, r)
	}()
	err := Run(ctx, Cmd{Args: []string{"sh", "-c", "(echo ready; exec sleep 1000) & wait"}, Out: w})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want cancelled", err)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	tl := &tail{limit: 5}
	for _, s := range []string{"abc", "defg", "hi"} {
		tl.Write([]byte(s))
	}
	if tl.String() != "efghi" {
		t.Errorf("tail is %q", tl.String())
	}
}
