package measure

import (
	"encoding/json"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"
)

// StatsPath is where a Proxy answers with what it counted.
const StatsPath = "/__stats"

// Calls counts calls of one kind.
type Calls struct {
	N     int64
	Bytes int64
	Ms    float64
	MaxMs float64
	Codes map[int]int64
}

// Proxy passes calls on to slurmrestd and counts them by method and path.
type Proxy struct {
	reverse *httputil.ReverseProxy

	mu    sync.Mutex
	calls map[string]*Calls
}

// NewProxy returns a proxy for a slurmrestd.
func NewProxy(target *url.URL) *Proxy {
	return &Proxy{
		reverse: &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: &http.Transport{MaxIdleConnsPerHost: 64},
		},
		calls: map[string]*Calls{},
	}
}

// Counted returns what was counted so far.
func (p *Proxy) Counted() map[string]Calls {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]Calls, len(p.calls))
	for kind, c := range p.calls {
		out[kind] = *c
	}
	return out
}

// ServeHTTP passes a call on, or answers StatsPath.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == StatsPath {
		p.mu.Lock()
		defer p.mu.Unlock()
		// Whoever asked may have gone.
		_ = json.NewEncoder(w).Encode(p.calls)
		return
	}
	start := time.Now()
	kind := kindOf(r)
	counter := &countingWriter{ResponseWriter: w, code: http.StatusOK}
	p.reverse.ServeHTTP(counter, r)
	took := float64(time.Since(start).Microseconds()) / 1000
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[kind]
	if c == nil {
		c = &Calls{Codes: map[int]int64{}}
		p.calls[kind] = c
	}
	c.N++
	c.Bytes += counter.n
	c.Ms += took
	c.MaxMs = max(c.MaxMs, took)
	c.Codes[counter.code]++
}

var numbers = regexp.MustCompile(`/(\d+)(/|$)`)

// kindOf names a call without what differs from one object to the next.
func kindOf(r *http.Request) string {
	p := numbers.ReplaceAllString(r.URL.Path, "/N$2")
	if rest, ok := strings.CutPrefix(p, "/slurm/"); ok {
		if _, rest, ok = strings.Cut(rest, "/"); ok {
			p = "/" + rest
		}
	}
	if dir, _ := path.Split(p); dir == "/node/" {
		p = "/node/X"
	}
	if r.URL.RawQuery != "" {
		p += "?..."
	}
	return r.Method + " " + p
}

type countingWriter struct {
	http.ResponseWriter
	n    int64
	code int
}

func (w *countingWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

func (w *countingWriter) Write(b []byte) (int, error) {
	w.n += int64(len(b))
	return w.ResponseWriter.Write(b)
}
