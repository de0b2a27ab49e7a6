package dracpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatav1beta1 "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"

	"github.com/slinky-hpc/slinky/internal/observe/sysfs"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// Options are what the driver needs to run. All roots are arguments.
type Options struct {
	Config   Config
	NodeName string
	Kube     kubernetes.Interface
	Log      logr.Logger
	// Sys is /sys, Proc is /proc.
	Sys, Proc fs.FS
	// Cgroups is the node's /sys/fs/cgroup, for the CPUs of Slurm's jobs and the limits of huge pages.
	Cgroups fs.FS
	// KubeletRoot has the folders plugins and plugins_registry; CDIDir is where the runtime looks for CDI files.
	KubeletRoot, CDIDir, NRISocket string
	// PCIeRoots publishes the PCIe roots near to each device.
	PCIeRoots bool
	// Address serves health and metrics.
	Address string
	// Recent is the end of what Log writes; nil keeps none.
	Recent *Recent
	// Every is how often the API is asked for claims that are gone. CPUs that come and go are looked for as often, or every 5 seconds.
	Every time.Duration
}

// Run runs the driver until ctx ends. It serves kubelet only after it knows what
// an earlier run has given away and which containers run.
func Run(ctx context.Context, o Options) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d, err := newDriver(o, stop)
	if err != nil {
		return err
	}
	return d.run(ctx, stop)
}

func (d *driver) run(ctx context.Context, stop context.CancelCauseFunc) error {
	if err := d.serve(ctx, d.Address); err != nil {
		return err
	}
	if err := d.serveSnapshot(ctx); err != nil {
		return err
	}
	d.askKubelet(ctx)
	background := make(chan struct{})
	go func() {
		defer close(background)
		d.plugin.connect(ctx, d.NRISocket)
	}()
	defer func() { <-background }()
	defer stop(nil)
	go d.keepSaving(ctx)
	go d.tellNode(ctx)
	if d.jobs != nil {
		go d.followJobs(ctx)
	}

	select {
	case <-ctx.Done():
		return cause(ctx)
	case <-d.node.state.first:
	}
	helper, err := d.register(ctx)
	if err != nil && ctx.Err() != nil {
		return cause(ctx) // It was ended while it started.
	}
	if err != nil {
		return err
	}
	defer helper.Stop()
	d.node.state.begin()
	if err := d.publish(ctx, helper); err != nil && ctx.Err() == nil {
		return err
	}
	d.compareReserved(ctx)
	d.watch(ctx, helper)
	return cause(ctx)
}

// cause: the end of a context that somebody has asked for is no error.
func cause(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

type driver struct {
	Options
	exposure cpuset.Exposure
	dataDir  string
	ledger   *ledger
	node     *node
	plugin   *plugin
	// jobs is nil where Slurm's own jobs are not followed.
	jobs *slurmJobs
}

func newDriver(o Options, stop context.CancelCauseFunc) (*driver, error) {
	e, err := o.Config.exposure()
	if err != nil {
		return nil, err
	}
	e.PCIeRoots = o.PCIeRoots
	root, err := checkRoot(o.KubeletRoot)
	if err != nil {
		return nil, err
	}
	o.KubeletRoot = root
	d := &driver{Options: o, exposure: e, dataDir: dataDir(root)}
	machine, err := d.machine()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{d.dataDir, o.CDIDir} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, fmt.Errorf("make the driver's folder: %w", err)
		}
	}
	boot, err := fs.ReadFile(o.Proc, "sys/kernel/random/boot_id")
	if err != nil {
		o.Log.Error(err, "The boot can't be told from earlier ones")
	}
	d.ledger = newLedger(d.dataDir, o.CDIDir, strings.TrimSpace(string(boot)), machine, o.Config.MinSharedCPUs)
	if err := d.ledger.load(o.Log); err != nil {
		return nil, err
	}
	d.assemble(stop)
	return d, nil
}

func (d *driver) assemble(stop context.CancelCauseFunc) {
	s, m := newState(), newMetrics(d.ledger)
	c := d.Config
	alone, _ := parsePods(c.SelfManaged, false) // exposure has checked both
	reserved, _ := parsePods(c.ReservedPods, true)
	d.ledger.sharedBy = c.SharedCPUs
	d.ledger.localMemory, d.ledger.liftQuota = c.MemoryNodes == "local", c.CFSQuota == "disable"
	d.plugin = &plugin{
		log: d.Log.WithName("nri"), ledger: d.ledger, state: s, metric: m,
		threads: c.ThreadEnvironment, selfManaged: alone, onReserved: reserved,
		views: newViews(d.dataDir, d.Proc), view: c.CPUView, hugetlb: hugetlb(d.Cgroups),
		kick: make(chan struct{}, 1), saveSoon: make(chan struct{}, 1), notices: make(notices, 8),
	}
	if c.SlurmJobs == slurmJobsExclusive {
		d.jobs = &slurmJobs{cgroups: d.Cgroups, trusted: d.ledger.isAlone}
	}
	d.node = &node{jobs: d.jobs, kube: d.Kube, log: d.Log.WithName("dra"), ledger: d.ledger, state: s, metric: m, stop: stop, changed: func() { wake(d.plugin.kick) }}
	if policy := d.kubeletPolicy(); policy == "static" {
		s.set(func(c *conditions) {
			c.rival = "kubelet's cpuManagerPolicy is static and would move containers off their CPUs: set it to none, remove cpu_manager_state, and start kubelet and this pod anew"
		})
	}
}

// kubeletPolicy reads which CPU manager kubelet runs, if its state can be seen.
func (d *driver) kubeletPolicy() string {
	k, err := readKubelet(d.KubeletRoot)
	if err != nil {
		d.Log.Error(err, "Whether kubelet gives CPUs out itself is not known")
	}
	return k.CPUManagerPolicy
}

func (d *driver) machine() (cpuset.Machine, error) {
	top, err := sysfs.Read(d.Sys)
	if err != nil {
		return cpuset.Machine{}, err
	}
	m := cpuset.Machine{Topology: top, Exposure: d.exposure, Pool: d.NodeName, Devices: cpuset.Devices(top, d.exposure)}
	if !slices.ContainsFunc(m.Devices, func(d cpuset.Device) bool { return d.Memory == nil }) {
		return m, fmt.Errorf("there is no CPU to offer: online are %s, reserved %s", top.All(), d.exposure.Reserved)
	}
	return m, nil
}

func (d *driver) register(ctx context.Context) (*kubeletplugin.Helper, error) {
	helper, err := kubeletplugin.Start(ctx, d.node,
		kubeletplugin.DriverName(cpuset.DriverName), kubeletplugin.NodeName(d.NodeName), kubeletplugin.KubeClient(d.Kube),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(d.KubeletRoot, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(d.dataDir), kubeletplugin.HealthService(true),
		kubeletplugin.CDIDirectory(d.CDIDir),
		kubeletplugin.EnableDeviceMetadata(true, []schema.GroupVersion{metadatav1beta1.SchemeGroupVersion}))
	if err != nil {
		return nil, fmt.Errorf("serve kubelet: %w", err)
	}
	return helper, nil
}

func (d *driver) publish(ctx context.Context, helper *kubeletplugin.Helper) error {
	d.ledger.mu.Lock()
	devices := d.ledger.machine.Devices
	d.ledger.mu.Unlock()
	var pool resourceslice.Pool
	for _, list := range cpuset.Slices(devices, d.exposure) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: list})
	}
	if d.node.state.get().rival != "" {
		pool.Slices = []resourceslice.Slice{{}} // Nobody must count on CPUs that kubelet hands out itself.
	}
	err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.NodeName: pool}})
	if err != nil {
		return fmt.Errorf("publish the CPUs: %w", err)
	}
	return nil
}

// keepSaving writes the checkpoint when the runtime's questions have changed it.
func (d *driver) keepSaving(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.plugin.saveSoon:
			if err := d.ledger.save(); err != nil {
				d.Log.Error(err, "Which pods use the claims can't be written down")
			}
		}
	}
}

// machineEvery is how long a CPU may still be offered after it has gone offline. It costs a file to look.
const machineEvery = 5 * time.Second

// watch follows kubelet's registration, the machine and the API until ctx ends.
func (d *driver) watch(ctx context.Context, helper *kubeletplugin.Helper) {
	again, look, machine := time.NewTicker(d.Every), time.NewTicker(time.Second), time.NewTicker(min(d.Every, machineEvery))
	defer again.Stop()
	defer look.Stop()
	defer machine.Stop()
	withdrawn := d.node.state.get().rival != ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			s := helper.RegistrationStatus()
			d.node.state.set(func(c *conditions) { c.registered = s != nil && s.PluginRegistered })
			if !withdrawn && d.node.state.get().rival != "" { // seen while it runs
				err := d.publish(ctx, helper)
				if withdrawn = err == nil; err != nil {
					d.Log.Error(err, "The CPUs that somebody else sets can't be withdrawn")
				}
			}
		case <-machine.C:
			d.followMachine(ctx, helper)
		case <-again.C:
			d.dropGone(ctx)
		}
	}
}

// hugetlb tells whether control groups of this machine limit huge pages. The driver's own
// container may show it fewer controllers than the node has.
func hugetlb(cgroups fs.FS) bool {
	controllers, err := fs.ReadFile(cgroups, "cgroup.controllers")
	if err == nil {
		return slices.Contains(strings.Fields(string(controllers)), "hugetlb")
	}
	_, err = fs.Stat(cgroups, "hugetlb")
	return err == nil
}

// followMachine publishes anew when CPUs have come or gone, or huge pages.
func (d *driver) followMachine(ctx context.Context, helper *kubeletplugin.Helper) {
	online, err := sysfs.Online(d.Sys)
	if err == nil {
		d.ledger.mu.Lock()
		top := d.ledger.machine.Topology
		same := online.Equal(top.All()) && (!d.exposure.Memory || slices.Equal(sysfs.Memory(d.Sys), top.Memory))
		d.ledger.mu.Unlock()
		if same {
			return
		}
		var m cpuset.Machine
		if m, err = d.machine(); err == nil {
			d.Log.Info("CPUs or huge pages have come or gone", "online", m.Topology.All().String())
			d.ledger.setMachine(m)
			wake(d.plugin.kick)
			err = d.publish(ctx, helper)
		}
	}
	if err != nil {
		d.Log.Error(err, "The machine's CPUs can't be followed")
	}
}

// dropGone frees the claims that were deleted while the driver or kubelet was away.
// Only a claim that the API says isn't there, or is another by now, is gone. Of one
// that is there it follows which pods it is for: kubelet doesn't prepare it anew for
// a pod that comes before the last one has gone.
func (d *driver) dropGone(ctx context.Context) {
	for _, c := range d.ledger.unused() {
		if c.Name == "" {
			continue
		}
		rc, err := d.Kube.ResourceV1().ResourceClaims(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
		if err == nil && rc.UID == c.UID {
			if d.ledger.passOn(c.UID, podsOf(rc)) {
				wake(d.plugin.saveSoon)
			}
			continue
		}
		if err != nil && !apierrors.IsNotFound(err) {
			continue
		}
		d.Log.Info("A claim is gone from the API; its CPUs are free", "claim", c.String(), "uid", c.UID)
		if err := d.ledger.unprepare(c.UID)[c.UID]; err != nil {
			d.Log.Error(err, "The claim can't be dropped", "claim", c.String())
		}
		wake(d.plugin.kick)
	}
}

// serve answers probes and scrapes until ctx ends. On a port of the node somebody
// else may listen: then the driver says so and ends, rather than being probed there.
func (d *driver) serve(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve health and metrics: %w: choose another port by --bind-address (healthzPort of the chart)", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", d.node.state.alive)
	mux.HandleFunc("/readyz", d.node.state.ready)
	mux.Handle("/metrics", promhttp.HandlerFor(d.node.metric.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, IdleTimeout: 2 * time.Minute, ReadTimeout: 10 * time.Second, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.node.stop(fmt.Errorf("serve health and metrics: %w", err))
		}
	}()
	return nil
}
