package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
	"github.com/slinky-hpc/slinky/test/bench/measure"
)

const (
	namespace = "default"
	partition = "ext"
	// aside is a partition of a few nodes of its own.
	aside      = "aside"
	mainNodes  = 1000
	asideNodes = 8
	allNodes   = mainNodes + asideNodes
	dataParser = "v0.0.45"
)

// world is the API server with its nodes, which live as long as the whole run.
type world struct {
	server *apitest.Server
	kube   *measure.Kube
	runs   int
	table  *table
	// live ends when a program ends that shouldn't.
	live  context.Context //nolint:containedctx // it is the run itself
	abort context.CancelCauseFunc
	// profilerPort is where the scheduler serves its profiles, 0 for nowhere.
	profilerPort int
	// profile is the scheduler's configuration as it is installed.
	profile apitest.SchedulerConfig
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := apitest.Start(t, "feature-gates=GenericWorkload=true", "runtime-config=scheduling.k8s.io/v1beta1=true",
		"disable-admission-plugins=ServiceAccount,TaintNodesByCondition", "max-requests-inflight=2000", "max-mutating-requests-inflight=1000")
	kube, err := measure.Connect(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{server: server, kube: kube, table: &table{}}
	w.live, w.abort = context.WithCancelCause(context.WithoutCancel(t.Context()))
	t.Cleanup(func() { w.abort(nil) })
	makeNodes(t.Context(), t, kube.Client, allNodes, partitionOf)
	startKubelets(w.live, t, kube.Client, allNodes)
	return w
}

func partitionOf(i int) string {
	if i < mainNodes {
		return partition
	}
	return aside
}

// load returns pods for a scheduler, in a run of their own.
func (w *world) load(scheduler string) measure.Load {
	w.runs++
	return measure.Load{
		Namespace: namespace, Scheduler: scheduler, Run: fmt.Sprintf("run%d", w.runs),
		CPU: "1", Memory: "1Gi", Image: "registry.k8s.io/pause:3.10", GraceSeconds: 1, Workers: 16,
	}
}

func (w *world) track(t *testing.T, l measure.Load) *measure.Tracker {
	t.Helper()
	tracker, err := w.kube.Track(t.Context(), l.Namespace, l.Run, v1beta1.LabelJobID)
	if err != nil {
		t.Fatal(err)
	}
	return tracker
}

// write writes a file of the test's own folder and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startStock starts kube-scheduler as it comes, with the limits of the bridge's own.
func (w *world) startStock(t *testing.T) *process {
	t.Helper()
	profile := write(t, "scheduler.yaml", fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 1000, burst: 2000}
leaderElection: {leaderElect: false}
`, w.server.AdminKubeconfig(t)))
	return w.start(t, "stock", "bridge-scheduler", "", "--config="+profile, "--secure-port=0")
}

// slurmWorld is a Slurm cluster.
type slurmWorld struct {
	*slurmtest.Cluster
	bare *measure.Slurm
	rest *rest.Client
}

// scheduling makes backfill look at all that waits, as a cluster with long queues
// needs, and let calls through in between: by default it holds slurmctld's locks for two seconds.
const scheduling = "bf_interval=5,sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_continue,bf_max_job_test=5000," +
	"bf_max_time=60,bf_yield_interval=50000,bf_yield_sleep=50000"

// startSlurm starts a Slurm with a second partition.
func startSlurm(t *testing.T) *slurmWorld {
	t.Helper()
	c := slurmtest.Start(t, slurmtest.Options{
		SchedulerParameters: scheduling,
		Config:              []string{"NodeSet=ns_aside Feature=" + aside, "PartitionName=" + aside + " Nodes=ns_aside State=UP"},
	})
	s := &slurmWorld{Cluster: c, rest: c.Client(t, "root")}
	s.bare = measure.NewSlurm(c.URL, dataParser, c.Tokens(t, "root").Token)
	t.Cleanup(s.bare.Close)
	return s
}

// externalNode describes node i as the bridge does.
func externalNode(i int) slurm.NodeCreate {
	return slurm.NodeCreate{
		Name: nodeName(i), Address: "127.0.0.1", External: true, CPUs: nodeCPUs, Sockets: 1, CoresPerSocket: nodeCPUs, ThreadsPerCore: 1,
		RealMemory: 32 << 10, Features: []string{partitionOf(i)},
	}
}

// proxied starts a counting proxy for slurmrestd and returns its URL.
func (s *slurmWorld) proxied(t *testing.T) (*measure.Proxy, string) {
	t.Helper()
	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := measure.NewProxy(target)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return proxy, "http://" + l.Addr().String()
}

// install gives the bridge's programs the accounts, roles and settings that they are installed with.
func (w *world) install(t *testing.T) {
	t.Helper()
	w.profile = w.server.InstallBridge(t)
}

func (w *world) bridgeConfig(t *testing.T, slurmrestd string) string {
	t.Helper()
	text, err := yaml.Marshal(config.Config{SchedulerName: config.DefaultSchedulerName, SlurmRestAPI: slurmrestd, Partition: partition})
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "config.yaml", string(text))
}

func (w *world) startController(t *testing.T, s *slurmWorld, slurmrestd string) *process {
	t.Helper()
	return w.start(t, "controller", "bridge", w.server.Kubeconfig(t, "slinky", "slurm-bridge-controllers"), "--config="+w.bridgeConfig(t, slurmrestd), "--slurm-jwt-key-file="+s.KeyFile,
		"--metrics-bind-address=0", "--health-probe-bind-address=0")
}

// startScheduler starts the bridge's scheduler with the profile that it is installed with.
func (w *world) startScheduler(t *testing.T, s *slurmWorld, slurmrestd string) *process {
	t.Helper()
	profile := w.profile.With(t, w.server.Kubeconfig(t, "slinky", "slurm-bridge-scheduler"), "leaderElect: false")
	args := []string{
		"--config=" + write(t, "scheduler.yaml", profile), "--bridge-config=" + w.bridgeConfig(t, slurmrestd),
		"--slurm-jwt-key-file=" + s.KeyFile,
	}
	return w.start(t, "scheduler", "bridge-scheduler", "", append(args, w.profilerFlags(t)...)...)
}
