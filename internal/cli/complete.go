package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// completionPatience is how long a shell is kept waiting for names.
const completionPatience = 3 * time.Second

// completions reads the cluster for a shell that asks for names; nil where there is no answer in time.
func (s *settings) completions(c *cobra.Command) *view.Model {
	ctx, cancel := context.WithTimeout(c.Context(), completionPatience)
	defer cancel()
	f := &clusterFlags{file: s.file}
	for name, to := range map[string]*string{"kubeconfig": &f.kubeconfig, "context": &f.context, "namespace": &f.namespace} {
		if flag := c.Flags().Lookup(name); flag != nil {
			*to = flag.Value.String()
		}
	}
	s.named = c.Flags().Changed("name")
	m, _, err := s.look(ctx, f, worlds.Want{})
	if err != nil {
		return nil
	}
	return m
}

func (s *settings) completeNodes(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if m := s.completions(c); m != nil && len(args) == 0 {
		seen := map[string]bool{"": true}
		for _, n := range m.Nodes() {
			for _, name := range []string{n.Name, n.Kubernetes} {
				if !seen[name] {
					seen[name] = true
					out = append(out, name)
				}
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (s *settings) completeTargets(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if m := s.completions(c); m != nil && len(args) == 0 {
		for _, i := range m.Queue(false) {
			out = append(out, cobra.CompletionWithDesc(i.Target(), i.Name+", "+string(i.State)))
		}
		for _, n := range m.Nodes() {
			out = append(out, cobra.CompletionWithDesc("node/"+n.Name, string(n.Health)))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
