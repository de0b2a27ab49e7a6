package robust

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
)

// leaseOfBridge is that of the controllers, as published.
const leaseOfBridge = "69d5fe47.my.slinky.slurm.net"

// leadersFail runs two of each program, as the chart does with two replicas: with its rights, and
// with leases of 15 seconds. Both leaders are frozen; in the long run they are killed, too. The others
// go on with the work; who wakes up and leads no more ends, and has written nothing.
func leadersFail(t *testing.T, built func() (string, error)) {
	s := newScene(t, built, 2, 40)
	leaders := [2]*pair{{world: s.world, lease: leaseOfBridge, both: s.bridges}, {world: s.world, lease: config.DefaultSchedulerName, both: s.schedulers}}
	for _, p := range leaders {
		p.find(t)
	}
	if os.Getenv(long) != "" {
		killLeaders(t, s, leaders)
	}
	s.users.reach(t, s.users.finished(t)+5)
	s.faults.during("leaders", false, func() {
		for _, p := range leaders {
			p.leader.signal(t, syscall.SIGSTOP)
			p.failed = time.Now()
		}
		var frozen []*program
		for _, p := range leaders {
			frozen = append(frozen, p.leader)
			p.successor(t)
		}
		// They wake up in the midst of the others' work.
		s.users.reach(t, s.users.finished(t)+5)
		for _, p := range frozen {
			p.signal(t, syscall.SIGCONT)
		}
		for _, p := range frozen {
			p.endsByItself(t)
			p.start(t)
		}
	})
	s.finish(t)
}

func killLeaders(t *testing.T, s *scene, leaders [2]*pair) {
	t.Helper()
	s.users.reach(t, 5)
	s.faults.during("leaders", true, func() {
		for _, p := range leaders {
			p.leader.kill(t)
			p.failed = time.Now()
		}
		for _, p := range leaders {
			killed := p.leader
			p.successor(t)
			killed.start(t) // it stands by from now on
		}
	})
}

// pair is two processes of which one leads.
type pair struct {
	*world
	lease  string
	both   []*program
	leader *program
	holder string
	failed time.Time
}

// find learns who leads: each writes it into its log.
func (p *pair) find(t *testing.T) {
	t.Helper()
	apitest.Eventually(t, time.Minute, "somebody has lease "+p.lease, func() error {
		lease, err := p.kube.CoordinationV1().Leases("slinky").Get(t.Context(), p.lease, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || *lease.Spec.HolderIdentity == p.holder {
			return errWait
		}
		holder := *lease.Spec.HolderIdentity
		for _, candidate := range p.both {
			if strings.Contains(strings.ToLower(candidate.text()), "successfully acquired lease") {
				p.leader, p.holder = candidate, holder
			}
		}
		if p.holder != holder {
			return fmt.Errorf("%w: no log tells who %s is", errWait, holder)
		}
		return nil
	})
}

// successor waits until the other one leads.
func (p *pair) successor(t *testing.T) {
	t.Helper()
	apitest.Eventually(t, time.Minute, "another has lease "+p.lease, func() error {
		lease, err := p.kube.CoordinationV1().Leases("slinky").Get(t.Context(), p.lease, metav1.GetOptions{})
		if err == nil && *lease.Spec.HolderIdentity == p.holder {
			err = errWait
		}
		if err == nil {
			p.holder = *lease.Spec.HolderIdentity
		}
		return err
	})
	for _, other := range p.both {
		if other != p.leader {
			p.leader = other
			break
		}
	}
	t.Logf("another %s leads %s after its leader failed", p.leader.name, time.Since(p.failed).Round(time.Millisecond))
}
