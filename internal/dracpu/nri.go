package dracpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// plugin is the driver as the container runtime sees it. The runtime waits for
// each answer and holds its own lock meanwhile, so no method asks it for anything.
type plugin struct {
	log    logr.Logger
	ledger *ledger
	state  *state
	metric *metrics
	// threads: containers are told how many threads to start.
	threads bool
	// hugetlb: the runtime can limit huge pages.
	hugetlb     bool
	selfManaged []pods
	// onReserved are the pods that run on the reserved CPUs.
	onReserved []pods
	// views show containers their own CPUs; view says which containers: exclusive, all or none.
	views *views
	view  string
	// kick wakes the goroutine that tells the runtime of changes; saveSoon the one that writes the checkpoint.
	kick, saveSoon chan struct{}
	notices        notices
}

// wake is a send that never waits: one that is pending is enough.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Configure hears which runtime it is.
func (p *plugin) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	p.state.set(func(c *conditions) { c.runtime = runtime + " " + version })
	return 0, nil
}

// Synchronize hears of all pods and containers when the connection is made.
func (p *plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	defer p.metric.hook("synchronize")()
	log, end := operation(p.log, "synchronize", "pods", len(pods), "containers", len(containers))
	defer end()
	byID := make(map[string]*api.PodSandbox, len(pods))
	for _, pod := range pods {
		byID[pod.GetId()] = pod
	}
	var all []*container
	var free []string // of the driver
	for _, c := range containers {
		if c.GetState() == api.ContainerState_CONTAINER_STOPPED {
			continue
		}
		if p.alone(byID[c.GetPodSandboxId()]) {
			p.ledger.setAlone(c.GetId(), types.UID(byID[c.GetPodSandboxId()].GetUid()))
			continue
		}
		known, err := p.describe(byID[c.GetPodSandboxId()], c)
		if err != nil {
			log.Error(err, "The container runs with those that have no claim", "container", known.name)
			known.uses = nil
		}
		if c.GetLinux().GetResources().GetCpu().GetCpus() == "" && !ownContainer(c) {
			free = append(free, known.name)
		}
		known.started = c.GetState() != api.ContainerState_CONTAINER_CREATED
		all = append(all, known)
	}
	changes, found, refused := p.ledger.synchronize(all)
	p.keepFound(found)
	for _, err := range refused {
		log.Error(err, "Not taken over; what runs so runs with the containers that have no claim")
	}
	log.Info("The container runtime has told of its containers", "pods", len(pods), "containers", len(all), "changes", len(changes))
	p.tellUnconfined(log, free)
	p.state.set(func(s *conditions) { s.synchronized = true })
	wake(p.kick)
	return updates(changes), nil
}

// tellUnconfined tells of containers that the runtime has made without the driver, if claims had CPUs that these could use.
func (p *plugin) tellUnconfined(log logr.Logger, names []string) {
	claimed := p.ledger.claimed()
	if len(names) == 0 || claimed.Empty() {
		return
	}
	slices.Sort(names)
	n := unconfined(names, claimed)
	log.Info(n.message)
	p.metric.unconfined.Add(float64(len(names)))
	p.notices.add(n.reason, n.message)
}

func (p *plugin) describe(pod *api.PodSandbox, c *api.Container) (*container, error) {
	out := &container{
		id: c.GetId(), pod: types.UID(pod.GetUid()), own: c.GetName(), name: pod.GetNamespace() + "/" + pod.GetName() + "/" + c.GetName(),
		onReserved: match(p.onReserved, pod),
	}
	var err error
	out.uses, err = usesIn(c.GetEnv())
	return out, err
}

// CreateContainer gives a container its CPUs before it exists, and shrinks others first.
func (p *plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	defer p.metric.hook("create")()
	if p.alone(pod) {
		p.ledger.setAlone(c.GetId(), types.UID(pod.GetUid()))
		return nil, nil, nil
	}
	log, end := operation(p.log, "create container", "pod", pod.GetNamespace()+"/"+pod.GetName(), "container", c.GetName(), "containerID", c.GetId())
	defer end()
	known, err := p.describe(pod, c)
	var changes []change
	var newOwner bool
	if err == nil {
		changes, newOwner, err = p.ledger.admit(known)
	}
	if err != nil {
		log.Error(err, "The container is refused", "container", known.name)
		p.metric.refused.Inc()
		return nil, nil, fmt.Errorf("%s: container %s: %w", cpuset.DriverName, known.name, err)
	}
	if newOwner {
		wake(p.saveSoon)
	}
	log.V(2).Info("A container is made", "container", known.name, "cpus", known.applied.String(), "exclusive", known.exclusive(), "changes", len(changes))
	return p.adjust(log, known, c), updates(changes), nil
}

func (p *plugin) adjust(log logr.Logger, c *container, asked *api.Container) *api.ContainerAdjustment {
	a := &api.ContainerAdjustment{}
	a.SetLinuxCPUSetCPUs(c.applied.String())
	p.show(log, a, c, asked.GetMounts())
	if len(c.uses) == 0 {
		return a
	}
	env := asked.GetEnv()
	if p.ledger.liftQuota && c.exclusive() {
		a.SetLinuxCPUQuota(-1)
	}
	if nodes := p.ledger.memoryNodes(c); !nodes.Empty() {
		a.SetLinuxCPUSetMems(nodes.String())
	}
	p.limitMemory(a, c, asked)
	add, remove := environment(env, c, p.threads)
	for _, name := range remove {
		a.RemoveEnv(name)
	}
	for _, v := range add {
		a.AddEnv(v.name, v.value)
	}
	return a
}

// limitMemory keeps a container within the memory that it has claimed, where the pod
// doesn't set a limit itself: the rest of the node is others'.
func (p *plugin) limitMemory(a *api.ContainerAdjustment, c *container, asked *api.Container) {
	var sum cpuset.Memory
	for _, m := range c.memory {
		sum = sum.Plus(m.Memory)
	}
	if sum.Bytes > 0 && asked.GetLinux().GetResources().GetMemory().GetLimit().GetValue() <= 0 {
		a.SetLinuxMemoryLimit(sum.Bytes)
	}
	for _, k := range cpuset.MemoryKinds() {
		if n := *k.At(&sum); n > 0 && k.Runtime != "" && p.hugetlb {
			a.AddLinuxHugepageLimit(k.Runtime, uint64(n)) // n is above 0
		}
	}
}

// show lets a container see its own CPUs where programs count the machine's. One that
// can't be shown them runs nevertheless: on the right CPUs, as it would without.
func (p *plugin) show(log logr.Logger, a *api.ContainerAdjustment, c *container, mounts []*api.Mount) {
	var files map[string]string
	var err error
	switch {
	case p.view == viewNone || p.view == viewExclusive && !c.exclusive() || c.withShared: // whose CPUs are more than its own and come and go
		return
	case c.exclusive():
		files, err = p.views.exclusive(c.cpus)
	default:
		name := p.ledger.viewOf(c)
		files, err = map[string]string{onlineFile: p.views.sharedFile(name)}, p.views.follow(name, c.applied)
	}
	if err != nil {
		log.Error(err, "The container sees the machine's CPUs", "container", c.name)
		return
	}
	cover(a, mounts, files)
}

// tidy writes down what containers without a claim see, and drops what no container sees any more.
func (p *plugin) tidy() {
	if !p.state.get().synchronized { // who sees what isn't known yet
		return
	}
	var errs []error
	if p.view == viewAll {
		shared := p.ledger.sharedViews()
		for _, name := range slices.Sorted(maps.Keys(shared)) {
			errs = append(errs, p.views.follow(name, shared[name]))
		}
	}
	if err := errors.Join(append(errs, p.views.drop(p.ledger.usedViews))...); err != nil {
		p.log.Error(err, "What containers see of their CPUs can't be kept")
	}
}

// PostCreateContainer: until now the runtime has dropped updates of the container.
func (p *plugin) PostCreateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	if p.ledger.stored(c.GetId()) {
		wake(p.kick)
	}
	return nil
}

// PostStartContainer: what was changed while the container was being started may have missed it.
func (p *plugin) PostStartContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	if p.ledger.started(c.GetId()) {
		wake(p.kick)
	}
	return nil
}

// UpdateContainer: kubelet changes a container's resources. Its CPUs stay as they are.
func (p *plugin) UpdateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container, r *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	want, ok := p.ledger.wanted(c.GetId())
	if !ok || want.cpus.Empty() {
		return nil, nil
	}
	if asked := r.GetCpu().GetCpus(); asked != "" && asked != want.cpus.String() {
		// Only the static CPU manager does that.
		p.log.Error(nil, "Somebody else sets CPUs of containers; set kubelet's cpuManagerPolicy to none", "pod", pod.GetNamespace()+"/"+pod.GetName(),
			"container", c.GetName(), "asked", asked, "kept", want.cpus.String())
		p.state.set(func(s *conditions) {
			s.rival = "kubelet, or another NRI plugin, sets CPUs of containers too: set kubelet's cpuManagerPolicy to none, remove cpu_manager_state, and start kubelet and this pod anew"
		})
	}
	return updates([]change{want}), nil
}

// StopContainer hears of a container's end, whoever has ended it.
func (p *plugin) StopContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	p.ledger.ended(c.GetId())
	return nil, nil
}

// RemoveContainer hears of the removal of one whose end was missed.
func (p *plugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.ledger.ended(c.GetId())
	return nil
}

func updates(changes []change) []*api.ContainerUpdate {
	out := make([]*api.ContainerUpdate, 0, len(changes))
	for _, c := range changes {
		u := &api.ContainerUpdate{}
		u.SetContainerId(c.id)
		u.SetLinuxCPUSetCPUs(c.cpus.String())
		// One that was made while the driver was away, or waited for too long, has those of the machine.
		if !c.nodes.Empty() {
			u.SetLinuxCPUSetMems(c.nodes.String())
		}
		if c.lift {
			u.SetLinuxCPUQuota(-1)
		}
		out = append(out, u)
	}
	return out
}

// connect keeps the connection to the runtime until ctx ends. It never gives up:
// without it containers start with all CPUs.
func (p *plugin) connect(ctx context.Context, socket string) {
	for wait := firstWait; ctx.Err() == nil; {
		began := time.Now()
		err := p.connectOnce(ctx, socket)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastWait {
			wait = firstWait
		}
		p.log.Error(err, "There is no connection to the container runtime", "socket", socket, "next", wait.String())
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait)):
		}
		wait = min(2*wait, lastWait)
	}
}

const (
	firstWait = 100 * time.Millisecond
	lastWait  = 30 * time.Second
	retry     = time.Second
)

func (p *plugin) connectOnce(ctx context.Context, socket string) error {
	lost := make(chan struct{}, 1)
	// A container that the driver didn't answer for in time must not start on CPUs of others. Older runtimes know
	// no such policy and start it; the driver sets it right when it is connected again.
	s, err := stub.New(p, stub.WithPluginName(cpuset.DriverName), stub.WithPluginIdx("00"), stub.WithSocketPath(socket),
		stub.WithFailurePolicy(&api.FailurePolicy{FailRequest: true}),
		stub.WithLogger(nriLogger{p.log}), stub.WithOnClose(func() { wake(lost) }))
	if err != nil {
		return err
	}
	// The stub's Run would wait for its own server alone, so the end of the connection is watched here.
	if err := start(ctx, s); err != nil {
		return fmt.Errorf("register by NRI: %w", err)
	}
	defer s.Stop()
	p.state.set(func(c *conditions) { c.connected = true })
	p.metric.connected.Set(1)
	defer func() {
		p.state.set(func(c *conditions) { c.connected, c.synchronized = false, false })
		p.metric.connected.Set(0)
	}()
	p.apply(ctx, s, lost)
	return errors.New("the connection has been closed")
}

// start gives the runtime a time to answer in: the stub waits for ever for one that
// accepts the registration and goes away.
func start(ctx context.Context, s stub.Stub) error {
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	select {
	case err := <-done:
		return err
	case <-time.After(2 * s.RegistrationTimeout()):
		return errors.New("the runtime doesn't answer")
	}
}

// apply tells the runtime of changes that no answer could carry, until the connection ends.
func (p *plugin) apply(ctx context.Context, s stub.Stub, lost <-chan struct{}) {
	again := time.NewTicker(retry)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-lost:
			return
		case <-p.kick:
			p.tidy()
		case <-again.C: // for those that failed
		}
		if !p.state.get().synchronized {
			continue
		}
		changes := p.ledger.pending()
		if len(changes) == 0 {
			p.state.set(func(c *conditions) { c.stuck = "" })
			continue
		}
		ids, err := tell(s, changes)
		p.metric.updates.Add(float64(len(changes)))
		p.metric.updatesFailed.Add(float64(len(ids)))
		p.ledger.failed(ids)
		p.stuck(ids, err)
		p.log.V(2).Info("Containers have got other CPUs", "changed", len(changes), "failed", len(ids), "error", err)
	}
}

// tell tells the runtime of changes and returns the containers that it couldn't change. With one
// error it says of none what became of it, so they are then changed one by one.
func tell(s stub.Stub, changes []change) (ids []string, err error) {
	failed, err := s.UpdateContainers(updates(changes))
	if err != nil && len(changes) > 1 {
		var errs []error
		for _, c := range changes {
			one, err := tell(s, []change{c})
			ids, errs = append(ids, one...), append(errs, err)
		}
		return ids, errors.Join(errs...)
	}
	if err != nil {
		return []string{changes[0].id}, err
	}
	for _, u := range failed {
		ids = append(ids, u.GetContainerId())
	}
	return ids, nil
}

// stuck tells that containers are still on CPUs that are not theirs any more.
func (p *plugin) stuck(ids []string, err error) {
	text := ""
	if names := p.ledger.names(ids); len(names) > 0 {
		text = fmt.Sprintf("the runtime can't take CPUs from %s: does it make cgroups of its own, as slurmd does? Then name it in selfManaged, or use cgroup v2",
			strings.Join(names, ", "))
	}
	if text != "" && text != p.state.get().stuck {
		p.log.Error(err, "Containers run on CPUs of others", "why", text)
	}
	p.state.set(func(c *conditions) { c.stuck = text })
}

// nriLogger writes the stub's messages to the driver's log.
type nriLogger struct{ log logr.Logger }

func (l nriLogger) Debugf(_ context.Context, format string, args ...any) {
	l.log.V(6).Info(fmt.Sprintf(format, args...))
}

func (l nriLogger) Infof(_ context.Context, format string, args ...any) {
	l.log.V(4).Info(fmt.Sprintf(format, args...))
}

func (l nriLogger) Warnf(_ context.Context, format string, args ...any) {
	l.log.Info(fmt.Sprintf(format, args...))
}

func (l nriLogger) Errorf(_ context.Context, format string, args ...any) {
	l.log.Error(nil, fmt.Sprintf(format, args...))
}
