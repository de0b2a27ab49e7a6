package prom

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// server is a running Prometheus.
type server struct {
	t   *testing.T
	url string
}

// startPrometheus scrapes the targets each second, and evaluates the chart's rules.
func startPrometheus(t *testing.T, targets map[string]string) server {
	t.Helper()
	binary := program(t, "prometheus")
	dir := t.TempDir()
	rulesFile, err := filepath.Abs(filepath.Join(chartFiles, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n", rulesFile)
	for job, target := range targets {
		fmt.Fprintf(&config, "  - {job_name: %s, static_configs: [{targets: [%q]}]}\n", job, strings.TrimPrefix(target, "http://"))
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	address := free(t)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s", text[max(0, len(text)-3000):])
		}
		_ = log.Close()
	})
	s := server{t, "http://" + address}
	s.until("Prometheus scrapes all", func(ctx context.Context) error {
		got, err := s.query(ctx, "count(up == 1)")
		if err == nil && (len(got) != 1 || got[0].Value != float64(len(targets))) {
			err = fmt.Errorf("%v of %d targets are up", got, len(targets))
		}
		return err
	})
	return s
}

func free(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// sample is one of a query's answer.
type sample struct {
	Labels map[string]string
	Value  float64
}

func (s server) get(ctx context.Context, path string, query url.Values, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req) //nolint:forbidigo // the context has a deadline
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return fmt.Errorf("GET %s: %s: %w", path, res.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", query.Get("query"), answer.Error)
	}
	return json.Unmarshal(answer.Data, out)
}

// query asks for what an expression is now.
func (s server) query(ctx context.Context, expr string) ([]sample, error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := s.get(ctx, "/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	var out []sample
	for _, r := range data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expr, err)
		}
		out = append(out, sample{r.Metric, v})
	}
	return out, nil
}

// patience is how long something may take on a busy machine.
const patience = 2 * time.Minute

// until waits until a check passes.
func (s server) until(what string, check func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("%s: not within %s: %v", what, patience, err)
		case <-again.C:
		}
	}
}
