package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// picture is what a command shows of both worlds as they were at one moment.
type picture struct {
	model *view.Model
	value any
	// list is set where what is missing in value looks like what isn't there.
	list bool
	// tells is set where value itself says what isn't known.
	tells  bool
	people func() string
	names  func() []string
}

// partial is the error for a picture that a part is missing from, nil for none.
func (p picture) partial() error {
	if p.tells {
		return nil
	}
	return partial(p.model)
}

// read returns when the oldest part of a picture was read.
func (p picture) read() time.Time {
	oldest := p.model.Taken
	for _, s := range []view.Source{p.model.Kubernetes.Source, p.model.Slurm.Source} {
		if s.Known && !s.Read.IsZero() && s.Read.Before(oldest) {
			oldest = s.Read
		}
	}
	return oldest
}

// Intervals of watching.
const (
	watchEach  = 2 * time.Second
	watchLeast = time.Second
)

// watching are the flags of a command that can be watched.
type watching struct {
	on    bool
	every time.Duration
}

// add adds the flags, but not in a replay: a snapshot doesn't change.
func (w *watching) add(c *cobra.Command, f *clusterFlags) {
	if f.file != "" {
		return
	}
	c.Flags().BoolVarP(&w.on, "watch", "w", false, "look again and again, until Ctrl-C")
	c.Flags().DurationVar(&w.every, "interval", watchEach, "with --watch: how long to wait between two looks, at least 1s")
	_ = c.RegisterFlagCompletionFunc("interval", cobra.FixedCompletions([]string{"1s", "2s", "5s", "10s", "1m"}, cobra.ShellCompDirectiveNoFileComp))
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		switch {
		case w.every < watchLeast:
			return usage("--interval is %s: it can be %s or more", w.every, watchLeast)
		case !w.on && c.Flags().Changed("interval"):
			return usage("--interval is for --watch")
		case before != nil:
			return before(c, args)
		}
		return nil
	}
}

// see shows what draw makes of both worlds: once, or again and again.
func (s *settings) see(c *cobra.Command, o output, w watching, look looker, draw func(m *view.Model, namespace string) (picture, error)) error {
	drawn := func(ctx context.Context) (picture, error) {
		m, namespace, err := look(ctx)
		if err != nil {
			return picture{}, err
		}
		p, err := draw(m, namespace)
		p.model = m
		return p, err
	}
	if w.on {
		v := &viewer{every: w.every, look: drawn}
		if screen := s.screen(c, o, w.every); screen != nil {
			defer screen.end()
			v.show, v.began, v.tick = screen.show, screen.began, screen.draw
			stops := make(chan os.Signal, 1)
			signal.Notify(stops, syscall.SIGTSTP)
			defer signal.Stop(stops)
			v.stops, v.stop = stops, func() { screen.aside(stopped) }
		} else {
			v.show = (&stream{o: o, out: c.OutOrStdout(), complaints: c.ErrOrStderr()}).show
		}
		return v.run(c.Context())
	}
	p, err := drawn(c.Context())
	if err != nil {
		return err
	}
	if err := o.print(c, p.value, p.people, p.names); err != nil {
		return err
	}
	return p.partial()
}

// looker returns both worlds as they are now, and the namespace that is meant.
type looker func(ctx context.Context) (*view.Model, string, error)

// looker returns a looker that connects to the clusters once.
func (s *settings) looker(f *clusterFlags, want worlds.Want) looker {
	var reader *worlds.Reader
	var namespace string
	return func(ctx context.Context) (*view.Model, string, error) {
		if f.file != "" {
			return s.look(ctx, f, want)
		}
		if reader == nil {
			sources, meant, err := s.sources(ctx, f)
			if err != nil {
				return nil, "", err
			}
			reader, namespace = worlds.NewReader(sources), meant
			want.Namespace, want.Fallback = f.namespace, meant
		}
		return view.New(reader.Read(ctx, want)), namespace, nil
	}
}

// viewer looks again and again, one look at a time, with a pause between two.
type viewer struct {
	every time.Duration
	look  func(ctx context.Context) (picture, error)
	// show shows what a look has brought.
	show func(p picture, failed error) error
	// began and tick may be nil: a look has begun; a second is over.
	began, tick func()
	// stop is called when stops has something: Ctrl-Z. Both may be nil.
	stops <-chan os.Signal
	stop  func()
}

// run goes on until ctx ends, which is no error. A first look that fails ends it, as
// it would end the command without --watch: what is wrong then is the command line, most often.
func (v *viewer) run(ctx context.Context) error {
	type look struct {
		picture
		err error
	}
	looked := make(chan look, 1) // nobody waits for the last one
	next := time.NewTimer(0)
	defer next.Stop()
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	for first := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
			if v.began != nil {
				v.began()
			}
			go func() {
				p, err := v.look(ctx)
				looked <- look{p, err}
			}()
		case l := <-looked:
			switch {
			case ctx.Err() != nil:
				return nil
			case first && l.err != nil:
				return l.err
			}
			first = false
			if err := v.show(l.picture, l.err); err != nil {
				return err
			}
			next.Reset(v.every)
		case <-v.stops:
			v.stop()
		case <-seconds.C:
			if v.tick != nil {
				v.tick()
			}
		}
	}
}

// stream prints one look after the other, for a file, a pipe or a program.
type stream struct {
	o               output
	out, complaints io.Writer
	printed         bool
}

// show prints a look, and complains where it failed or a part of it. Half a list isn't
// printed for a program, which would take what is missing for gone.
func (s *stream) show(p picture, failed error) error {
	complaint := failed
	if complaint == nil {
		complaint = p.partial()
	}
	if complaint != nil {
		fmt.Fprintf(s.complaints, "slinky: %s: %s\n", moment(time.Now()), view.Text(complaint.Error()))
	}
	program := s.o.format == "json" || s.o.format == "yaml" || s.o.format == "name"
	if failed != nil || complaint != nil && p.list && program {
		return nil
	}
	switch {
	case s.o.format == "json":
		e := json.NewEncoder(s.out)
		e.SetEscapeHTML(false)
		return e.Encode(p.value)
	case s.o.format == "yaml":
		if _, err := fmt.Fprintln(s.out, "---"); err != nil {
			return err
		}
	case s.printed:
		if _, err := fmt.Fprintln(s.out); err != nil {
			return err
		}
	}
	s.printed = true
	return s.o.printTo(s.out, p.value, p.people, p.names)
}
