package submit

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// A waiting job's place, blockers and expected start change all the time, and
// thousands may wait. So a pod is told once when its job is queued, and again by
// walks through all that wait, each of which writes to a few: to those whose
// reason has become another one, to the next in the queue, and to those that were
// told the longest ago. What a walk costs doesn't grow with the number of writes due.
const (
	retellEvery = 30 * time.Second
	retellMost  = 60
	// queueAge is how old the queue may be that a sentence is made from, and
	// newQueueAge if it doesn't have the job yet.
	queueAge    = 10 * time.Second
	newQueueAge = 2 * time.Second
)

// queueView is Slurm's queue as it was a moment ago, for all that wait.
type queueView struct {
	mu sync.Mutex
	q  *explain.Queue
	at time.Time
}

func (s *Submitter) queueWith(id uint32) *explain.Queue {
	v := &s.slurmQueue
	v.mu.Lock()
	defer v.mu.Unlock()
	age := s.Now().Sub(v.at)
	if v.q == nil || age > queueAge || age > newQueueAge && !v.q.Has(id) {
		v.q, v.at = explain.NewQueue(s.View.Jobs(), s.View.Nodes()), s.Now()
	}
	return v.q
}

// waiting is one sentence on why a job waits.
func (s *Submitter) waiting(j slurm.Job) string {
	return explain.Waiting(j, s.queueWith(j.ID), s.Now())
}

// keepTelling tells pods that wait how things stand, until the context ends.
func (s *Submitter) keepTelling(ctx context.Context) {
	tick := time.NewTicker(retellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, n := range s.news() {
			if err := s.retell(ctx, n); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Can't tell a pod how its job stands")
			}
		}
	}
}

// news is what a waiting pod has to be told.
type news struct {
	pod    *corev1.Pod
	reason string
	text   string
	place  int
	last   told
}

// news returns what is most worth telling, at most retellMost.
func (s *Submitter) news() []news {
	if !s.View.Synced() {
		return nil
	}
	pods, err := s.Sources.Pods.Lister().List(labels.Everything())
	if err != nil {
		return nil // an informer's store has no errors
	}
	var all []news
	for _, pod := range pods {
		if !s.ours(pod) || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		last := s.lastTold(pod)
		if last.reason != reasonQueued {
			continue
		}
		for _, j := range s.Index.Naming(pod.UID) {
			if !j.States.Has(slurm.JobPending) {
				continue
			}
			if text := s.waiting(j); text != last.text {
				place, _ := s.queueWith(j.ID).Position(j)
				all = append(all, news{pod: pod, reason: j.Reason, text: text, place: place, last: last})
			}
			break
		}
	}
	return worthTelling(all, retellMost)
}

// worthTelling picks n: those whose reason changed, then, in turn, the next of the
// queue and the one told the longest ago.
func worthTelling(all []news, n int) []news {
	if len(all) <= n {
		return all
	}
	changed := func(a news) bool { return a.last.word != "" && a.last.word != a.reason }
	slices.SortStableFunc(all, func(a, b news) int {
		return cmp.Or(-compareBool(changed(a), changed(b)), cmp.Compare(a.place, b.place))
	})
	front := 0
	for front < len(all) && changed(all[front]) {
		front++
	}
	front = min(n, front+(n-min(front, n))/2)
	rest := all[front:]
	slices.SortStableFunc(rest, func(a, b news) int { return a.last.at.Compare(b.last.at) })
	return all[:n]
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func (s *Submitter) retell(ctx context.Context, n news) error {
	s.Table.Hold(n.pod.UID, n.text)
	if err := s.setCondition(ctx, n.pod, corev1.ConditionFalse, reasonQueued, n.text, ""); err != nil {
		return err
	}
	s.setTold(n.pod, told{reason: reasonQueued, text: n.text, at: s.Now(), word: n.reason, sluid: n.last.sluid})
	if key := s.Kinds.KeyOf(n.pod); key.Kind != workload.KindPod {
		s.queue.Add(key) // its group says the same
	}
	if explain.NeedsPerson(n.reason) && n.last.word != n.reason {
		s.event(n.pod, held{reason: v1beta1.ReasonSlurmNeedsAction, text: n.text, warn: true})
	}
	return nil
}
