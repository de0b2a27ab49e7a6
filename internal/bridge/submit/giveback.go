package submit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// avoidFor is how long a node is left out that Kubernetes refused for a workload.
const avoidFor = 5 * time.Minute

// refusals are the nodes that Slurm gave and that Kubernetes' own filters don't let the pods
// use: the two may know different things for a while, but Slurm mustn't hold nodes for nothing.
type refusals struct {
	mu   sync.Mutex
	pods map[types.UID]refusal
	// avoid is until when a workload does without which nodes, by their names in Kubernetes.
	avoid map[workload.Key]map[string]refusal
}

type refusal struct {
	node, why string
	// at is when it began or, of a node to avoid, when it ends.
	at time.Time
}

func newRefusals() refusals {
	return refusals{pods: map[types.UID]refusal{}, avoid: map[workload.Key]map[string]refusal{}}
}

// note notes a refusal and tells whether it is the first of this node for the pod.
func (r *refusals) note(pod types.UID, node, why string, now time.Time) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	had, ok := r.pods[pod]
	if ok && had.node == node {
		r.pods[pod] = refusal{node, why, had.at}
		return false
	}
	r.pods[pod] = refusal{node, why, now}
	return true
}

func (r *refusals) forget(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, pod)
}

// due returns the refusal of one of the pods that has lasted long enough for its job to be given back.
func (r *refusals) due(pods []*corev1.Pod, placed map[types.UID]placement.Grant, before time.Time) (refusal, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range pods {
		if had, ok := r.pods[pod.UID]; ok && had.node == placed[pod.UID].Node && !had.at.After(before) {
			return had, true
		}
	}
	return refusal{}, false
}

func (r *refusals) avoidUntil(key workload.Key, had refusal, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, nodes := range r.avoid {
		maps.DeleteFunc(nodes, func(_ string, n refusal) bool { return n.at.Before(until.Add(-avoidFor)) })
		if len(nodes) == 0 {
			delete(r.avoid, k)
		}
	}
	if r.avoid[key] == nil {
		r.avoid[key] = map[string]refusal{}
	}
	r.avoid[key][had.node] = refusal{had.node, had.why, until}
}

// avoided are the nodes that a workload does without now, and why.
func (r *refusals) avoided(key workload.Key, now time.Time) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]string{}
	for name, n := range r.avoid[key] {
		if now.Before(n.at) {
			out[name] = n.why
		}
	}
	return out
}

// hearRefusals notes what the plugin tells of pods that can't use their nodes, until the context ends.
func (s *Submitter) hearRefusals(ctx context.Context) {
	for {
		select {
		case r := <-s.Table.Refused():
			if s.refusals.note(r.Pod.UID, r.Node, r.Why, s.Now()) {
				s.queue.AddAfter(s.Kinds.KeyOf(r.Pod), s.GiveBack)
			}
		case <-ctx.Done():
			return
		}
	}
}

// giveBack tells why a job's nodes are of no use to its pods, "" while there is hope. A job
// some of whose pods run is kept.
func (s *Submitter) giveBack(key workload.Key, step workload.Step, placed map[types.UID]placement.Grant) string {
	if !slices.Equal(uids(step.Pods), slices.Sorted(slices.Values(step.Mark.Pods))) {
		return ""
	}
	had, ok := s.refusals.due(step.Pods, placed, s.Now().Add(-s.GiveBack))
	if !ok {
		return ""
	}
	s.refusals.avoidUntil(key, had, s.Now().Add(avoidFor))
	for _, pod := range step.Pods {
		s.refusals.forget(pod.UID)
	}
	return fmt.Sprintf("node %s can't be used, as Kubernetes says: %s", had.node, strings.TrimSpace(had.why))
}

func uids(pods []*corev1.Pod) []types.UID {
	var out []types.UID
	for _, pod := range pods {
		out = append(out, pod.UID)
	}
	slices.Sort(out)
	return out
}

// without leaves out the nodes that Kubernetes has refused for the workload lately.
func (s *Submitter) without(f workload.Feasibility, key workload.Key) workload.Feasibility {
	avoided := s.refusals.avoided(key, s.Now())
	if len(avoided) == 0 {
		return f
	}
	return f.Without(func(n *workload.NodeFacts) string {
		if why, ok := avoided[n.Node.Name]; ok {
			return "Kubernetes refused it lately: " + why
		}
		return ""
	})
}
