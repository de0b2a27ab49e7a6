package measure

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Watched is what a Meter reads at the beginning and at the end.
type Watched struct {
	// Processes are names of processes, with the id of each or "@" and a file that has it.
	Processes map[string]string
	// Proxy is the URL of a Proxy, "" for none.
	Proxy string
	// Metrics are URLs with rest_client_requests_total, by the name of the client.
	Metrics map[string]string
	// Kube is the API server, nil for none.
	Kube *Kube
	// Complain hears of what can't be read.
	Complain func(error)
}

// Meter measures what something costs.
type Meter struct {
	w      Watched
	pids   map[string]int
	before reading
}

type reading struct {
	at   time.Time
	cpu  map[string]float64
	host float64
	rest map[string]Calls
	api  map[string]float64
	cli  map[string]float64
}

// Start begins to measure.
func Start(ctx context.Context, w Watched) *Meter {
	m := &Meter{w: w, pids: map[string]int{}}
	for name, id := range w.Processes {
		if file, ok := strings.CutPrefix(id, "@"); ok {
			text, err := os.ReadFile(file)
			if err != nil {
				w.Complain(fmt.Errorf("process %s: %w", name, err))
				continue
			}
			id = strings.TrimSpace(string(text))
		}
		pid, err := strconv.Atoi(id)
		if err != nil {
			w.Complain(fmt.Errorf("process %s: %q is no process id", name, id))
			continue
		}
		m.pids[name] = pid
	}
	m.before = m.read(ctx)
	return m
}

func (m *Meter) read(ctx context.Context) reading {
	r := reading{cpu: map[string]float64{}, cli: map[string]float64{}}
	if m.w.Proxy != "" {
		if err := get(ctx, &http.Client{Timeout: 10 * time.Second}, m.w.Proxy+StatsPath, func(text []byte) error {
			return json.Unmarshal(text, &r.rest)
		}); err != nil {
			m.w.Complain(fmt.Errorf("the proxy: %w", err))
		}
	}
	if m.w.Kube != nil {
		var err error
		if r.api, err = m.w.Kube.APIRequests(ctx); err != nil {
			m.w.Complain(fmt.Errorf("metrics of the API server: %w", err))
		}
		for name, url := range m.w.Metrics {
			if err := get(ctx, metricsClient(m.w.Kube.Config), url, func(text []byte) error {
				for method, n := range SumMetric(text, "rest_client_requests_total", "method") {
					r.cli[name+" "+method] = n
				}
				return nil
			}); err != nil {
				m.w.Complain(fmt.Errorf("metrics of %s: %w", name, err))
			}
		}
	}
	for name, pid := range m.pids {
		r.cpu[name] = ProcessCPU(pid)
	}
	r.host, r.at = HostCPU(), time.Now()
	return r
}

// metricsClient shows the administrator's certificate and takes any: daemons sign their own.
func metricsClient(c *rest.Config) *http.Client {
	t := &tls.Config{InsecureSkipVerify: true}
	if cert, err := tls.X509KeyPair(c.CertData, c.KeyData); err == nil {
		t.Certificates = []tls.Certificate{cert}
	}
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: t}}
}

func get(ctx context.Context, client *http.Client, url string, use func([]byte) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	return use(text)
}

// Stop ends the measurement, prints it to out and returns it for JSON.
func (m *Meter) Stop(ctx context.Context, out io.Writer) map[string]any {
	now := m.read(ctx)
	took := now.at.Sub(m.before.at).Seconds()
	host := now.host - m.before.host
	p := printer{out}
	p.printf("measured %.1f s; host CPU %.1f s (%.0f%% of one core)\n", took, host, 100*host/took)
	res := map[string]any{"seconds": took, "host_cpu_s": host, "procs": m.processes(p, now, took)}
	if now.rest != nil {
		maps.Copy(res, m.slurm(p, now, took))
	}
	if now.api != nil {
		res["api"] = p.counters("API server requests, all clients, no watches", Since(m.before.api, now.api), took)
	}
	if len(now.cli) > 0 {
		res["client_api"] = p.counters("API requests by client", Since(m.before.cli, now.cli), took)
	}
	return res
}

func (m *Meter) processes(p printer, now reading, took float64) map[string]any {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(m.pids)) {
		rss, peak := ProcessMemory(m.pids[name])
		used := now.cpu[name] - m.before.cpu[name]
		p.printf("  %-14s CPU %7.2f s (%5.1f%%)  RSS %4d MiB (peak %d)\n", name, used, 100*used/took, rss, peak)
		out[name] = map[string]any{"cpu_s": used, "rss_mib": rss, "peak_mib": peak}
	}
	return out
}

func (m *Meter) slurm(p printer, now reading, took float64) map[string]any {
	kinds := map[string]Calls{}
	numbers := map[string]int64{}
	var n, size int64
	for kind, c := range now.rest {
		before := m.before.rest[kind]
		c.N, c.Bytes, c.Ms = c.N-before.N, c.Bytes-before.Bytes, c.Ms-before.Ms
		if c.N > 0 {
			kinds[kind], numbers[kind] = c, c.N
			n, size = n+c.N, size+c.Bytes
		}
	}
	p.printf("  Slurm REST: %d requests (%.1f/s), %.1f MB answered\n", n, float64(n)/took, float64(size)/1e6)
	for _, kind := range byCount(numbers) {
		c := kinds[kind]
		p.printf("    %6d  %-28s mean %.1f ms  %.1f MB\n", c.N, kind, c.Ms/float64(c.N), float64(c.Bytes)/1e6)
	}
	return map[string]any{"rest": n, "rest_per_s": float64(n) / took, "rest_mb": float64(size) / 1e6, "rest_kinds": numbers}
}

// printer prints to a place whose failure nobody could be told of.
type printer struct{ io.Writer }

func (p printer) printf(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }

// shownCounters is how many counters are shown, the largest.
const shownCounters = 14

func (p printer) counters(title string, counted map[string]float64, took float64) float64 {
	var sum float64
	for _, n := range counted {
		sum += n
	}
	p.printf("  %s: %.0f (%.1f/s):", title, sum, sum/took)
	for i, key := range byCount(counted) {
		if i == shownCounters {
			break
		}
		p.printf(" %s=%.0f", strings.ReplaceAll(key, " ", "/"), counted[key])
	}
	p.printf("\n")
	return sum
}

// byCount returns keys, the one with the largest number first.
func byCount[N int64 | float64](counted map[string]N) []string {
	keys := slices.Sorted(maps.Keys(counted))
	slices.SortStableFunc(keys, func(a, b string) int {
		switch {
		case counted[a] > counted[b]:
			return -1
		case counted[a] < counted[b]:
			return 1
		}
		return 0
	})
	return keys
}
