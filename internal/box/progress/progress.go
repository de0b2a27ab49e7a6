// Package progress shows a person what a long command does: each step's name,
// its newest detail and how long it takes.
package progress

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Options say where and how a Reporter writes.
type Options struct {
	Out io.Writer
	// Terminal redraws one status line while steps run; otherwise a line is printed now and then.
	Terminal bool
	// Width is the terminal's width in columns.
	Width int
	Now   func() time.Time
}

// Reporter shows steps. Steps may run at the same time.
type Reporter struct {
	opts    Options
	mu      sync.Mutex
	running []*Step
	drawn   bool
}

// New returns a Reporter.
func New(o Options) *Reporter {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Width < 40 {
		o.Width = 100
	}
	return &Reporter{opts: o}
}

const (
	redraw  = 250 * time.Millisecond
	remind  = 20 * time.Second
	maxTail = 16 << 10
)

// Step is one running piece of work. As an io.Writer it takes a tool's output:
// the newest line becomes the detail, and the end of it is shown if the step fails.
type Step struct {
	r      *Reporter
	title  string
	start  time.Time
	said   time.Time
	detail string
	tail   []byte
}

// Detail says how far the step is.
func (s *Step) Detail(format string, args ...any) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.detail = fmt.Sprintf(format, args...)
}

func (s *Step) Write(p []byte) (int, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.tail = append(s.tail, p...)
	if len(s.tail) > maxTail {
		s.tail = s.tail[len(s.tail)-maxTail:]
	}
	if line := lastLine(p); line != "" {
		s.detail = line
	}
	return len(p), nil
}

func lastLine(p []byte) string {
	lines := bytes.FieldsFunc(p, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 {
		return ""
	}
	return strings.Map(printable, string(bytes.TrimSpace(lines[len(lines)-1])))
}

func printable(r rune) rune {
	if r == '\t' {
		return ' '
	}
	if r < ' ' || r == 0x7f {
		return -1
	}
	return r
}

// Run runs f as a step and prints how it ended.
func (r *Reporter) Run(ctx context.Context, title string, f func(context.Context, *Step) error) error {
	s := &Step{r: r, title: title, start: r.opts.Now(), said: r.opts.Now()}
	r.add(s)
	err := f(ctx, s)
	r.remove(s, err)
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	return nil
}

// Say prints a line for good.
func (r *Reporter) Say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.erase()
	fmt.Fprintf(r.opts.Out, format+"\n", args...)
	r.draw()
}

func (r *Reporter) add(s *Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = append(r.running, s)
	if len(r.running) == 1 {
		go r.tick()
	}
}

// tick keeps the display alive as long as there are steps.
func (r *Reporter) tick() {
	t := time.NewTicker(redraw)
	defer t.Stop()
	for range t.C {
		r.mu.Lock()
		if len(r.running) == 0 {
			r.mu.Unlock()
			return
		}
		r.erase()
		r.draw()
		r.mu.Unlock()
	}
}

func (r *Reporter) remove(s *Step, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.erase()
	for i, x := range r.running {
		if x == s {
			r.running = append(r.running[:i:i], r.running[i+1:]...)
			break
		}
	}
	took := r.opts.Now().Sub(s.start)
	switch {
	case err != nil:
		fmt.Fprintf(r.opts.Out, " ✗ %s  failed after %s\n", s.title, short(took))
		if len(s.tail) > 0 {
			fmt.Fprintf(r.opts.Out, "%s\n", indent(s.tail))
		}
	default:
		fmt.Fprintf(r.opts.Out, " ✓ %-58s %8s\n", s.title, short(took))
	}
	r.draw()
}

func (r *Reporter) erase() {
	if r.drawn {
		fmt.Fprint(r.opts.Out, "\r\x1b[K")
		r.drawn = false
	}
}

func (r *Reporter) draw() {
	if len(r.running) == 0 {
		return
	}
	now := r.opts.Now()
	if !r.opts.Terminal {
		for _, s := range r.running {
			if now.Sub(s.said) >= remind {
				s.said = now
				fmt.Fprintf(r.opts.Out, " … %s\n", s.line(now))
			}
		}
		return
	}
	parts := make([]string, len(r.running))
	for i, s := range r.running {
		parts[i] = s.line(now)
	}
	fmt.Fprint(r.opts.Out, cut(" … "+strings.Join(parts, "  |  "), r.opts.Width-1))
	r.drawn = true
}

func (s *Step) line(now time.Time) string {
	l := fmt.Sprintf("%s (%s)", s.title, short(now.Sub(s.start)))
	if s.detail != "" {
		l += " " + cut(s.detail, 60)
	}
	return l
}

func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func short(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d:%02d min", int(d.Minutes()), int(d.Seconds())%60)
}

func indent(b []byte) string {
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if len(lines) > 25 {
		lines = lines[len(lines)-25:]
	}
	return "     " + strings.Join(lines, "\n     ")
}
