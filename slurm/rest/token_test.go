package rest

import (
	"context"
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
	write(" SLURM_JWT=abc\n") // as scontrol prints it
	if got := token(t, s); got != "abc" {
		t.Errorf("of scontrol's line the token is %q", got)
	}
	for _, text := range []string{"\n", "SLURM_JWT=\n"} {
		write(text)
		if got, err := s.Token(t.Context()); err == nil {
			t.Errorf("no error for an empty file, but token %q", got)
		}
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
	secret := func(context.Context) ([]byte, error) { return []byte("k"), nil }
	for name, c := range map[string]KeyConfig{
		"no key": {User: "root"}, "key and function": {User: "root", Key: []byte("k"), ReadKey: secret}, "two keys": {User: "root", Key: []byte("k"), KeyFile: "f"}, "no user": {Key: []byte("k")},
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

// TestRotatedSecret has the bytes of a Secret change, once as a token and once as the key.
func TestRotatedSecret(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	secret := []byte("one")
	var failed error
	minted, err := TokensFromKey(KeyConfig{User: "root", Now: func() time.Time { return now },
		ReadKey: func(context.Context) ([]byte, error) { return secret, failed }})
	if err != nil {
		t.Fatal(err)
	}
	plain := TokenFunc(func(context.Context) (string, error) { return string(secret), failed })
	for name, s := range map[string]TokenSource{"token": plain, "key": minted} {
		copy(secret, "one")
		first := token(t, s)
		if again := token(t, s); again != first {
			t.Errorf("%s: the token changed without a reason", name)
		}
		copy(secret, "two")
		if second := token(t, s); second == first {
			t.Errorf("%s: the old token after the Secret changed", name)
		}
		failed = errors.New("no Secret")
		if _, err := s.Token(t.Context()); !errors.Is(err, failed) {
			t.Errorf("%s: error %v, want that of the Secret", name, err)
		}
		failed, secret = nil, nil
		if _, err := s.Token(t.Context()); err == nil {
			t.Errorf("%s: no error for an empty Secret", name)
		}
		secret = []byte("one")
	}
}
