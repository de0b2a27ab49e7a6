package exporter

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// discard takes an answer as a connection does, without keeping it.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}
func (d *discard) Write(p []byte) (int, error) {
	d.bytes += len(p)
	return len(p), nil
}

// BenchmarkScrape answers scrapes of 20,000 nodes and 100,000 jobs. It must take less than 200 ms.
func BenchmarkScrape(b *testing.B) {
	v := &view{facts: large(20_000, 100_000)}
	e := New(Config{View: v, Slurm: parts{}, Now: time.Now, Log: logr.Discard()})
	e.count()
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil)
	size := 0
	for b.Loop() {
		w := &discard{header: http.Header{}}
		e.ServeHTTP(w, r)
		size = w.bytes
	}
	if size < 1<<20 {
		b.Fatalf("the page has %d bytes", size)
	}
	if each := b.Elapsed() / time.Duration(b.N); each > 200*time.Millisecond {
		b.Errorf("a scrape takes %s", each)
	}
	b.ReportMetric(float64(size)/(1<<20), "MiB")
}
