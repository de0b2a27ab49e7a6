package rest

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/slinky-hpc/slinky/slurm"
)

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, 200, noStates) }))
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]error{ca: nil, "": slurm.ErrUnavailable} {
		c, err := New(Config{URL: s.URL, Tokens: StaticToken("t"), Version: "v0.0.45", CAFile: file, Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.JobStates(t.Context()); !errors.Is(err, want) {
			t.Errorf("with CA file %q: %v, want %v", file, err, want)
		}
	}
}
