// Package browser looks at the web page in a real Chromium, which it takes from Debian.
package browser

import (
	"context"
	"html"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/internal/box/debian"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/internal/web"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
	"github.com/slinky-hpc/slinky/test/scene"
)

// see opens the page of some facts, through its own guard, and returns what the browser has
// made of it, and what the browser complains of.
func see(t *testing.T, f view.Facts) (dom, log string) {
	t.Helper()
	view.Clean(&f) // as all readers do
	once := web.NewOnce()
	server := httptest.NewServer((&web.Server{Source: scene.Still(f), Guard: once}).Handler())
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=5000", "--dump-dom", server.URL+"/?token="+once.Token())
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, complaints.String())
	}
	return string(out), complaints.String()
}

func needsChromium(t *testing.T) {
	t.Helper()
	if os.Getenv(slurmtest.Variable) != "1" {
		t.Skipf("needs root, to get Chromium from Debian: set %s=1 to run it", slurmtest.Variable)
	}
	if err := debian.EnsureHostPackages(t.Context(), io.Discard, "chromium"); err != nil {
		t.Fatal(err)
	}
}

func TestPage(t *testing.T) {
	needsChromium(t)
	cases := map[string]struct {
		facts      view.Facts
		has, hasNo []string
	}{
		"full": {scene.Full(),
			[]string{"llm/pretrain [4 pods]", "param-scan [88 tasks]", "rack-02", `data-node="gpu-005"`, "drained in Slurm by root: NVLink errors", "124 Slurm jobs, 174 pods", "live"},
			[]string{"can't be asked", `class="stale"`}},
		"empty": {scene.Empty(), []string{"Nothing runs and nothing waits.", `data-node="gpu-001"`, "live"}, []string{"can't be asked", "<tbody id=\"queue\"><tr"}},
		"broken": {scene.Broken(),
			[]string{"Slurm can't be asked, so what it knows is not shown", "it last answered 6 min ago", "no answer", "CrashLoopBackOff", `data-node="gpu-001"`, "llm/pretrain"},
			[]string{"param-scan", "cfd-wing", "124 Slurm jobs", "rack-02"}},
		"very large": {scene.Large(5000, 20000), []string{"20000 lines", "and 19500 more", `data-node="gpu-5000"`, "7500"}, []string{"can't be asked"}},
		"hostile":    {scene.Hostile(), []string{"<script>alert(1)</script>", "·gnp.exe", "onerror=alert(1)"}, []string{"\x1b", "\u202e"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dom, log := see(t, tc.facts)
			// What a text has of HTML is escaped in the page's own source; compare what is read.
			if strings.Contains(dom, "<script>alert") || strings.Contains(dom, "<img") {
				t.Errorf("a text of a user has become a part of the page:\n%s", dom)
			}
			read := html.UnescapeString(dom)
			for _, want := range tc.has {
				if !strings.Contains(read, want) {
					t.Errorf("%q is not on the page", want)
				}
			}
			for _, not := range tc.hasNo {
				if strings.Contains(read, not) {
					t.Errorf("%q is on the page", not)
				}
			}
			if strings.Contains(log, "Content Security Policy") || strings.Contains(log, "Uncaught") {
				t.Errorf("the browser complains:\n%s", log)
			}
			if t.Failed() && len(dom) < 20000 {
				t.Log(dom)
			}
		})
	}
}
