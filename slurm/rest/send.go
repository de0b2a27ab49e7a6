package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

// answer is what came back, whole.
type answer struct {
	status int
	json   bool
	body   []byte
}

// backoff is the pause before a read is tried again, with jitter so that many
// clients don't come back together.
func backoff(try int) time.Duration {
	d := 100 * time.Millisecond << min(try, 5)
	return d/2 + rand.N(d)
}

// send makes one HTTP request, and a second one where Slurm refused the token
// and there is another.
func (c *Client) send(ctx context.Context, op call, d dialect.Dialect, content any) (answer, error) {
	var body []byte
	if content != nil {
		var err error
		if body, err = json.Marshal(content); err != nil {
			return answer{}, &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, Err: err}
		}
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return answer{}, unavailable(op, fmt.Errorf("waiting for one of %d connections: %w", cap(c.slots), context.Cause(ctx)))
	}
	token, err := c.token(ctx, op)
	if err != nil {
		return answer{}, err
	}
	a, err := c.roundTrip(ctx, op, d, body, token)
	if err != nil || a.status != http.StatusUnauthorized && a.status != 511 {
		return a, err
	}
	renewer, ok := c.config.Tokens.(Renewer)
	if !ok {
		return a, nil
	}
	renewer.Renew()
	fresh, err := c.token(ctx, op)
	if err != nil || fresh == token {
		return a, err
	}
	return c.roundTrip(ctx, op, d, body, fresh)
}

func (c *Client) token(ctx context.Context, op call) (string, error) {
	token, err := c.config.Tokens.Token(ctx)
	switch {
	case err != nil:
		return "", &slurm.Error{Kind: slurm.ErrAuth, Op: op.name, Err: err}
	case strings.ContainsAny(token, "\r\n"):
		return "", &slurm.Error{Kind: slurm.ErrAuth, Op: op.name, Text: "the token has a line break"}
	}
	return token, nil
}

func unavailable(op call, err error) *slurm.Error {
	return &slurm.Error{Kind: slurm.ErrUnavailable, Op: op.name, Err: err}
}

func (c *Client) roundTrip(ctx context.Context, op call, d dialect.Dialect, body []byte, token string) (answer, error) {
	u := *c.base()
	u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + "/" + cmp.Or(op.plugin, "slurm") + "/" + d.Version + "/" + op.path
	u.Path = u.RawPath // op.path holds plain names only, see plainName
	// slurmrestd takes a switch for one only if no "=" follows.
	u.RawQuery = strings.TrimSuffix(strings.ReplaceAll(op.query.Encode(), "=&", "&"), "=")
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, op.method, u.String(), reader)
	if err != nil {
		return answer{}, &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, Err: err}
	}
	req.Header.Set("X-SLURM-USER-TOKEN", token)
	if c.config.User != "" {
		req.Header.Set("X-SLURM-USER-NAME", c.config.User)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return answer{}, unavailable(op, err)
	}
	defer res.Body.Close()
	data, err := readBody(io.LimitReader(res.Body, c.config.MaxBody+1), res.ContentLength)
	if err != nil {
		return answer{}, unavailable(op, fmt.Errorf("read the answer: %w", err))
	}
	if int64(len(data)) > c.config.MaxBody {
		return answer{}, unavailable(op, fmt.Errorf("the answer is longer than the limit of %d bytes", c.config.MaxBody))
	}
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return answer{status: res.StatusCode, json: strings.EqualFold(strings.TrimSpace(kind), "application/json"), body: data}, nil
}

// readBody reads r to its end, without growing and copying where the length is announced and not absurd.
func readBody(r io.Reader, length int64) ([]byte, error) {
	var b bytes.Buffer
	if length > 0 && length < 64<<20 {
		b.Grow(int(length) + bytes.MinRead)
	}
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}
