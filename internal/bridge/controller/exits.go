package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// exit is the exit code of a job's pods, for Slurm's database.
type exit struct {
	id   uint32
	code uint8
}

type exitQueue = workqueue.TypedRateLimitingInterface[exit]

func newExitQueue() exitQueue {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[exit](time.Second, time.Minute))
}

// exitTries bounds how often the database is asked: a Slurm may have none, and
// the job's id may be another job's after long.
const exitTries = 6

// accountExits tells Slurm's database the exit codes of pods that failed. It is
// apart from the jobs' ends, which don't wait for the database.
func (b *Bridge) accountExits(ctx context.Context) error {
	stop := context.AfterFunc(ctx, b.exits.ShutDown)
	defer stop()
	for {
		e, done := b.exits.Get()
		if done {
			return nil
		}
		err := b.Slurm.SetDerivedExitCode(ctx, e.id, e.code)
		switch {
		case err == nil:
			b.exits.Forget(e)
		case ctx.Err() == nil && !errors.Is(err, slurm.ErrAuth) && b.exits.NumRequeues(e) < exitTries:
			b.exits.AddRateLimited(e)
		default:
			log.FromContext(ctx).V(1).Info("Slurm's database has no exit code of a job", "job", e.id, "code", e.code, "why", err)
			b.exits.Forget(e)
		}
		b.exits.Done(e)
	}
}

// outcomes holds how pods ended that may be gone before their job is.
type outcomes struct {
	mu  sync.Mutex
	all map[types.UID]workload.PodEnd
}

// remember keeps how a pod ended until its jobs have.
func (b *Bridge) remember(pod *corev1.Pod) {
	b.outcomes.mu.Lock()
	defer b.outcomes.mu.Unlock()
	if b.outcomes.all == nil {
		b.outcomes.all = map[types.UID]workload.PodEnd{}
	}
	b.outcomes.all[pod.UID] = workload.EndOf(pod)
}

func (b *Bridge) recall(uid types.UID) workload.PodEnd {
	b.outcomes.mu.Lock()
	defer b.outcomes.mu.Unlock()
	return b.outcomes.all[uid]
}

// forget drops what is kept of a job's pods.
func (b *Bridge) forget(mark workload.Mark) {
	b.outcomes.mu.Lock()
	defer b.outcomes.mu.Unlock()
	for _, uid := range mark.Pods {
		delete(b.outcomes.all, uid)
	}
}
