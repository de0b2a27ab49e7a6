package dracpu

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// ledger knows who has which CPUs of the node. Its memory is guarded by mu, which
// is never held while a file is written or the runtime is called; saving orders
// the writers of the checkpoint. A claim in claims is never changed, only replaced.
type ledger struct {
	cdiDir string
	bootID string
	// minShared is how many CPUs claims must leave for containers without one.
	minShared int
	// localMemory: containers with CPUs of their own have memory of these CPUs' NUMA nodes only.
	localMemory bool
	// sharedBy says which CPUs a container without a claim runs on: all that are shared, or those of one NUMA node.
	sharedBy string
	// liftQuota: containers with CPUs of their own have no CFS quota.
	liftQuota bool

	saving     sync.Mutex
	checkpoint checkpointWriter // guarded by saving

	mu sync.Mutex
	// machine is what is offered now; claims keep what they have when it changes.
	machine    cpuset.Machine
	claims     map[types.UID]*claim
	containers map[string]*container
	// alone are the pods of the containers that are left alone, by the container's ID. jobs are what Slurm's own jobs have, if that is followed.
	alone map[string]types.UID
	jobs  []cpuset.Held
	// lost are the claims that kubelet holds for prepared and no file tells of, until the runtime has told which containers run.
	lost map[types.UID]*resourceapi.ResourceClaim
}

func newLedger(dataDir, cdiDir, bootID string, m cpuset.Machine, minShared int) *ledger {
	return &ledger{
		checkpoint: checkpointWriter{path: filepath.Join(dataDir, "checkpoint.json")}, cdiDir: cdiDir, bootID: bootID, machine: m, minShared: minShared,
		claims: map[types.UID]*claim{}, containers: map[string]*container{}, alone: map[string]types.UID{},
		lost: map[types.UID]*resourceapi.ResourceClaim{},
	}
}

// load reads what an earlier run has left: the checkpoint, and the CDI files of
// claims that it doesn't know, since the published driver writes no checkpoint.
// After a reboot nothing of it holds; kubelet prepares anew.
func (l *ledger) load(log logr.Logger) error {
	d, err := readCheckpoint(l.checkpoint.path)
	switch {
	case errors.Is(err, errNoCheckpoint):
	case err != nil:
		// What it said is also in the CDI files, but for the names.
		log.Error(err, "The checkpoint is set aside; claims are taken from the CDI files")
		if err := os.Rename(l.checkpoint.path, l.checkpoint.path+".broken"); err != nil {
			return fmt.Errorf("set the broken checkpoint aside: %w", err)
		}
	case d.BootID != "" && l.bootID != "" && d.BootID != l.bootID:
		log.Info("The machine has been started anew; what was prepared before is void", "claims", len(d.Claims))
		for _, c := range d.Claims {
			if c.sound() != nil {
				continue
			}
			if err := removeCDI(l.cdiDir, c.UID); err != nil {
				return err
			}
		}
		d.Claims = nil
	}
	l.mu.Lock()
	for _, c := range d.Claims {
		l.adopt(log, c)
	}
	seeds, broken := readCDI(l.cdiDir)
	for _, err := range broken {
		log.Error(err, "A CDI file can't be used")
	}
	for _, c := range seeds {
		if l.claims[c.UID] == nil {
			l.adopt(log, c)
		}
	}
	all := slices.Collect(maps.Values(l.claims))
	l.mu.Unlock()
	for _, c := range all {
		if err := writeCDI(l.cdiDir, c); err != nil {
			return err
		}
	}
	return l.save()
}

// adopt takes a claim of an earlier run over. mu is held.
func (l *ledger) adopt(log logr.Logger, c *claim) {
	if err := c.sound(); err != nil {
		log.Error(err, "A claim of an earlier run can't be taken over")
		return
	}
	for _, other := range l.claims {
		if other.cpus().Overlaps(c.cpus()) {
			log.Error(nil, "Two claims have the same CPUs; the second is not taken over", "first", other.String(), "second", c.String(),
				"cpus", other.cpus().Intersect(c.cpus()).String())
			return
		}
	}
	l.claims[c.UID] = c
}

func (l *ledger) save() error {
	l.saving.Lock()
	defer l.saving.Unlock()
	l.mu.Lock()
	claims := l.sorted()
	l.mu.Unlock()
	return l.checkpoint.write(l.bootID, claims)
}

// sorted lists the claims by UID. mu is held.
func (l *ledger) sorted() []*claim {
	return slices.SortedFunc(maps.Values(l.claims), func(a, b *claim) int { return cmp.Compare(a.UID, b.UID) })
}

// held lists what claims and Slurm's jobs have. mu is held.
func (l *ledger) held() []cpuset.Held {
	out := make([]cpuset.Held, 0, len(l.claims))
	for _, c := range l.sorted() {
		out = append(out, cpuset.Held{Holder: c.String(), CPUs: c.cpus(), Memory: c.memoryOf(-1)})
	}
	return append(out, l.jobs...)
}

// outcome is what has become of a claim that was to be prepared. One without a device of ours has neither.
type outcome struct {
	claim *claim
	err   error
	isNew bool
}

// prepare gives claims their CPUs, once: of each claim all is done, in memory, checkpoint
// and CDI file, or nothing. All of a call are written to the checkpoint at once. near are the CPUs near to their other devices,
// of those that ask for that.
func (l *ledger) prepare(near map[types.UID]cpuset.Set, rcs ...*resourceapi.ResourceClaim) []outcome {
	out := make([]outcome, len(rcs))
	reserved := false
	for i, rc := range rcs {
		o := &out[i]
		o.claim, o.isNew, o.err = l.reserve(rc, near[rc.UID])
		reserved = reserved || o.claim != nil
	}
	if !reserved {
		return out
	}
	err, undone := l.save(), false
	for i := range out {
		o := &out[i]
		if o.claim == nil {
			continue
		}
		if o.err = err; err == nil {
			o.err = writeCDI(l.cdiDir, o.claim)
		}
		if o.err != nil && o.isNew {
			l.forget(o.claim.UID)
			o.err = errors.Join(o.err, removeCDI(l.cdiDir, o.claim.UID))
			undone = true
		}
		if o.err != nil {
			o.claim = nil
		}
	}
	if undone {
		if err := l.save(); err != nil {
			for i := range out {
				if o := &out[i]; o.err != nil && o.isNew {
					o.err = errors.Join(o.err, err)
				}
			}
		}
	}
	return out
}

func (l *ledger) reserve(rc *resourceapi.ResourceClaim, near cpuset.Set) (_ *claim, isNew bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pods := podsOf(rc)
	if known := l.claims[rc.UID]; known != nil {
		if err := known.isFor(rc); err != nil {
			return nil, false, err
		}
		next := *known
		next.Namespace, next.Name, next.Pods = rc.Namespace, rc.Name, pods
		next.Grants = known.named(rc)
		l.claims[rc.UID] = &next
		return &next, false, nil
	}
	machine := l.machine
	machine.Near = near
	grants, terms, err := machine.Resolve(rc, l.held())
	if err != nil || len(grants) == 0 {
		return nil, false, err
	}
	c := &claim{UID: rc.UID, Namespace: rc.Namespace, Name: rc.Name, Pods: pods, Terms: terms, Grants: grants}
	if left := l.free().Minus(c.cpus()).Len(); left < l.minShared && !c.cpus().Empty() {
		return nil, false, fmt.Errorf("its %d CPUs would leave %d for containers without a claim, and minSharedCPUs is %d", c.cpus().Len(), left, l.minShared)
	}
	l.claims[c.UID] = c
	return c, true, nil
}

// isFor checks that the claim has not been allocated anew since it was prepared.
// Of a claim that only a CDI file told of, the devices are not known.
func (c *claim) isFor(rc *resourceapi.ResourceClaim) error {
	if rc.Status.Allocation == nil {
		return errors.New("the claim is not allocated")
	}
	var was, is []string
	for _, r := range rc.Status.Allocation.Devices.Results {
		if r.Driver == cpuset.DriverName {
			is = append(is, r.Request+"="+r.Device)
		}
	}
	for _, g := range c.Grants {
		if g.Device == "" {
			return nil
		}
		was = append(was, g.Request+"="+g.Device)
	}
	if !slices.Equal(was, is) {
		return fmt.Errorf("it was prepared with the devices %s and is allocated %s now: delete the pod, so that it can be prepared anew",
			strings.Join(was, " "), strings.Join(is, " "))
	}
	return nil
}

// named fills the names of the requests in where a CDI file told only of the CPUs.
func (c *claim) named(rc *resourceapi.ResourceClaim) []cpuset.Grant {
	is := &claim{}
	for _, r := range rc.Status.Allocation.Devices.Results {
		if r.Driver == cpuset.DriverName {
			is.Grants = append(is.Grants, cpuset.Grant{Request: r.Request})
		}
	}
	names, own := is.requests(), c.requests()
	if c.Grants[0].Device != "" || len(names) != len(own) {
		return c.Grants
	}
	grants := slices.Clone(c.Grants)
	for i := range grants {
		grants[i].Request = names[slices.Index(own, grants[i].Request)]
	}
	return grants
}

func podsOf(rc *resourceapi.ResourceClaim) []types.UID {
	var out []types.UID
	for _, r := range rc.Status.ReservedFor {
		if r.APIGroup == "" && r.Resource == "pods" {
			out = append(out, r.UID)
		}
	}
	return out
}

func (l *ledger) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.claims, uid)
}

// unprepare frees what claims have, and tells of those whose file can't be removed or who can't be taken off the
// checkpoint: they keep it, and kubelet asks again.
func (l *ledger) unprepare(uids ...types.UID) map[types.UID]error {
	failed, freed := map[types.UID]error{}, map[types.UID]*claim{}
	for _, uid := range uids {
		if err := removeCDI(l.cdiDir, uid); err != nil {
			failed[uid] = err
			continue
		}
		l.mu.Lock()
		if c := l.claims[uid]; c != nil {
			freed[uid] = c
			delete(l.claims, uid)
		}
		l.mu.Unlock()
	}
	if len(freed) == 0 {
		return failed
	}
	if err := l.save(); err != nil {
		l.mu.Lock()
		maps.Copy(l.claims, freed)
		l.mu.Unlock()
		for uid := range freed {
			failed[uid] = err
		}
	}
	return failed
}

// free is what no claim has and nobody has reserved. mu is held.
func (l *ledger) free() cpuset.Set {
	free := l.machine.Topology.All().Minus(l.machine.Exposure.Reserved)
	for _, c := range l.claims {
		free = free.Minus(c.cpus())
	}
	return free
}

// setMachine takes a change of the machine or of what is reserved. Claims keep their CPUs.
func (l *ledger) setMachine(m cpuset.Machine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.machine = m
}

// memoryNodes is nodes, for whoever doesn't hold mu.
func (l *ledger) memoryNodes(c *container) cpuset.Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes(c)
}

// counts are for the metrics.
func (l *ledger) counts() (claims, allocated, shared, reserved, containers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.claims {
		allocated += c.cpus().Len()
	}
	return len(l.claims), allocated, l.shared().Len(), l.machine.Topology.All().Intersect(l.machine.Exposure.Reserved).Len(), len(l.containers)
}

// passOn takes over which pods an unused claim is for. The pod that had it is its
// owner no more if it isn't among them. It tells whether anything has changed.
func (l *ledger) passOn(uid types.UID, pods []types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.claims[uid]
	if known == nil || len(pods) == 0 || slices.Equal(known.Pods, pods) {
		return false
	}
	next := *known
	if next.Pods = pods; !slices.Contains(pods, next.Owner) {
		next.Owner = ""
	}
	l.claims[uid] = &next
	return true
}

// unused lists the claims that no container uses.
func (l *ledger) unused() []*claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*claim
	for _, c := range l.sorted() {
		inUse := false
		for _, other := range l.containers {
			inUse = inUse || slices.ContainsFunc(other.uses, func(u use) bool { return u.claim == c.UID })
		}
		if !inUse {
			out = append(out, c)
		}
	}
	return out
}
