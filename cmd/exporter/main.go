// Command exporter shows a Slurm cluster to Prometheus.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/slinky-hpc/slinky/internal/exporter"
	"github.com/slinky-hpc/slinky/slurm/cache"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "exporter:", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	address, server, keyFile, user string
	period, accounting             time.Duration
	show                           exporter.Options
	external                       external
	log                            zap.Options
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("exporter", flag.ContinueOnError)
	f.StringVar(&o.address, "metrics-bind-address", ":8080", "where /metrics, /healthz and /readyz are served")
	f.StringVar(&o.server, "server", "http://localhost:6820", "URL of slurmrestd")
	f.DurationVar(&o.period, "cache-freq", 5*time.Second, "how often changes are counted; at least 1s")
	f.StringVar(&o.keyFile, "slurm-jwt-key-file", "", "file with the Slurm cluster's JWT key, to make tokens with. Without it SLURM_JWT_FILE names a file with a token, or SLURM_JWT is one")
	f.StringVar(&o.user, "slurm-user", "slurm", "Slurm user that tokens made from the key are for")
	f.BoolVar(&o.show.NoNodes, "no-nodes", false, "leave out the series of each node")
	f.BoolVar(&o.show.NoUsers, "no-users", false, "leave out the series of each user")
	f.BoolVar(&o.show.NoAccounts, "no-accounts", false, "leave out the series of each account")
	f.BoolVar(&o.show.NoReasons, "no-reasons", false, "leave the reason of a node's state out of slurm_node_info")
	f.BoolVar(&o.show.Vpenso, "vpenso-names", false, "add the names of prometheus-slurm-exporter, for dashboards made for that")
	f.DurationVar(&o.accounting, "accounting-freq", time.Minute, "how often shares and limits of accounts and users are read; 0 for never")
	f.IntVar(&o.show.Limit, "max-label-values", 1000, "how many users, accounts, partitions and the like have series of their own; the rest is summed up as _other")
	f.IntVar(&o.show.NodeLimit, "max-nodes", 25000, "how many nodes have series of their own")
	o.external.bind(f)
	o.log.BindFlags(f)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("there are flags only, got the argument %q", f.Arg(0))
	}
	if o.period < time.Second {
		return nil, fmt.Errorf("--cache-freq is %s: give at least 1s", o.period)
	}
	if o.accounting != 0 && o.accounting < time.Second {
		return nil, fmt.Errorf("--accounting-freq is %s: give at least 1s, or 0 for never", o.accounting)
	}
	if o.show.Limit < 1 || o.show.NodeLimit < 1 {
		return nil, errors.New("--max-label-values and --max-nodes must be at least 1: leave out whole kinds of series with --no-nodes, --no-users and --no-accounts")
	}
	return o, nil
}

func run(ctx context.Context, args []string, getenv func(string) string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	log := zap.New(zap.UseFlagOptions(&o.log))
	tokens, err := o.tokens(getenv)
	if err != nil {
		return err
	}
	client, err := rest.New(rest.Config{URL: o.server, Tokens: tokens})
	if err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	view := cache.New(client, cache.Options{OnError: func(err error) { log.Error(err, "Can't read Slurm's state; what is known stays") }})
	e := exporter.New(exporter.Config{View: view, Slurm: client, Options: o.show, Every: o.period, Accounting: o.accounting, Keep: o.external.on, Token: tokens.Token, Now: time.Now, Log: log})
	if err := o.external.check(getenv); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go view.Run(ctx)
	go e.Run(ctx)
	if !o.external.on {
		return serve(ctx, "--metrics-bind-address", o.address, &http.Server{Handler: handler(e)}, log)
	}
	// Neither goes on without the other.
	ended := make(chan error, 2)
	go func() {
		ended <- serve(ctx, "--metrics-bind-address", o.address, &http.Server{Handler: handler(e)}, log)
	}()
	go func() { ended <- o.external.serve(ctx, e, log) }()
	err = <-ended
	stop()
	return errors.Join(err, <-ended)
}

func (o *options) tokens(getenv func(string) string) (rest.TokenSource, error) {
	switch {
	case o.keyFile != "":
		return rest.TokensFromKey(rest.KeyConfig{KeyFile: o.keyFile, User: o.user})
	case getenv("SLURM_JWT_FILE") != "":
		return rest.TokenFile(getenv("SLURM_JWT_FILE")), nil
	case getenv("SLURM_JWT") != "":
		return rest.StaticToken(getenv("SLURM_JWT")), nil
	}
	return nil, errors.New("no way to prove to Slurm who we are: set SLURM_JWT_FILE to the path of a token, SLURM_JWT to one, " +
		"or --slurm-jwt-key-file to the path of the cluster's JWT key")
}

func handler(e *exporter.Exporter) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", e)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := e.Ready(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return mux
}

// goodbye is how long scrapes under way may take to end.
const goodbye = 5 * time.Second

func serve(ctx context.Context, flag, address string, server *http.Server, log logr.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	log.Info("Serving", "address", listener.Addr().String(), "by", flag)
	server.ReadHeaderTimeout = 10 * time.Second
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	})
	defer stop()
	if server.TLSConfig != nil {
		listener = tls.NewListener(listener, server.TLSConfig)
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
