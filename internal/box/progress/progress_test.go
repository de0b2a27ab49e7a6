package progress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestStepsTellHowTheyEnd(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	r := New(Options{Out: &out, Now: func() time.Time { clock = clock.Add(time.Second); return clock }})
	if err := r.Run(context.Background(), "Building", func(_ context.Context, s *Step) error {
		fmt.Fprintln(s, "all is well")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := r.Run(context.Background(), "Starting", func(_ context.Context, s *Step) error {
		fmt.Fprintln(s, "the reason")
		return broken
	})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "Starting: ") {
		t.Errorf("error is %v", err)
	}
	text := out.String()
	for _, want := range []string{" ✓ Building", " ✗ Starting  failed after", "     the reason"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "all is well") {
		t.Errorf("output of a step that succeeded was shown:\n%s", text)
	}
}

func TestDetailIsOneCleanLine(t *testing.T) {
	if got := lastLine([]byte("first\n\x1b[31msecond\tpart\r\n")); got != "[31msecond part" {
		t.Errorf("got %q", got)
	}
	if got := cut("abcdef", 4); got != "abc…" {
		t.Errorf("got %q", got)
	}
	if got := short(125 * time.Second); got != "2:05 min" {
		t.Errorf("got %q", got)
	}
}
