package robust

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

// nativesAtOnce is how many of Slurm's own users there are, each with a job at a time.
const nativesAtOnce = 3

// natives are Slurm's own users, who run batch jobs on nodes where pods run, too.
type natives struct {
	stop    context.CancelFunc
	running sync.WaitGroup
	taken   atomic.Int64
}

// natives starts them. A job ends by itself, so none is left, also of those whose answer was lost.
func (w *world) natives(t *testing.T, seed uint64) *natives {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	n := &natives{stop: cancel}
	t.Cleanup(n.finish)
	client := w.cluster.Client(t, "root")
	n.running.Go(func() { resume(ctx, client) })
	for i := range nativesAtOnce {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		n.running.Go(func() {
			for ctx.Err() == nil {
				lasting := time.Duration(300+random.IntN(1500)) * time.Millisecond
				_, err := client.Submit(ctx, slurm.JobRequest{
					Name: nativeName, Partition: partitionOfSlurmd, MinimumNodes: 1, MaximumNodes: 1, CPUsPerTask: 1 + uint32(random.IntN(3)),
					MemoryPerNode: slurm.NumberOf(100), WorkingDirectory: "/tmp", Environment: []string{"PATH=/usr/bin:/bin"},
					TimeLimit: slurm.NumberOf(1), Script: fmt.Sprintf("#!/bin/sh\nexec sleep %.3f\n", lasting.Seconds()),
				})
				if err == nil { // else Slurm is away, which is the fault's doing
					n.taken.Add(1)
				}
				select {
				case <-time.After(lasting):
				case <-ctx.Done():
				}
			}
		})
	}
	return n
}

// resume is the administrator, who gives nodes back that Slurm has drained: a slurmctld that was killed
// launches a batch job again, and the slurmd that has it refuses.
func resume(ctx context.Context, client *rest.Client) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		nodes, err := client.Nodes(ctx)
		if err != nil {
			continue // a fault of slurmctld or slurmrestd
		}
		for _, node := range nodes {
			if node.States.Has(slurm.NodeDrain) && !strings.HasPrefix(node.Reason, v1beta1.BridgeReasonPrefix) {
				_ = client.UpdateNode(ctx, node.Name, slurm.NodeUpdate{State: "RESUME"}) // else next time
			}
		}
	}
}

// finish lets no more jobs come.
func (n *natives) finish() {
	n.stop()
	n.running.Wait()
}
