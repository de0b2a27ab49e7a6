// Command operator runs Slurm clusters on Kubernetes from custom resources.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/operator"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	healthAddr, metricsAddr string
	leaderElect             bool
	leaderElectNamespace    string
	metricsSecure           bool
	profile                 bool
	profileAddr             string
	enableHTTP2             bool
	namespaces              string
	excludedNamespaces      string
	nodeConditions          string
	imageFolder, imageTag   string
	clusterDomain           string
	workers                 map[string]*int
	log                     zap.Options
}

func parse(args []string) (*options, error) {
	o := &options{workers: map[string]*int{}}
	f := flag.NewFlagSet("operator", flag.ContinueOnError)
	f.StringVar(&o.healthAddr, "health-addr", ":8081", "where /healthz and /readyz are served")
	f.StringVar(&o.metricsAddr, "metrics-addr", "127.0.0.1:8080", "where metrics are served; 0 for nowhere")
	f.BoolVar(&o.metricsSecure, "metrics-secure", false, "serve metrics by HTTPS, to whom Kubernetes lets read /metrics")
	f.BoolVar(&o.enableHTTP2, "enable-http2", false, "serve metrics by HTTP/2, too")
	f.BoolVar(&o.profile, "profile", false, "serve Go's profiles")
	f.StringVar(&o.profileAddr, "profile-addr", "localhost:6060", "where profiles are served")
	f.BoolVar(&o.leaderElect, "leader-elect", false, "let only one of several operators act")
	f.StringVar(&o.leaderElectNamespace, "leader-elect-namespace", "", "namespace of the lease; the operator's own if empty")
	f.StringVar(&o.namespaces, "namespaces", "", "comma list of the namespaces to look at; all if empty")
	f.StringVar(&o.excludedNamespaces, "exclude-namespaces", "", "comma list of namespaces that are left to another operator")
	f.StringVar(&o.nodeConditions, "propagated-node-conditions", "",
		"comma list of types of Kubernetes node conditions, whose reasons and messages Slurm shows for a cordoned node")
	f.StringVar(&o.imageFolder, "image-folder", "ghcr.io/slinky-hpc", "registry and folder of the Slurm images, where a custom resource names none")
	f.StringVar(&o.imageTag, "image-tag", "26.05-debian", "tag of these images")
	f.StringVar(&o.clusterDomain, "cluster-domain", "", "DNS domain of the Kubernetes cluster; read from /etc/resolv.conf if empty")
	for _, kind := range []string{
		v1beta1.KindController, v1beta1.KindAccounting, v1beta1.KindRestApi, v1beta1.KindNodeSet, v1beta1.KindLoginSet, v1beta1.KindToken,
	} {
		o.workers[kind] = f.Int(strings.ToLower(kind)+"-workers", 1, "how many objects of kind "+kind+" are reconciled at once")
	}
	_ = f.Int("slurmclient-workers", 1, "taken, and without effect: each Slurm cluster has one client")
	config.RegisterFlags(f)
	o.log.BindFlags(f)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("there are flags only, got the argument %q", f.Arg(0))
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	log := zap.New(zap.UseFlagOptions(&o.log))
	ctrl.SetLogger(log)
	mgr, err := newManager(o, log)
	if err != nil {
		return err
	}
	workers := map[string]int{}
	for kind, n := range o.workers {
		workers[kind] = *n
	}
	err = operator.AddToManager(mgr, operator.Options{
		Images: cluster.ImagesOf(o.imageFolder, o.imageTag), ClusterDomain: o.domain(), Connect: connect, Workers: workers,
		NodeConditions: list(o.nodeConditions),
	})
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return mgr.Start(ctx)
}

// list splits a comma list, without what is empty.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func newManager(o *options, log logr.Logger) (ctrl.Manager, error) {
	kube, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes API server: %w", err)
	}
	kube.QPS = -1 // the API server says itself when it has enough
	scheme, err := operator.Scheme()
	if err != nil {
		return nil, fmt.Errorf("register types: %w", err)
	}
	mgr, err := ctrl.NewManager(kube, ctrl.Options{
		Scheme: scheme, Logger: log, Cache: o.cache(),
		HealthProbeBindAddress: o.healthAddr,
		Metrics:                o.metrics(), PprofBindAddress: o.profiles(),
		LeaderElection: o.leaderElect, LeaderElectionID: v1beta1.OperatorLease,
		LeaderElectionNamespace: o.leaderElectNamespace, LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	return mgr, errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping))
}

// connect makes a client of slurmrestd that acts as Slurm's own user.
func connect(url string, key []byte) (slurm.Client, error) {
	tokens, err := rest.TokensFromKey(rest.KeyConfig{Key: key, User: "slurm"})
	if err != nil {
		return nil, err
	}
	return rest.New(rest.Config{URL: url, Tokens: tokens})
}

func (o *options) domain() string {
	if o.clusterDomain != "" {
		return o.clusterDomain
	}
	file, err := os.Open("/etc/resolv.conf")
	if err != nil {
		return defaultDomain
	}
	defer file.Close()
	return clusterDomain(file)
}

const defaultDomain = "cluster.local"

// clusterDomain finds the domain in the search list that Kubernetes gives to pods.
func clusterDomain(resolvConf io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(resolvConf, 1<<16))
	if err != nil {
		return defaultDomain
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "search" {
			continue
		}
		i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "svc.") && len(w) > len("svc.") })
		if i >= 0 {
			return strings.TrimSuffix(strings.TrimPrefix(words[i], "svc."), ".")
		}
	}
	return defaultDomain
}
