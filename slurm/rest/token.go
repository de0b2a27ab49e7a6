package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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

// TokenFile is a file that holds a token, such as a mounted Secret. It is read
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
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return "", fmt.Errorf("token file %s is empty", t.file.path)
	}
	return string(b), nil
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
	// Key is the HS256 key. KeyFile is a file with it, read again when it changes. Give one of them.
	Key     []byte
	KeyFile string
	// User is whom the tokens are for; root and SlurmUser may act for others.
	User string
	// Lifetime of a token; 10 minutes by default. A new one is made after two thirds of it.
	Lifetime time.Duration
	// Now is the clock; time.Now by default.
	Now func() time.Time
}

// TokensFromKey returns a source that makes its own short-lived tokens.
func TokensFromKey(c KeyConfig) (TokenSource, error) {
	if (len(c.Key) == 0) == (c.KeyFile == "") {
		return nil, errors.New("tokens from a key: give either Key or KeyFile")
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

func (m *minter) Token(context.Context) (string, error) {
	key := m.config.Key
	if m.config.KeyFile != "" {
		var err error
		if key, err = m.file.read(); err != nil {
			return "", fmt.Errorf("JWT key file: %w", err)
		}
		if len(key) == 0 {
			return "", fmt.Errorf("JWT key file %s is empty", m.config.KeyFile)
		}
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
