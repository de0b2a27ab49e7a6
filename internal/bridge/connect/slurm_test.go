package connect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
)

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	env := map[string]string{"SLURM_JWT_FILE": path, "SLURM_JWT": "other"}
	tokens, err := CredentialsFrom("", "slurm", func(k string) string { return env[k] }).tokens()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Token(t.Context()); err == nil {
		t.Error("a file that isn't there gives a token")
	}
	for text, want := range map[string]string{"abc": "abc", " SLURM_JWT=abc\n": "abc"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := tokens.Token(t.Context()); err != nil || got != want {
			t.Errorf("file %q gives %q, %v", text, got, err)
		}
	}
	if err := os.WriteFile(path, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty file: %v", err)
	}
}

func TestNoCredentials(t *testing.T) {
	_, err := Client(config.Config{SlurmRestAPI: "http://x"}, CredentialsFrom("", "slurm", func(string) string { return "" }), nil)
	if err == nil || !strings.Contains(err.Error(), "SLURM_JWT_FILE") {
		t.Errorf("error %v doesn't say what to set", err)
	}
}
