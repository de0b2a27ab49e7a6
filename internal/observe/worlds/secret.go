package worlds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/slurm/rest"
)

// secretHolds is how long one reading of a Secret holds, unless Slurm refuses what it says.
const secretHolds = time.Minute

var errNoKey = errors.New("the Secret has no such key")

// secretReader reads one key of a Secret, again each minute and when Slurm refuses it, so
// that a token that somebody replaces is taken without a restart.
type secretReader struct {
	kube      kubernetes.Interface
	namespace string
	at        secretKey

	mu   sync.Mutex
	text []byte
	was  time.Time
}

// read returns the bytes of the key. What was read last holds on while the API server is away.
func (s *secretReader) read(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.text) > 0 && time.Since(s.was) < secretHolds {
		return s.text, nil
	}
	text, err := s.ask(ctx)
	switch {
	case err == nil:
		s.text, s.was = text, time.Now()
	case len(s.text) == 0 || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || errors.Is(err, errNoKey):
		return nil, err
	}
	return s.text, nil
}

func (s *secretReader) ask(ctx context.Context) ([]byte, error) {
	secret, err := s.kube.CoreV1().Secrets(s.namespace).Get(ctx, s.at.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Secret %s/%s: %w", s.namespace, s.at.name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", s.namespace, s.at.name, err)
	}
	text := secret.Data[s.at.key]
	if !s.at.makes {
		text = []byte(rest.PlainToken(string(text)))
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, fmt.Errorf("Secret %s/%s has no key %s: %w", s.namespace, s.at.name, s.at.key, errNoKey)
	}
	return text, nil
}

// tokens returns the tokens that the key is, or that are made with it for a user.
func (s *secretReader) tokens(user string) (rest.TokenSource, error) {
	if !s.at.makes {
		return secretToken{s}, nil
	}
	made, err := rest.TokensFromKey(rest.KeyConfig{ReadKey: s.read, User: user})
	if err != nil {
		return nil, err
	}
	return madeTokens{made, s}, nil
}

// Renew has the Secret read again at the next call: Slurm has refused what it said.
func (s *secretReader) Renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.was = time.Time{}
}

// secretToken is a Secret with a token.
type secretToken struct{ *secretReader }

func (s secretToken) Token(ctx context.Context) (string, error) {
	text, err := s.read(ctx)
	return string(text), err
}

// madeTokens are made with a key of a Secret.
type madeTokens struct {
	rest.TokenSource
	secret *secretReader
}

func (m madeTokens) Renew() {
	m.secret.Renew()
	if r, ok := m.TokenSource.(rest.Renewer); ok {
		r.Renew()
	}
}
