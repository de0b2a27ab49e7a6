package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
)

// Refusal is why the claims of a pod can't be allocated on the node that Slurm gave it.
type Refusal struct {
	Node, Why string
}

// gift is what one pod is to get.
type gift struct {
	pod *corev1.Pod
	// open are claims to allocate, and results what they get; held are allocated already.
	open, held []*resourcev1.ResourceClaim
	results    []resourcev1.AllocationResult
	// standIn is the claim for extended resources, whose result is the last one.
	standIn  *resourcev1.ResourceClaim
	mappings []corev1.ContainerExtendedResourceRequest
}

// Give allocates the claims of pods out of what Slurm granted them, all of them or none,
// and reserves them. It can be repeated. Where that can't be it tells why.
func (w *Writer) Give(ctx context.Context, pods []*corev1.Pod, granted map[types.UID]placement.Grant) (Refusal, error) {
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return len(pod.Spec.ResourceClaims) == 0 && w.served(pod) == nil })
	if len(pods) == 0 {
		return Refusal{}, nil
	}
	// Two that choose at once might choose the same.
	w.giving.Lock()
	defer w.giving.Unlock()
	var gifts []gift
	pending := map[types.UID]*resourcev1.ResourceClaim{}
	for _, pod := range pods {
		g := granted[pod.UID]
		one, why, err := w.plan(ctx, pod, g, pending)
		if err != nil {
			return Refusal{}, err
		}
		if why != "" {
			return Refusal{g.Node, why}, nil
		}
		gifts = append(gifts, one)
	}
	for _, one := range gifts {
		if err := w.hand(ctx, one); err != nil {
			return Refusal{}, err
		}
	}
	return Refusal{}, nil
}

// plan finds what a pod's claims get. pending has what pods before it get.
func (w *Writer) plan(ctx context.Context, pod *corev1.Pod, g placement.Grant, pending map[types.UID]*resourcev1.ResourceClaim) (gift, string, error) {
	out := gift{pod: pod}
	m, err := w.machine(g.Node)
	if err != nil {
		return out, "", err
	}
	if why := w.changed(m.Node, g.SlurmNode); why != "" {
		return out, why, nil
	}
	claims, missing := w.own(pod)
	if missing != "" {
		return out, missing, nil
	}
	for _, c := range claims {
		switch {
		case pending[c.UID] != nil:
			out.held = append(out.held, c)
		case c.Status.Allocation == nil:
			out.open = append(out.open, c)
		case reaches(c, m.kube):
			out.held = append(out.held, c)
		case w.loose(c):
			out.open = append(out.open, c)
		default:
			return out, fmt.Sprintf("ResourceClaim %s is allocated to another node", c.Name), nil
		}
	}
	wanted := slices.Clone(out.open)
	if served := w.served(pod); served != nil {
		if out.standIn, out.mappings = w.standIn(pod, m.kube, served); out.standIn != nil {
			done, err := w.given(ctx, pod, m, out)
			if err != nil || done {
				out.standIn = nil
				return out, "", err
			}
			wanted = append(wanted, out.standIn)
		}
	}
	if len(wanted) == 0 {
		return out, "", nil
	}
	var why string
	if out.results, why, err = w.fit(ctx, pod, m, device.Grant{Cores: g.Cores, GRES: g.GRES}, wanted, out.held, pending); err != nil || why != "" {
		return out, why, err
	}
	for i, c := range wanted {
		c = c.DeepCopy()
		c.Status.Allocation = &out.results[i]
		pending[uidFor(c, pod)] = c
	}
	return out, "", nil
}

// uidFor identifies a claim that isn't made yet by its pod.
func uidFor(c *resourcev1.ResourceClaim, pod *corev1.Pod) types.UID {
	if c.UID == "" {
		return pod.UID
	}
	return c.UID
}

// given tells whether the claim for a pod's extended resources is there already, for this node.
func (w *Writer) given(ctx context.Context, pod *corev1.Pod, m machine, g gift) (bool, error) {
	obj, exists, err := w.claims.GetByKey(pod.Namespace + "/" + nameOf(pod))
	if err != nil || !exists {
		return false, err
	}
	c := obj.(*resourcev1.ResourceClaim)
	if !metav1.IsControlledBy(c, pod) || c.Status.Allocation == nil || !reaches(c, m.kube) || !reservedFor(c, pod) {
		return false, nil
	}
	return true, w.tell(ctx, pod, c.Name, g.mappings)
}

// fit chooses devices, with a sentence where none suit.
func (w *Writer) fit(ctx context.Context, pod *corev1.Pod, m machine, g device.Grant, wanted, held []*resourcev1.ResourceClaim,
	pending map[types.UID]*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, string, error) {
	own := map[types.UID]bool{}
	for _, c := range wanted {
		own[c.UID] = true
	}
	others, err := w.holders(m, own, pending)
	if err != nil {
		return nil, "", err
	}
	results, err := w.allocate(ctx, m, g, wanted, others)
	if ctx.Err() != nil {
		return nil, "", fmt.Errorf("allocate the claims of pod %s/%s: %w", pod.Namespace, pod.Name, ctx.Err())
	}
	if results == nil {
		// Perhaps others have what Slurm gave, and then it is to be said who.
		var mine []*resourcev1.ResourceClaim
		for _, c := range held {
			if pending[c.UID] != nil || reservedFor(c, pod) {
				mine = append(mine, c)
			}
		}
		if anyway, _ := w.allocate(ctx, m, g, wanted, mine); anyway != nil {
			for _, r := range anyway {
				if err := w.free(ctx, pod, r, own); err != nil {
					return nil, sentence(err), nil
				}
			}
		}
		why := fmt.Sprintf("the ResourceClaims of pod %s can't be allocated from what Slurm gave of node %s", pod.Name, m.Name)
		if err != nil {
			why += ": " + err.Error()
		}
		return nil, why, nil
	}
	count := 0
	for _, r := range results {
		count = max(count, len(r.Devices.Results))
		if err := w.free(ctx, pod, r, own); err != nil {
			return nil, sentence(err), nil
		}
	}
	if count > resourcev1.AllocationResultsMaxSize {
		return nil, fmt.Sprintf("a ResourceClaim of pod %s needs %d devices, and Kubernetes allows %d in a claim", pod.Name, count, resourcev1.AllocationResultsMaxSize), nil
	}
	return results, "", nil
}

// sentence leaves out what only programs look for.
func sentence(err error) string { return strings.TrimPrefix(err.Error(), ErrWait.Error()+": ") }

// holders are the allocated claims that have devices of a node's pools.
func (w *Writer) holders(m machine, own map[types.UID]bool, pending map[types.UID]*resourcev1.ResourceClaim) ([]*resourcev1.ResourceClaim, error) {
	var out []*resourcev1.ResourceClaim
	seen := map[types.UID]bool{}
	everywhere, err := w.published(everyNode)
	if err != nil {
		return nil, err
	}
	pools := map[string]bool{}
	for _, s := range slices.Concat(m.published, everywhere) {
		key := s.Spec.Driver + "/" + s.Spec.Pool.Name
		if pools[key] {
			continue
		}
		pools[key] = true
		objs, err := w.claims.ByIndex(indexPool, key)
		if err != nil {
			return nil, fmt.Errorf("find the ResourceClaims of pool %s: %w", key, err)
		}
		for _, obj := range objs {
			c := obj.(*resourcev1.ResourceClaim)
			if c.Status.Allocation != nil && !own[c.UID] && !seen[c.UID] && pending[c.UID] == nil {
				seen[c.UID] = true
				out = append(out, c)
			}
		}
	}
	for _, c := range pending {
		out = append(out, c)
	}
	return out, nil
}

// hand writes what a pod gets.
func (w *Writer) hand(ctx context.Context, g gift) error {
	for i, c := range g.open {
		if _, err := w.put(ctx, g.pod, c, &g.results[i]); err != nil {
			return err
		}
	}
	for _, c := range g.held {
		now, err := w.latest(c)
		if err != nil {
			return err
		}
		if _, err := w.put(ctx, g.pod, now, nil); err != nil {
			return err
		}
	}
	if g.standIn == nil {
		return nil
	}
	plan := &device.Claim{Requests: g.standIn.Spec.Devices.Requests, Allocation: g.results[len(g.results)-1], Mappings: g.mappings}
	claim, err := w.extended(ctx, g.pod, plan)
	if err != nil {
		return err
	}
	return w.tell(ctx, g.pod, claim.Name, g.mappings)
}

// latest returns a claim as it was last written here or seen.
func (w *Writer) latest(c *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	obj, exists, err := w.claims.GetByKey(c.Namespace + "/" + c.Name)
	if err != nil || !exists {
		return nil, fmt.Errorf("ResourceClaim %s/%s is gone: %w", c.Namespace, c.Name, errors.Join(ErrWait, err))
	}
	return obj.(*resourcev1.ResourceClaim), nil
}

// put reserves a claim for a pod, and allocates it first where a is given.
func (w *Writer) put(ctx context.Context, pod *corev1.Pod, c *resourcev1.ResourceClaim, a *resourcev1.AllocationResult) (*resourcev1.ResourceClaim, error) {
	if a == nil && reservedFor(c, pod) {
		return c, nil
	}
	var err error
	if a != nil {
		// An allocation can't be changed, only taken back.
		if c.Status.Allocation != nil {
			if c, err = w.loosen(ctx, c); err != nil {
				return nil, err
			}
		}
		if c, err = w.protect(ctx, c); err != nil {
			return nil, err
		}
	}
	c = c.DeepCopy()
	if a != nil {
		now := metav1.NewTime(time.Now())
		a = a.DeepCopy()
		a.AllocationTimestamp = &now
		c.Status.Allocation = a
	}
	c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	return w.writeStatus(ctx, c)
}

// protect adds the finalizer by which Kubernetes takes an allocation back when nobody uses it any more.
func (w *Writer) protect(ctx context.Context, c *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	if slices.Contains(c.Finalizers, resourcev1.Finalizer) {
		return c, nil
	}
	c = c.DeepCopy()
	c.Finalizers = append(c.Finalizers, resourcev1.Finalizer)
	out, err := w.Client.ResourceV1().ResourceClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, fmt.Errorf("protect ResourceClaim %s/%s: %w", c.Namespace, c.Name, err)
	}
	w.claims.Mutation(out)
	return out, nil
}

// loosen takes an allocation back.
func (w *Writer) loosen(ctx context.Context, c *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	c = c.DeepCopy()
	c.Status.Allocation, c.Status.ReservedFor, c.Status.Devices = nil, nil, nil
	return w.writeStatus(ctx, c)
}

func (w *Writer) writeStatus(ctx context.Context, c *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	out, err := w.Client.ResourceV1().ResourceClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, fmt.Errorf("write the allocation of ResourceClaim %s/%s: %w", c.Namespace, c.Name, err)
	}
	w.claims.Mutation(out)
	if c.Status.Allocation != nil && (out.Status.Allocation == nil || len(out.Status.Allocation.Devices.Results) != len(c.Status.Allocation.Devices.Results)) {
		return nil, fmt.Errorf("the API server dropped parts of the allocation of ResourceClaim %s/%s: "+
			"check its feature gates, such as DRAConsumableCapacity", c.Namespace, c.Name)
	}
	return out, nil
}

// Loosen takes back what the claims of pods got that run nowhere and have no job any more:
// others may be given it.
func (w *Writer) Loosen(ctx context.Context, pods []*corev1.Pod) error {
	var errs []error
	for _, pod := range pods {
		if len(pod.Spec.ResourceClaims) == 0 && pod.Status.ExtendedResourceClaimStatus == nil {
			continue
		}
		claims, _ := w.own(pod)
		for _, c := range claims {
			if c.Status.Allocation == nil || !reservedFor(c, pod) || !w.loose(c) {
				continue
			}
			if _, err := w.loosen(ctx, c); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				errs = append(errs, err)
			}
		}
		if w.served(pod) != nil && pod.Status.ExtendedResourceClaimStatus != nil {
			errs = append(errs, w.Release(ctx, pod))
		}
	}
	return errors.Join(errs...)
}
