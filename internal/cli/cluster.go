package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// clusterFlags say which clusters a command is about, where it isn't the box.
type clusterFlags struct {
	kubeconfig, context, namespace string
	slurm                          worlds.Slurmrestd
	// file is a snapshot to look at in place of a cluster.
	file string
}

func (f *clusterFlags) add(c *cobra.Command) {
	set := c.Flags()
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the Kubernetes cluster (default: $KUBECONFIG, else the box, else ~/.kube/config)")
	set.StringVar(&f.context, "context", "", "context of the kubeconfig")
	set.StringVarP(&f.namespace, "namespace", "n", "", "namespace (default: that of the context)")
	set.StringVar(&f.slurm.URL, "slurm-url", "", "URL of slurmrestd (default: the bridge's or the operator's, through the API server)")
	set.StringVar(&f.slurm.TokenFile, "slurm-token-file", "", "file with a token of Slurm (default: $SLURM_JWT, else the cluster's key)")
	set.StringVar(&f.slurm.KeyFile, "slurm-jwt-key-file", "", "file with the Slurm cluster's JWT key, to make a token with")
	set.StringVar(&f.slurm.User, "slurm-user", "", "the Slurm user that tokens made from a key are for (default slurm)")
	for _, name := range []string{"context", "namespace", "slurm-url", "slurm-user"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// kube returns the Kubernetes cluster and the namespace to look in; nil where only Slurm is named and no cluster is known.
func (s *settings) kube(f *clusterFlags) (*restclient.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	if f.kubeconfig == "" && !s.plugin && (s.env("KUBECONFIG") == "" || s.named) {
		if b, err := s.box(); err == nil {
			if _, err := os.Stat(b.Kubeconfig()); err == nil {
				rules.ExplicitPath = b.Kubeconfig()
			} else if s.named {
				return nil, "", coded{ExitNotFound, fmt.Errorf("there is no box %q: start it with: slinky up --name %s", s.name, s.name)}
			}
		}
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		if f.slurm.URL != "" {
			return nil, "", nil
		}
		return nil, "", errors.New("there is no box and no kubeconfig: start a box (slinky up), or name a cluster with --kubeconfig or --slurm-url")
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if f.namespace != "" {
		namespace = f.namespace
	}
	return config, namespace, err
}

// sources returns the clusters to ask, and the namespace that is meant.
func (s *settings) sources(ctx context.Context, f *clusterFlags) (worlds.Sources, string, error) {
	var sources worlds.Sources
	config, namespace, err := s.kube(f)
	if err != nil {
		return sources, "", err
	}
	f.slurm.Token = s.env("SLURM_JWT")
	if f.slurm.TokenFile != "" {
		if _, err := os.Stat(f.slurm.TokenFile); err != nil {
			return sources, "", fmt.Errorf("token for Slurm: %w", err)
		}
		f.slurm.Token = ""
	}
	return sources, namespace, worlds.Connect(ctx, config, f.slurm, &sources)
}

// look returns both worlds as they are now, or as they are in the snapshot that is replayed,
// and the namespace that is meant.
func (s *settings) look(ctx context.Context, f *clusterFlags, w worlds.Want) (*view.Model, string, error) {
	if f.file != "" {
		facts, err := loadFile(f.file)
		if err != nil {
			return nil, "", err
		}
		namespace := f.namespace
		if namespace == "" {
			namespace = "default"
		}
		return view.New(facts), namespace, nil
	}
	sources, namespace, err := s.sources(ctx, f)
	if err != nil {
		return nil, "", err
	}
	w.Namespace, w.Fallback = f.namespace, namespace
	return view.New(sources.Read(ctx, w)), namespace, nil
}

func loadFile(path string) (view.Facts, error) {
	file, err := os.Open(path)
	if err != nil {
		return view.Facts{}, coded{ExitNotFound, fmt.Errorf("replay: %w", err)}
	}
	defer file.Close()
	facts, err := worlds.Load(file)
	if err != nil {
		return view.Facts{}, fmt.Errorf("replay %s: %w", path, err)
	}
	return facts, nil
}

// partial is the error for an answer that one world has no part in, nil if both have theirs.
func partial(m *view.Model) error {
	switch k, s := m.Kubernetes, m.Slurm; {
	case !k.Known && !k.Absent:
		return coded{ExitPartial, fmt.Errorf("Kubernetes couldn't be asked, so this is without it: %s", k.Error)}
	case !s.Known && !s.Absent:
		return coded{ExitPartial, fmt.Errorf("Slurm couldn't be asked, so this is without it: %s", s.Error)}
	}
	for _, p := range append(slices.Clone(m.Kubernetes.Missing), m.Slurm.Missing...) {
		if !p.Forbidden {
			return coded{ExitPartial, fmt.Errorf("the %s couldn't be read, so this is without them: %s", p.What, p.Error)}
		}
	}
	return nil
}

// ago is a moment for people.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return explain.Span(now.Sub(t))
}
