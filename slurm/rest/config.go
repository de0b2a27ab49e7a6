package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
	"github.com/slinky-hpc/slinky/slurm/rest/v0043"
	"github.com/slinky-hpc/slinky/slurm/rest/v0044"
	"github.com/slinky-hpc/slinky/slurm/rest/v0045"
)

// Config says how to reach a slurmrestd. URL and Tokens are needed, the rest has defaults.
type Config struct {
	// URL of slurmrestd: http://host:port, https://host:port or unix:///path/of/socket.
	URL string
	// Fallbacks are the URLs, http or https, of more slurmrestd's of the same Slurm cluster. After
	// a call that got no usable answer, the next one goes to the next of them, and so on in a ring.
	Fallbacks []string
	// Tokens gives the token of each call.
	Tokens TokenSource
	// User to act for, where the token's user is root or SlurmUser.
	User string

	// Version of the data parser, as "v0.0.45". Empty: the newest that both sides know.
	Version string

	// Timeout bounds a call that reads or writes one thing, all its tries together; 8 s by default.
	// While slurmctld is away, slurmrestd itself answers after 10 s.
	Timeout time.Duration
	// ListTimeout bounds a call that reads many things; 60 s by default.
	ListTimeout time.Duration
	// Concurrency is how many calls may be under way at once; 8 by default. Others wait.
	Concurrency int
	// Retries is how often a read is tried again after an answer that says "not now"; 2 by
	// default, negative for never. Writes are not repeated: the first may have taken effect.
	Retries int
	// MaxBody is the longest answer that is read, in bytes; 1 GiB by default.
	MaxBody int64

	// CAFile has the certificates that sign slurmrestd's; the system's by default.
	CAFile string
	// CertFile and KeyFile are the client's certificate. All three files are read for each new connection, so they may be renewed.
	CertFile, KeyFile string

	// Dial connects to slurmrestd in another way than by its address, such as through a tunnel. It isn't used for a unix socket.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Warn receives slurmrestd's warnings, such as a field that it ignored.
	Warn func(op, warning string)
	// Observe is told of each call when it ends: its HTTP method, how long it took with all its tries, and its error.
	Observe func(method string, took time.Duration, err error)
}

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = 8 * time.Second
	}
	if c.ListTimeout == 0 {
		c.ListTimeout = time.Minute
	}
	if c.Concurrency <= 0 {
		c.Concurrency = 8
	}
	if c.Retries == 0 {
		c.Retries = 2
	}
	if c.MaxBody <= 0 {
		c.MaxBody = 1 << 30
	}
	if c.Warn == nil {
		c.Warn = func(string, string) {}
	}
	if c.Observe == nil {
		c.Observe = func(string, time.Duration, error) {}
	}
	return c
}

// dialects are the versions that this package knows, the newest first.
func dialects() []dialect.Dialect {
	return []dialect.Dialect{v0045.Dialect(), v0044.Dialect(), v0043.Dialect()}
}

func dialectOf(version string) (dialect.Dialect, error) {
	var known []string
	for _, d := range dialects() {
		if d.Version == version {
			return d, nil
		}
		known = append(known, d.Version)
	}
	return dialect.Dialect{}, fmt.Errorf("slurmrestd data parser %q is not known here; known are %s", version, strings.Join(known, ", "))
}

// parse reads the URL of a slurmrestd.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("URL of slurmrestd: %w", err)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("URL of slurmrestd: it may have a scheme, a host and a path only")
	}
	return u, nil
}

// endpoints returns the bases of all URLs and how to connect to them.
func (c Config) endpoints() ([]*url.URL, *http.Transport, error) {
	base, transport, err := c.endpoint()
	if err != nil {
		return nil, nil, err
	}
	bases := []*url.URL{base}
	for _, text := range c.Fallbacks {
		u, err := parse(text)
		if err != nil {
			return nil, nil, err
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.HasPrefix(c.URL, "unix:") {
			return nil, nil, fmt.Errorf("slurmrestd %q to fall back to: it and the first need http://host:port or https://host:port", text)
		}
		if u.Scheme == "https" && transport.DialTLSContext == nil {
			if err := c.secure(transport); err != nil {
				return nil, nil, err
			}
		}
		bases = append(bases, u)
	}
	return bases, transport, nil
}

// endpoint returns the base of the first URL and how to connect to it.
func (c Config) endpoint() (*url.URL, *http.Transport, error) {
	u, err := parse(c.URL)
	if err != nil {
		return nil, nil, err
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		DialContext:         dialer.DialContext,
		MaxIdleConnsPerHost: c.Concurrency,
		IdleConnTimeout:     90 * time.Second,
	}
	if c.Dial != nil {
		t.DialContext = c.Dial
	}
	switch {
	case u.Scheme == "unix" && u.Path != "":
		path := u.Path
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
		u = &url.URL{Scheme: "http", Host: "localhost"}
	case u.Scheme == "http" && u.Host != "":
	case u.Scheme == "https" && u.Host != "":
		if err := c.secure(t); err != nil {
			return nil, nil, err
		}
	default:
		return nil, nil, fmt.Errorf("URL of slurmrestd %q: need http://host:port, https://host:port or unix:///path", c.URL)
	}
	return u, t, nil
}
