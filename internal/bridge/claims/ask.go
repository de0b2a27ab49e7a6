package claims

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/device"
)

// Asked is what the claims of some pods mean for the one job of these.
type Asked struct {
	// Takes is what each pod's claims take of its node, as Slurm counts it.
	Takes map[types.UID]device.Demand
	// Lacks tells why nodes can't serve the claims, by their names.
	Lacks map[string]string
	// OneNode tells that several of the pods share a claim, and so a node.
	OneNode bool
	// Missing is why nothing can be asked for yet, "" if it can.
	Missing string
}

// Ask finds out what the claims of the pods of a job take, and which of the named nodes
// can serve them when nobody else is there. Pods without claims cost nothing.
func (w *Writer) Ask(ctx context.Context, pods []*corev1.Pod, nodes []string) (Asked, error) {
	out := Asked{Takes: map[types.UID]device.Demand{}, Lacks: map[string]string{}}
	users := map[types.UID]int{}
	for _, pod := range pods {
		claims, missing := w.own(pod)
		if missing != "" {
			return Asked{Missing: missing}, nil
		}
		served := w.served(pod)
		for name, class := range served {
			if _, err := w.classes.Get(class); err != nil {
				return Asked{Missing: fmt.Sprintf("DeviceClass %s, which pod %s needs for its %s, doesn't exist", class, pod.Name, name)}, nil
			}
		}
		if len(claims) == 0 && len(served) == 0 {
			continue
		}
		var open []*resourcev1.ResourceClaim
		for _, c := range claims {
			users[c.UID]++
			switch {
			case users[c.UID] > 1:
				out.OneNode = true // the first one brings it along
			case c.Status.Allocation == nil || w.loose(c):
				open = append(open, c)
			default:
				if len(c.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize && !reservedFor(c, pod) {
					return Asked{Missing: fmt.Sprintf("ResourceClaim %s is in use by %d pods, as many as may use one", c.Name, len(c.Status.ReservedFor))}, nil
				}
				w.pinned(c, nodes, out.Lacks)
			}
		}
		if len(open) == 0 && len(served) == 0 {
			continue
		}
		demand, err := w.demand(ctx, pod, open, served, nodes, out.Lacks)
		if err != nil {
			return out, err
		}
		out.Takes[pod.UID] = demand
	}
	return out, nil
}

// pinned leaves out the nodes where an allocated claim can't be used.
func (w *Writer) pinned(c *resourcev1.ResourceClaim, nodes []string, lacks map[string]string) {
	for _, name := range nodes {
		if node, err := w.nodes.Get(name); err == nil && !reaches(c, node) {
			lacks[name] = fmt.Sprintf("its ResourceClaim %s is allocated to another node", c.Name)
		}
	}
}

// demand returns what claims take of each node that can serve them, and tells why others can't.
func (w *Writer) demand(ctx context.Context, pod *corev1.Pod, open []*resourcev1.ResourceClaim, served map[corev1.ResourceName]string,
	nodes []string, lacks map[string]string) (device.Demand, error) {
	key, err := shapeOf(pod, open, served)
	if err != nil {
		return device.Demand{}, err
	}
	var offers []device.Offer
	for _, name := range nodes {
		if lacks[name] != "" {
			continue
		}
		e, err := w.estimate(ctx, key, name, pod, open, served)
		if err != nil {
			return device.Demand{}, err
		}
		if e.why != "" {
			lacks[name] = e.why
			continue
		}
		offers = append(offers, e.offer)
	}
	demand, except := device.Agree(offers)
	maps.Copy(lacks, except)
	return demand, nil
}

// shapeOf is the same for claims that the same nodes serve with the same.
func shapeOf(pod *corev1.Pod, open []*resourcev1.ResourceClaim, served map[corev1.ResourceName]string) (string, error) {
	var specs []resourcev1.ResourceClaimSpec
	for _, c := range open {
		specs = append(specs, c.Spec)
	}
	all := []any{specs, served}
	if len(served) > 0 {
		var asked []corev1.ResourceRequirements
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			asked = append(asked, c.Resources)
		}
		all = append(all, asked)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("compare the claims of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return string(text), nil
}

// estimate is a node's offer, or why it makes none.
type estimate struct {
	offer device.Offer
	why   string
}

// estimate asks a node that nobody uses.
func (w *Writer) estimate(ctx context.Context, key, node string, pod *corev1.Pod, open []*resourcev1.ResourceClaim,
	served map[corev1.ResourceName]string) (estimate, error) {
	if e, ok := w.estimates.get(key, node); ok {
		return e, nil
	}
	epoch := w.estimates.epoch()
	m, err := w.machine(node)
	if err != nil {
		return estimate{}, err
	}
	// The answer is for all claims alike, whose ever they are.
	wanted := make([]*resourcev1.ResourceClaim, 0, len(open)+1)
	for i, c := range open {
		wanted = append(wanted, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i + 1), UID: c.UID}, Spec: c.Spec})
	}
	plugin := device.Demand{GRES: map[string]int64{}}
	if len(served) > 0 {
		if c, _ := w.standIn(pod, m.kube, served); c != nil {
			c.Name, c.Namespace = "for extended resources", ""
			wanted = append(wanted, c)
		}
		plugin.GRES = device.PluginGRES(pod, m.kube, served)
	}
	e := estimate{offer: m.OfferOf(nil, nil)}
	if m.Unsettled != "" {
		return estimate{why: m.Unsettled}, nil // not kept: it will settle
	}
	if len(wanted) > 0 {
		results, err := w.allocate(ctx, m, m.Whole(), wanted, nil)
		switch {
		case ctx.Err() != nil:
			return e, fmt.Errorf("ask node %s: %w", node, ctx.Err())
		case err != nil:
			e.why = err.Error()
		case results == nil:
			e.why = "it has no devices that its claims would take"
		default:
			e.offer = m.OfferOf(wanted, results)
		}
	}
	for name, n := range plugin.GRES {
		e.offer.GRES[name] += n
	}
	w.estimates.put(key, node, epoch, e)
	return e, nil
}
