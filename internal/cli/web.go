package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	restclient "k8s.io/client-go/rest"

	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/internal/web"
)

// still is a snapshot that is shown as a page.
type still struct{ facts view.Facts }

func (s still) Facts() view.Facts { return s.facts }

func (s *settings) web() *cobra.Command {
	var listen, file string
	var inside bool
	c := &cobra.Command{
		Use: "web", GroupID: "see", Args: exactly(0, ""),
		Short: "Show both worlds as a live page in a browser, to look at alone",
		Long: "Show both worlds as a live page: the queue, the nodes with who runs where core by core, what is wrong.\n" +
			"The address that it prints works once, in one browser of this machine. In a pod, with --in-cluster, whoever\n" +
			"has a token of the cluster that may list pods and nodes may look.",
		Example: "  slinky web\n  slinky web --snapshot monday.slinky",
	}
	f := s.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		server := &web.Server{}
		var sources worlds.Sources
		var err error
		if file == "" || inside { // in a pod the cluster is also asked about tokens
			if sources, err = s.webSources(c.Context(), f, inside); err != nil {
				return err
			}
		}
		if inside {
			server.Guard = &web.Reviews{Kube: sources.Kube}
		}
		if file != "" {
			facts, err := loadFile(file)
			if err != nil {
				return err
			}
			server.Source = still{facts}
		} else {
			live := worlds.NewLive(sources)
			ctx, stop := context.WithCancel(c.Context())
			defer stop()
			go live.Run(ctx)
			server.Source = live
		}
		query := ""
		if server.Guard == nil {
			once := web.NewOnce()
			server.Guard, query = once, "?token="+once.Token()
		}
		return serve(c, listen, query, server.Handler())
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to serve at (default: a free port of this machine alone)")
	c.Flags().BoolVar(&inside, "in-cluster", false, "run as a pod: reach the cluster's services directly, and ask for the cluster's own tokens")
	c.Flags().StringVar(&f.slurm.Config, "bridge-config", "", "the bridge's configuration file, mounted in a pod (default: its ConfigMap)")
	c.Flags().StringVar(&file, "snapshot", "", "show a snapshot in place of a cluster")
	return c
}

func (s *settings) webSources(ctx context.Context, f *clusterFlags, inside bool) (worlds.Sources, error) {
	if !inside {
		sources, namespace, err := s.sources(ctx, f)
		sources.Namespace = namespace
		return sources, err
	}
	config, err := restclient.InClusterConfig()
	if err != nil {
		return worlds.Sources{}, fmt.Errorf("--in-cluster is for a pod: %w", err)
	}
	f.slurm.Inside = true
	if f.slurm.TokenFile == "" {
		f.slurm.TokenFile = s.env("SLURM_JWT_FILE")
	}
	f.slurm.Token = s.env("SLURM_JWT")
	if f.slurm.TokenFile != "" {
		f.slurm.Token = ""
	}
	var sources worlds.Sources
	err = worlds.Connect(ctx, config, f.slurm, &sources)
	return sources, err
}

func serve(c *cobra.Command, listen, query string, handler http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(c.Context(), "tcp", listen)
	if err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	if host, ok := l.Addr().(*net.TCPAddr); query != "" && ok && !host.IP.IsLoopback() {
		_ = l.Close()
		return usage("--listen is %q: without --in-cluster the page is for this machine alone, as in 127.0.0.1:8080", listen)
	}
	fmt.Fprintf(c.OutOrStdout(), "http://%s/%s\n", l.Addr(), query)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(c.Context(), func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}
