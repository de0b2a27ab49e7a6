package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// TokenSource gives the token for a call. It is asked before each one and must be safe for concurrent use.
type TokenSource interface {
	Token(ctx context.Context) (string, error)
}

// Renewer is a TokenSource that can be told that Slurm refused its token. The
// call is then made once more, if the next token is another one.
type Renewer interface{ Renew() }

// StaticToken is a token that never changes.
type StaticToken string

// Token returns it.
func (t StaticToken) Token(context.Context) (string, error) {
	if t == "" {
		return "", errors.New("the token is empty")
	}
	return string(t), nil
}

// TokenFunc is a TokenSource of the caller's own, such as the current bytes of a Secret.
type TokenFunc func(ctx context.Context) (string, error)

// Token calls f.
func (f TokenFunc) Token(ctx context.Context) (string, error) {
	token, err := f(ctx)
	if err == nil && token == "" {
		err = errors.New("the token is empty")
	}
	return token, err
}

// Renew lets a refused call be made once more, if f's next token is another one.
func (f TokenFunc) Renew() {}

// TokenFile is a file that holds a token, as PlainToken takes it, such as a mounted Secret. It is read
// again whenever it changes.
func TokenFile(path string) TokenSource {
	return &tokenFile{watchedFile{path: path}}
}

type tokenFile struct{ file watchedFile }

func (t *tokenFile) Token(context.Context) (string, error) {
	b, err := t.file.read()
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := PlainToken(string(b))
	if token == "" {
		return "", fmt.Errorf("token file %s is empty", t.file.path)
	}
	return token, nil
}

// PlainToken returns the token in a text: that text, or what follows SLURM_JWT= in the line
// that "scontrol token" prints, without blanks around it.
func PlainToken(text string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "SLURM_JWT="))
}

func (t *tokenFile) Renew() { t.file.forget() }

// watchedFile reads a file again only when its identity, size or time changed.
type watchedFile struct {
	path string

	mu   sync.Mutex
	info fs.FileInfo
	data []byte
}

func (f *watchedFile) read() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if f.info != nil && os.SameFile(f.info, info) && f.info.Size() == info.Size() && f.info.ModTime().Equal(info.ModTime()) {
		return f.data, nil
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return nil, err
	}
	f.info, f.data = info, data
	return data, nil
}

func (f *watchedFile) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.info = nil
}

// KeyConfig configures tokens that are made here, with the key that slurmctld
// checks them by (AuthAltParameters=jwt_key).
type KeyConfig struct {
	// Key is the HS256 key. KeyFile is a file with it, read again when it changes. ReadKey
	// gives it anew for each call, such as from a Secret. Give one of them.
	Key     []byte
	KeyFile string
	ReadKey func(ctx context.Context) ([]byte, error)
	// User is whom the tokens are for; root and SlurmUser may act for others.
	User string
	// Lifetime of a token; 10 minutes by default. A new one is made after two thirds of it.
	Lifetime time.Duration
	// Now is the clock; time.Now by default.
	Now func() time.Time
}

// TokensFromKey returns a source that makes its own short-lived tokens.
func TokensFromKey(c KeyConfig) (TokenSource, error) {
	sources := 0
	for _, given := range []bool{len(c.Key) > 0, c.KeyFile != "", c.ReadKey != nil} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		return nil, errors.New("tokens from a key: give one of Key, KeyFile and ReadKey")
	}
	if c.User == "" {
		return nil, errors.New("tokens from a key: User is empty")
	}
	if c.Lifetime == 0 {
		c.Lifetime = 10 * time.Minute
	}
	if c.Lifetime < time.Second {
		return nil, fmt.Errorf("tokens from a key: a lifetime of %v is too short", c.Lifetime)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &minter{config: c, file: watchedFile{path: c.KeyFile}}, nil
}

type minter struct {
	config KeyConfig
	file   watchedFile

	mu     sync.Mutex
	key    []byte
	token  string
	renews time.Time
}

func (m *minter) readKey(ctx context.Context) ([]byte, error) {
	switch {
	case m.config.KeyFile != "":
		key, err := m.file.read()
		if err != nil {
			return nil, fmt.Errorf("JWT key file: %w", err)
		}
		if len(key) == 0 {
			return nil, fmt.Errorf("JWT key file %s is empty", m.config.KeyFile)
		}
		return key, nil
	case m.config.ReadKey != nil:
		key, err := m.config.ReadKey(ctx)
		if err == nil && len(key) == 0 {
			err = errors.New("it is empty")
		}
		if err != nil {
			return nil, fmt.Errorf("JWT key: %w", err)
		}
		return bytes.Clone(key), nil // its owner may change it; we compare with it later
	}
	return m.config.Key, nil
}

func (m *minter) Token(ctx context.Context) (string, error) {
	key, err := m.readKey(ctx)
	if err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.config.Now()
	if m.token != "" && now.Before(m.renews) && bytes.Equal(m.key, key) {
		return m.token, nil
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iat": now.Unix(),
		"exp": now.Add(m.config.Lifetime).Unix(),
		"sun": m.config.User,
	}).SignedString(key)
	if err != nil {
		return "", fmt.Errorf("sign a token for %s: %w", m.config.User, err)
	}
	m.key, m.token, m.renews = key, token, now.Add(m.config.Lifetime*2/3)
	return token, nil
}

func (m *minter) Renew() {
	m.file.forget()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.token = ""
}
