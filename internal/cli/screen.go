package cli

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slinky-hpc/slinky/internal/cli/table"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// Sequences of a terminal. Lines that are too long are cut by it, not wrapped.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	goHome      = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// slack is how much older than the interval a picture may be before its age is set off.
const slack = 5 * time.Second

// screen shows the newest look in place on a terminal, with its age.
type screen struct {
	out   io.Writer
	size  func() (width, height int)
	style table.Style
	zone  *time.Location
	every time.Duration

	entered bool
	// current is what is shown, nil where the last look failed; text is its text at the width.
	current *picture
	text    string
	width   int
	trouble error
	// asking is when the look began that is under way, zero where none is.
	asking time.Time
	frame  []string
}

// screen returns the screen of the terminal that a command prints tables on, nil where
// there is none or it can't be redrawn.
func (s *settings) screen(c *cobra.Command, o output, every time.Duration) *screen {
	f, ok := c.OutOrStdout().(*os.File)
	if !ok || o.format != "table" && !o.wide() || s.env("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	size := func() (int, int) {
		w, h, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0, 0
		}
		return w, h
	}
	return &screen{out: f, size: size, style: s.style(c), zone: time.Local, every: every}
}

func (s *screen) began() { s.asking = time.Now() }

// show takes over what a look has brought. After one that failed nothing is shown but why:
// what was true before may not be so any more.
func (s *screen) show(p picture, failed error) error {
	s.asking = time.Time{}
	if s.current, s.trouble, s.width = nil, failed, -1; failed == nil {
		s.current, s.trouble = &p, p.partial()
	}
	if !s.entered {
		s.entered = true
		if _, err := io.WriteString(s.out, enterScreen); err != nil {
			return err
		}
	}
	return s.redraw()
}

// draw draws again: the time has gone on, and the terminal may have another size.
func (s *screen) draw() {
	if s.entered {
		_ = s.redraw() // the next look tells
	}
}

func (s *screen) redraw() error {
	width, height := s.size()
	if s.current != nil && width != s.width {
		s.text = s.current.people()
	}
	s.width = width
	s.frame = s.lines(height)
	_, err := io.WriteString(s.out, goHome+strings.Join(s.frame, clearLine+"\r\n")+clearLine+clearBelow)
	return err
}

// lines are those of a frame, as many as there is room for; a height of 0 is not known.
func (s *screen) lines(height int) []string {
	out := []string{s.head()}
	if s.trouble != nil {
		// Its end says what to do, so it isn't cut as other lines are.
		for _, line := range wrap(view.Text(s.trouble.Error()), s.width) {
			out = append(out, s.style.Paint(table.Red, line))
		}
	}
	if s.current == nil {
		return out
	}
	out = append(append(out, ""), strings.Split(strings.TrimSuffix(s.text, "\n"), "\n")...)
	if height > 0 && len(out) > height {
		const least = 4
		room := max(height, least) - 1
		if more := len(out) - room; more > 0 {
			out = append(out[:room], s.style.Paint(table.Dim, fmt.Sprintf("and %d more lines, for which this window is too low", more)))
		}
	}
	return out
}

// wrap breaks a text between words into lines of at most a width, 0 for any; a word that is wider has a line of its own.
func wrap(text string, width int) []string {
	var out []string
	for _, word := range strings.Fields(text) {
		if last := len(out) - 1; last >= 0 && (width <= 0 || table.Width(out[last]+" "+word) <= width) {
			out[last] += " " + word
		} else {
			out = append(out, word)
		}
	}
	return out
}

// head says when this is, and how old what is shown.
func (s *screen) head() string {
	now := time.Now()
	parts := []string{s.style.Paint(table.Bold, "Every "+s.every.String()), now.In(s.zone).Format("2006-01-02 15:04:05 MST")}
	if s.current != nil {
		age := now.Sub(s.current.read())
		text := "read " + explain.Span(age) + " ago"
		if age > s.every+slack {
			text = s.style.Paint(table.Yellow, text)
		}
		parts = append(parts, text)
	}
	if !s.asking.IsZero() && now.Sub(s.asking) >= time.Second {
		parts = append(parts, "asking for "+explain.Span(now.Sub(s.asking)))
	}
	return strings.Join(append(parts, s.style.Paint(table.Dim, "Ctrl-C ends it")), "   ")
}

// aside gives the terminal back as it was while wait lasts, and draws anew then.
func (s *screen) aside(wait func()) {
	if !s.entered {
		wait()
		return
	}
	fmt.Fprint(s.out, leaveScreen)
	wait()
	fmt.Fprint(s.out, enterScreen)
	s.draw()
}

// stopped stops this program, as Ctrl-Z does to others, until the shell lets it go on.
func stopped() {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	defer signal.Stop(goesOn)
	if syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) == nil {
		<-goesOn
	}
}

// end gives the terminal back, and leaves on it what was shown last.
func (s *screen) end() {
	if s.entered {
		fmt.Fprint(s.out, leaveScreen+strings.Join(s.frame, "\n")+"\n")
	}
}
