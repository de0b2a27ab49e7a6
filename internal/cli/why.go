package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/why"
)

// clusterFlags say which clusters a command is about, where it isn't the box.
type clusterFlags struct {
	kubeconfig, context, namespace string
	slurm                          why.Slurmrestd
	tokenFile                      string
}

func (f *clusterFlags) add(c *cobra.Command) {
	set := c.Flags()
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the Kubernetes cluster (default: $KUBECONFIG, else the box, else ~/.kube/config)")
	set.StringVar(&f.context, "context", "", "context of the kubeconfig")
	set.StringVarP(&f.namespace, "namespace", "n", "", "namespace (default: that of the context)")
	set.StringVar(&f.slurm.URL, "slurm-url", "", "URL of slurmrestd (default: the bridge's, through the API server)")
	set.StringVar(&f.tokenFile, "slurm-token-file", "", "file with a token of Slurm (default: $SLURM_JWT, else the bridge's key)")
	set.StringVar(&f.slurm.KeyFile, "slurm-jwt-key-file", "", "file with the Slurm cluster's JWT key, to make a token with")
	set.StringVar(&f.slurm.User, "slurm-user", "", "the Slurm user that tokens made from a key are for (default slurm)")
}

// kube returns the Kubernetes cluster and the namespace to look in; nil where only Slurm is named and no cluster is known.
func (s *settings) kube(f *clusterFlags) (*restclient.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	if f.kubeconfig == "" && s.env("KUBECONFIG") == "" {
		if b, err := s.box(); err == nil {
			if _, err := os.Stat(b.Kubeconfig()); err == nil {
				rules.ExplicitPath = b.Kubeconfig()
			}
		}
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		if f.slurm.URL != "" {
			return nil, "", nil
		}
		return nil, "", fmt.Errorf("there is no box and no kubeconfig: start a box (slinky up), or name a cluster with --kubeconfig or --slurm-url")
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

func (s *settings) env(name string) string {
	for _, e := range s.environ {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

func (s *settings) why() *cobra.Command {
	var f clusterFlags
	var output string
	c := &cobra.Command{
		Use: "why POD|JOB", GroupID: "use", Args: cobra.ExactArgs(1),
		Short: "Explain why a pod or a Slurm job waits, where it is, or how it ended",
		Long: "Explain why a pod or a Slurm job waits, where it is, or how it ended: what blocks it, its place in the queue,\n" +
			"when Slurm expects to start it, and what to do.\n\n" +
			"A number is a Slurm job. A name is a pod, or a Job or group with pods; pod/NAME, job/NAME and podgroup/NAME say which.",
		Example: "  slinky why train-0\n  slinky why job/train -n ml\n  slinky why 4711 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			if output != "" && output != "text" && output != "json" {
				return fmt.Errorf("--output is %q: it can be text or json", output)
			}
			facts, err := s.find(c, &f, args[0])
			if err != nil {
				return err
			}
			answer := explain.Why(facts)
			if output != "json" {
				_, err = fmt.Fprint(c.OutOrStdout(), answer.Text())
				return err
			}
			e := json.NewEncoder(c.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(answer)
		},
	}
	f.add(c)
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}

func (s *settings) find(c *cobra.Command, f *clusterFlags, target string) (explain.Facts, error) {
	config, namespace, err := s.kube(f)
	if err != nil {
		return explain.Facts{}, err
	}
	f.slurm.Token = s.env("SLURM_JWT")
	if f.tokenFile != "" {
		text, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return explain.Facts{}, fmt.Errorf("token for Slurm: %w", err)
		}
		f.slurm.Token = string(text)
	}
	sources := why.Sources{Namespace: namespace, Now: time.Now()}
	if err := why.Connect(c.Context(), config, f.slurm, &sources); err != nil {
		return explain.Facts{}, err
	}
	return sources.Find(c.Context(), target)
}
