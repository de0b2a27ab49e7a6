package robust

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// variable allows the long run, and gives its seed: any number.
const variable = "SLINKY_TEST_ROBUST"

// TestFaults sends workloads through the bridge while each process is killed and
// frozen in turn. The short run makes each fault once; SLINKY_TEST_ROBUST=SEED makes a
// long one of 500 workloads.
func TestFaults(t *testing.T) {
	workloads, rounds, seed := 60, 1, uint64(1)
	if value := os.Getenv(variable); value != "" {
		var err error
		if seed, err = strconv.ParseUint(value, 10, 64); err != nil {
			t.Fatalf("%s is %q: it must be a number, the seed", variable, value)
		}
		workloads, rounds = 500, 4
	}
	w := newWorld(t, 6)
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d: %d workloads, each fault %d times", seed, workloads, rounds)

	u := newUsers(w, workloads, random.Uint64())
	u.start(t)
	for range rounds {
		faults := w.faults()
		random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		for _, f := range faults {
			// Work must be under way, so that the fault meets some.
			u.progress(t, workloads/(rounds*len(faults)*2))
			t.Logf("%s: %s", time.Now().Format(time.TimeOnly), f.name)
			f.strike(t, time.Duration(200+random.IntN(1800))*time.Millisecond)
		}
	}
	u.finish(t)
	w.quiet(t)
	u.check(t)
	w.checkJobs(t, u)
}

// fault is one thing that goes wrong. strike returns when it is over.
type fault struct {
	name   string
	strike func(t *testing.T, lasting time.Duration)
}

// faults returns the killing and the freezing of each process.
func (w *world) faults() []fault {
	var out []fault
	for _, p := range []*program{w.bridge, w.scheduler} {
		out = append(out,
			fault{"kill " + p.name, func(t *testing.T, lasting time.Duration) {
				p.kill(t)
				pause(lasting)
				p.start(t)
			}},
			fault{"freeze " + p.name, func(t *testing.T, lasting time.Duration) {
				p.signal(t, sigStop)
				pause(lasting)
				p.signal(t, sigCont)
			}})
	}
	for _, daemon := range []string{"slurmctld", "slurmrestd"} {
		out = append(out,
			fault{"kill " + daemon, func(t *testing.T, lasting time.Duration) {
				w.cluster.Kill(t, daemon)
				pause(lasting)
				w.cluster.Restart(t, daemon)
			}},
			fault{"freeze " + daemon, func(t *testing.T, lasting time.Duration) {
				w.cluster.Stop(t, daemon)
				pause(lasting)
				w.cluster.Continue(t, daemon)
			}})
	}
	return out
}

// pause lets time pass that a fault lasts: it is the fault, not a wait for something.
func pause(d time.Duration) { <-time.After(d) }

func name(workload, attempt int) string { return fmt.Sprintf("w%d-%d", workload, attempt) }
