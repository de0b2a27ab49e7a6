// Package connect joins the bridge's programs to their Slurm and Kubernetes clusters.
package connect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

// Credentials say how the bridge proves to Slurm who it is.
type Credentials struct {
	// KeyFile holds the HS256 key of the Slurm cluster. With it, short tokens for User are made.
	KeyFile string
	User    string
	// TokenFile holds a token, read again when the file changes; Token is one that never changes.
	TokenFile, Token string
}

// CredentialsFrom fills in from the environment what flags left out.
func CredentialsFrom(keyFile, user string, getenv func(string) string) Credentials {
	return Credentials{KeyFile: keyFile, User: user, TokenFile: getenv("SLURM_JWT_FILE"), Token: getenv("SLURM_JWT")}
}

// Observe is told of each call to Slurm when it ends.
type Observe func(method string, took time.Duration, err error)

// Client returns a client of the slurmrestd's in the configuration. observe may be nil.
func Client(c config.Config, as Credentials, observe Observe) (*rest.Client, error) {
	tokens, err := as.tokens()
	if err != nil {
		return nil, err
	}
	return rest.New(rest.Config{
		URL: c.SlurmRestAPI, Fallbacks: c.SlurmRestAPIFallbacks, Tokens: tokens,
		CAFile: c.SlurmTLS.CAFile, CertFile: c.SlurmTLS.CertFile, KeyFile: c.SlurmTLS.KeyFile, Observe: observe,
	})
}

func (c Credentials) tokens() (rest.TokenSource, error) {
	switch {
	case c.KeyFile != "":
		return rest.TokensFromKey(rest.KeyConfig{KeyFile: c.KeyFile, User: c.User})
	case c.TokenFile != "":
		return rest.TokenFile(c.TokenFile), nil
	case c.Token != "":
		return rest.StaticToken(rest.PlainToken(c.Token)), nil
	}
	return nil, errors.New("no way to prove to Slurm who we are: set SLURM_JWT_FILE to the path of a token, " +
		"or --slurm-jwt-key-file to that of the cluster's JWT key")
}

// pollJobs is how often the states of all jobs are read: it bounds how late the
// end of a job, or the start of one that was queued, is seen.
const pollJobs = 500 * time.Millisecond

const (
	// pollIdle is the same on a cluster without jobs. Whoever starts one tells the view.
	pollIdle = 2 * time.Second
	// details is how many waiting jobs are asked for their reason in a period: the load
	// doesn't grow with their number.
	details = 2
)

// View returns a live view of Slurm, which must be run.
func View(client slurm.Client, l logr.Logger) *cache.Cache {
	return cache.New(client, options(l))
}

// LeanView returns a view for who needs no more of jobs than their states, whose they
// are, and whether those of pods that run are to make room.
func LeanView(client slurm.Client, l logr.Logger) *cache.Cache {
	o := options(l)
	o.Details, o.Watch, o.WithoutAllocations = 1, slurm.Job.External, true
	return cache.New(client, o)
}

func options(l logr.Logger) cache.Options {
	return cache.Options{
		Slow: pollJobs, Idle: pollIdle, Details: details,
		OnError: func(err error) { l.Error(err, "Can't read Slurm's state; what is known stays") },
	}
}

// ClusterID returns what tells this Kubernetes cluster from others for ever: the
// UID of its kube-system namespace.
func ClusterID(ctx context.Context, c kubernetes.Interface) (string, error) {
	ns, err := c.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the namespace %s, whose UID identifies the cluster: %w", metav1.NamespaceSystem, err)
	}
	return string(ns.UID), nil
}
