// Package rest talks to slurmrestd. It chooses the newest version of its data
// format that both sides know, bounds every call in time, repeats only what is
// safe to repeat, and turns every refusal into a typed error, also those that
// come with HTTP status 200.
package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

// Client is a slurm.Client over HTTP. It is safe for concurrent use.
type Client struct {
	config Config
	bases  []*url.URL
	// current is the index of the base that the next call goes to.
	current atomic.Uint32
	http    *http.Client
	slots   chan struct{}

	mu     sync.Mutex
	chosen *dialect.Dialect
}

var (
	_ slurm.Client     = (*Client)(nil)
	_ slurm.Statistics = (*Client)(nil)
	_ slurm.Licenses   = (*Client)(nil)
	_ slurm.Shares     = (*Client)(nil)
)

// New returns a client. It makes no call yet.
func New(c Config) (*Client, error) {
	if c.Tokens == nil {
		return nil, errors.New("slurmrestd client: no token source")
	}
	c = c.withDefaults()
	bases, transport, err := c.endpoints()
	if err != nil {
		return nil, err
	}
	client := &Client{
		config: c,
		bases:  bases,
		slots:  make(chan struct{}, c.Concurrency),
		http: &http.Client{
			Transport: transport,
			// A redirect would carry the token to another place.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if c.Version != "" {
		d, err := dialectOf(c.Version)
		if err != nil {
			return nil, err
		}
		client.chosen = &d
	}
	return client, nil
}

// Close gives up idle connections. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Version returns the data parser version in use, asking the server if it isn't chosen yet.
func (c *Client) Version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	d, err := c.dialect(ctx)
	return d.Version, err
}

// dialect returns the version in use. The first call finds it out by asking for
// each: a version that the server lacks has no URLs at all.
func (c *Client) dialect(ctx context.Context) (dialect.Dialect, error) {
	c.mu.Lock()
	chosen := c.chosen
	c.mu.Unlock()
	if chosen != nil {
		return *chosen, nil
	}
	var tried []string
	for _, d := range dialects() {
		op := call{name: "find slurmrestd's version", method: http.MethodGet, path: "ping/", read: true}
		a, err := c.send(ctx, op, d, nil)
		if err != nil {
			return d, err
		}
		tried = append(tried, d.Version)
		if a.status == http.StatusNotFound && !a.json {
			continue
		}
		if !a.json {
			return d, plainFailure(op, a.status, a.body)
		}
		c.mu.Lock()
		c.chosen = &d
		c.mu.Unlock()
		return d, nil
	}
	return dialect.Dialect{}, &slurm.Error{
		Kind: slurm.ErrInvalid, Op: "find slurmrestd's version", HTTPStatus: http.StatusNotFound,
		Text: fmt.Sprintf("%s offers none of %s; they come with Slurm 25.05 and later", c.base().Redacted(), strings.Join(tried, ", ")),
	}
}

func (c *Client) base() *url.URL { return c.bases[c.current.Load()] }

// turn makes calls go to the next slurmrestd, unless another call has turned away from that one already.
func (c *Client) turn(from uint32) {
	if len(c.bases) > 1 && c.current.CompareAndSwap(from, (from+1)%uint32(len(c.bases))) {
		c.forgetVersion()
	}
}

// forgetVersion makes the next call ask again: the server was up- or downgraded.
func (c *Client) forgetVersion() {
	if c.config.Version != "" {
		return
	}
	c.mu.Lock()
	c.chosen = nil
	c.mu.Unlock()
}

// call is one operation of slurmrestd.
type call struct {
	// name is what is tried, and on what, for error texts.
	name         string
	method, path string
	// plugin is the first part of the URL; "slurm" if empty.
	plugin string
	query  url.Values
	// list: reads many things, so it may take long. single: reads or changes one named thing.
	list, single bool
	// read: changes nothing, may be repeated. creates: success has a job id.
	read, creates bool
	// nodeLine: the body has a line of configuration.
	nodeLine bool
	// nothing is what it means when a write changed nothing.
	nothing string
	// since is the oldest version that has it; all do if empty.
	since string
}

func (c *Client) timeout(op call) time.Duration {
	if op.list {
		return c.config.ListTimeout
	}
	return c.config.Timeout
}

// do makes a call and gives its answer to decode. It returns slurm errors only.
// A nil reply without an error means that nothing changed since what was asked.
func (c *Client) do(ctx context.Context, op call, body func(dialect.Dialect) any,
	decode func(dialect.Dialect, answer) (dialect.Reply, error)) (*dialect.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout(op))
	defer cancel()
	start := time.Now()
	rep, err := c.tries(ctx, op, body, decode)
	c.config.Observe(op.method, time.Since(start), err)
	return rep, err
}

func (c *Client) tries(ctx context.Context, op call, body func(dialect.Dialect) any,
	decode func(dialect.Dialect, answer) (dialect.Reply, error)) (*dialect.Reply, error) {
	for try := 0; ; try++ {
		at := c.current.Load()
		rep, err := c.once(ctx, op, body, decode)
		if errors.Is(err, slurm.ErrUnavailable) && !errors.Is(ctx.Err(), context.Canceled) {
			c.turn(at)
		}
		if err == nil || !op.read || try >= c.config.Retries || !errors.Is(err, slurm.ErrUnavailable) {
			return rep, err
		}
		timer := time.NewTimer(backoff(try))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

func (c *Client) once(ctx context.Context, op call, body func(dialect.Dialect) any,
	decode func(dialect.Dialect, answer) (dialect.Reply, error)) (*dialect.Reply, error) {
	d, err := c.dialect(ctx)
	if err != nil {
		var e *slurm.Error
		if errors.As(err, &e) {
			e.Op = op.name + ": " + e.Op
		}
		return nil, err
	}
	if d.Version < op.since {
		return nil, &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name,
			Text: fmt.Sprintf("it needs slurmrestd's data parser %s or newer; this slurmrestd is spoken to in %s", op.since, d.Version)}
	}
	var content any
	if body != nil {
		content = body(d)
	}
	a, err := c.send(ctx, op, d, content)
	if err != nil {
		if lost := (*net.OpError)(nil); errors.As(err, &lost) || errors.Is(err, io.EOF) {
			c.forgetVersion() // it may come back as a newer one
		}
		return nil, err
	}
	switch {
	case a.status != http.StatusNotModified:
	case op.read && op.query.Has("update_time"):
		return nil, nil
	case op.plugin != database: // nobody asked what changed
		return nil, &slurm.Error{Kind: slurm.ErrUnavailable, Op: op.name, HTTPStatus: a.status, Text: "not an answer to this call"}
	case op.method == http.MethodDelete:
		return nil, notFound(op)
	default:
		return nil, &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, HTTPStatus: a.status, Text: op.nothing}
	}
	if !a.json {
		e := plainFailure(op, a.status, a.body)
		if a.status == http.StatusNotFound {
			c.forgetVersion()
		}
		return nil, e
	}
	rep, err := decode(d, a)
	if err != nil {
		return nil, &slurm.Error{Kind: slurm.ErrUnavailable, Op: op.name, HTTPStatus: a.status, Text: "the answer can't be read", Err: err}
	}
	for _, w := range rep.Warnings {
		if !emptyList(w.Text) {
			c.config.Warn(op.name, w.Text)
		}
	}
	if e := failure(op, a.status, rep); e != nil {
		return nil, e
	}
	return &rep, nil
}

// emptyList tells whether a warning only says that a list has nothing in it.
func emptyList(warning string) bool {
	return strings.HasSuffix(warning, "found nothing") || strings.HasPrefix(warning, "Zero ")
}
