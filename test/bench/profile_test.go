package bench

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// profiles is the environment variable that names a folder for profiles of the bridge's scheduler.
const profiles = "SLINKY_BENCH_PROFILES"

// profilerFlags returns the scheduler's flags for profiles, or for none.
func (w *world) profilerFlags(t *testing.T) []string {
	t.Helper()
	w.profilerPort = 0
	if os.Getenv(profiles) == "" {
		return []string{"--secure-port=0"}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.profilerPort = l.Addr().(*net.TCPAddr).Port
	l.Close()
	return []string{fmt.Sprintf("--secure-port=%d", w.profilerPort), "--bind-address=127.0.0.1", "--authorization-always-allow-paths=/debug/pprof/*"}
}

// takeProfile takes a processor profile of the next seconds. The function that it returns waits for it.
func (w *world) takeProfile(t *testing.T, name string, seconds int) (wait func()) {
	t.Helper()
	if w.profilerPort == 0 {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		client := &http.Client{Timeout: time.Duration(seconds+30) * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		res, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/debug/pprof/profile?seconds=%d", w.profilerPort, seconds))
		if err != nil {
			t.Errorf("profile: %v", err)
			return
		}
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", res.Status, data)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Getenv(profiles), name+".pprof"), data, 0o644)
		}
		if err != nil {
			t.Errorf("profile: %v", err)
		}
	}()
	return func() { <-done }
}
