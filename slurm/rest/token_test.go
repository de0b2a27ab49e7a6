package rest

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/slinky-hpc/slinky/slurm"
)

func token(t *testing.T, s TokenSource) string {
	t.Helper()
	text, err := s.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	s := TokenFile(path)
	if _, err := s.Token(t.Context()); err == nil {
		t.Error("no error without the file")
	}
	write := func(text string) {
		t.Helper()
		// A Secret is changed by putting another file in its place.
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"one", "two", "six"} {
		write(text + "\n")
		if got := token(t, s); got != text {
			t.Errorf("token %q, want %q", got, text)
		}
	}
	write("\n")
	if _, err := s.Token(t.Context()); err == nil {
		t.Error("no error for an empty file")
	}
}

func TestTokensFromKey(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s, err := TokensFromKey(KeyConfig{Key: []byte("secret"), User: "root", Lifetime: time.Minute, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	first := token(t, s)
	parsed, err := jwt.Parse(first, func(*jwt.Token) (any, error) { return []byte("secret"), nil },
		jwt.WithValidMethods([]string{"HS256"}), jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil {
		t.Fatal(err)
	}
	claims := parsed.Claims.(jwt.MapClaims)
	if claims["sun"] != "root" || claims["iat"] != 1_000_000.0 || claims["exp"] != 1_000_060.0 {
		t.Errorf("claims %v", claims)
	}
	now = now.Add(39 * time.Second)
	if token(t, s) != first {
		t.Error("a new token before two thirds of the lifetime")
	}
	now = now.Add(time.Second)
	if token(t, s) == first {
		t.Error("the old token after two thirds of the lifetime")
	}
	for name, c := range map[string]KeyConfig{
		"no key": {User: "root"}, "two keys": {User: "root", Key: []byte("k"), KeyFile: "f"}, "no user": {Key: []byte("k")},
		"short": {User: "root", Key: []byte("k"), Lifetime: time.Millisecond},
	} {
		if _, err := TokensFromKey(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRefusedTokenIsRenewedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_000_000, 0)
	source, err := TokensFromKey(KeyConfig{KeyFile: path, User: "root", Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		now = now.Add(time.Second) // so that a token made anew is another one
		if calls == 1 {
			answerJSON(w, 511, `{"errors":[{"error_number":1007,"error":"Protocol authentication error"}]}`)
			return
		}
		answerJSON(w, 200, noStates)
	}, func(c *Config) { c.Version, c.Tokens = "v0.0.45", source })
	if _, err := c.JobStates(t.Context()); err != nil || calls != 2 {
		t.Errorf("%v after %d calls, want success after 2", err, calls)
	}
	refused := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		w.WriteHeader(http.StatusUnauthorized)
	}, func(c *Config) { c.Version = "v0.0.45" })
	calls = 0
	if _, err := refused.JobStates(t.Context()); !errors.Is(err, slurm.ErrAuth) || calls != 1 {
		t.Errorf("%v after %d calls, want ErrAuth after 1", err, calls)
	}
}
