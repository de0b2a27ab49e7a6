package dracpu

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// runtimeModel is a container runtime as containerd is: it drops updates of containers
// that it hasn't stored yet, and a start may use what was there before an update.
type runtimeModel struct {
	t       *testing.T
	r       *rand.Rand
	disk    disk
	machine cpuset.Machine
	plugin  *plugin // nil while the driver is away
	claims  map[types.UID]string
	// with are the claims whose containers have the shared CPUs as well.
	with map[types.UID]bool
	// byNode: pods without a claim are each kept to a NUMA node.
	byNode bool
	pods   map[string]*podModel
	next   int
}

type podModel struct {
	uid   string
	claim types.UID // "" of a shared one
	c     *api.Container
	cpus  string // its cgroup's
	spec  string
	state int
}

// A container's way, one step of the runtime at a time.
const (
	hooked = iota // the hook has answered
	stored
	starting // its process gets what the spec says now
	running
)

// Any order of claims, containers, ends and restarts of the driver: no CPU is in two
// claims, an exclusive container has its claim's CPUs at all times, and once the
// runtime has been told, no shared container has a CPU of a claim, nor has one that
// has the shared CPUs besides its own a CPU of another.
// CPU checks 11, 12, 14, 21, 24 and 61.
func TestChurn(t *testing.T) {
	for seed := range uint64(8) {
		m := &runtimeModel{t: t, r: rand.New(rand.NewPCG(seed, 1)), disk: newDisk(t), machine: numa(16, []string{"", "0"}[seed%2]),
			claims: map[types.UID]string{}, with: map[types.UID]bool{}, byNode: seed%4 > 1, pods: map[string]*podModel{}}
		m.startDriver()
		steps := []func(){m.prepare, m.unprepare, m.create, m.create, m.advance, m.advance, m.advance, m.end, m.settle, m.restart}
		for range 300 {
			steps[m.r.IntN(len(steps))]()
			m.checkExclusive()
		}
		m.settle()
	}
}

func (m *runtimeModel) startDriver() {
	l := m.disk.start(m.t, "boot", m.machine)
	if m.byNode {
		l.sharedBy = sharedByNode
	}
	m.plugin = testPlugin(m.t, l)
	var pods []*api.PodSandbox
	var all []*api.Container
	for _, uid := range slices.Sorted(maps.Keys(m.pods)) {
		if p := m.pods[uid]; p.state >= stored {
			pods, all = append(pods, pod(p.uid)), append(all, p.c)
		}
	}
	u, err := m.plugin.Synchronize(m.t.Context(), pods, all)
	if err != nil {
		m.t.Fatal(err)
	}
	m.carryOut(u)
}

// restart: the runtime finishes what it has begun before it lets a plugin in.
func (m *runtimeModel) restart() {
	m.plugin = nil
	if m.r.IntN(2) == 0 {
		m.end()
	}
	for _, p := range m.pods {
		for p.state < running {
			m.step(p)
		}
	}
	m.startDriver()
}

func (m *runtimeModel) carryOut(updates []*api.ContainerUpdate) {
	for id, cpus := range told(updates) {
		if p := m.pods[id]; p != nil && p.state >= stored {
			p.spec = cpus
			if p.state == running {
				p.cpus = cpus
			}
		}
	}
}

func (m *runtimeModel) prepare() {
	uid := types.UID(fmt.Sprint("claim", m.next))
	m.next++
	rc := on(string(uid), m.r.IntN(2), 1+m.r.IntN(4), "")
	if m.with[uid] = m.r.IntN(3) == 0; m.with[uid] {
		rc = with(rc, `{"withShared":true}`)
	}
	c, err := prepareOne(m.plugin.ledger, rc)
	if err != nil {
		return
	}
	for other, cpus := range m.claims {
		if set(cpus).Overlaps(c.cpus()) {
			m.t.Fatalf("%s gets %s, and %s has %s", uid, c.cpus(), other, cpus)
		}
	}
	m.claims[uid] = c.cpus().String()
}

func (m *runtimeModel) anyClaim() types.UID {
	all := slices.Sorted(maps.Keys(m.claims))
	if len(all) == 0 {
		return ""
	}
	return all[m.r.IntN(len(all))]
}

func (m *runtimeModel) anyPod() *podModel {
	all := slices.Sorted(maps.Keys(m.pods))
	if len(all) == 0 {
		return nil
	}
	return m.pods[all[m.r.IntN(len(all))]]
}

func (m *runtimeModel) inUse(uid types.UID) bool {
	for _, p := range m.pods {
		if p.claim == uid {
			return true
		}
	}
	return false
}

// unprepare comes, as from kubelet, after the last container.
func (m *runtimeModel) unprepare() {
	uid := m.anyClaim()
	if uid == "" || m.inUse(uid) {
		return
	}
	if err := m.plugin.ledger.unprepare(uid)[uid]; err != nil {
		m.t.Fatal(err)
	}
	delete(m.claims, uid)
}

func (m *runtimeModel) create() {
	p := &podModel{uid: fmt.Sprint("pod", m.next)}
	m.next++
	if uid := m.anyClaim(); m.r.IntN(2) == 0 && uid != "" && !m.inUse(uid) {
		p.claim = uid
		if c := m.plugin.ledger.claims[uid]; c.Owner != "" {
			p.uid = string(c.Owner) // the same pod, started again
		}
	}
	p.c = ctr(p.uid, p.uid)
	if p.claim != "" {
		p.c.Env = []string{fmt.Sprintf("DRA_CPUSET_%s=%s", p.claim, m.claims[p.claim])}
	}
	a, u, err := m.plugin.CreateContainer(m.t.Context(), pod(p.uid), p.c)
	if err != nil {
		if p.claim != "" || !m.plugin.ledger.shared().Empty() {
			m.t.Fatal(err)
		}
		return
	}
	p.spec = cpusOf(a)
	m.pods[p.uid] = p
	m.carryOut(u)
}

func (m *runtimeModel) advance() {
	if p := m.anyPod(); p != nil {
		m.step(p)
	}
}

func (m *runtimeModel) step(p *podModel) {
	var err error
	switch p.state {
	case hooked:
		if p.state = stored; m.plugin != nil {
			err = m.plugin.PostCreateContainer(m.t.Context(), pod(p.uid), p.c)
		}
	case stored:
		p.state, p.cpus = starting, p.spec
	case starting:
		p.state, p.c.State = running, api.ContainerState_CONTAINER_RUNNING
		if m.plugin != nil {
			err = m.plugin.PostStartContainer(m.t.Context(), pod(p.uid), p.c)
		}
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *runtimeModel) end() {
	p := m.anyPod()
	if p == nil {
		return
	}
	delete(m.pods, p.uid)
	if m.plugin != nil {
		if _, err := m.plugin.StopContainer(m.t.Context(), pod(p.uid), p.c); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *runtimeModel) checkExclusive() {
	for _, p := range m.pods {
		if p.claim == "" || p.state < starting {
			continue
		}
		if own := set(m.claims[p.claim]); !own.Within(set(p.cpus)) || !m.with[p.claim] && !own.Equal(set(p.cpus)) {
			m.t.Fatalf("%s of %s runs on %s, want %s", p.uid, p.claim, p.cpus, m.claims[p.claim])
		}
	}
}

// settle lets every container run and the runtime hear of all changes; some fail the first time.
func (m *runtimeModel) settle() {
	for _, p := range m.pods {
		for p.state < running {
			m.step(p)
		}
	}
	changes := m.plugin.ledger.pending()
	if len(changes) > 0 && m.r.IntN(3) == 0 {
		m.plugin.ledger.failed([]string{changes[0].id})
		changes = append(changes[1:], m.plugin.ledger.pending()...)
	}
	m.carryOut(updates(changes))
	reserved := m.machine.Exposure.Reserved
	want := m.machine.Topology.All().Minus(reserved).Minus(union(m.claims))
	if want.Empty() {
		want = reserved
	}
	if want.Empty() {
		return
	}
	for _, p := range m.pods {
		if p.claim != "" && !m.with[p.claim] {
			continue
		}
		own := set(m.claims[p.claim])
		shared := set(p.cpus).Minus(own)
		right := shared.Equal(want)
		if m.byNode {
			low, high := want.Intersect(set("0-7")), want.Intersect(set("8-15"))
			right = !shared.Empty() && (shared.Equal(low) || shared.Equal(high))
		}
		if !right {
			m.t.Fatalf("%s with CPUs %q of its own runs on %s, and shared are %s", p.uid, own, p.cpus, want)
		}
	}
}
