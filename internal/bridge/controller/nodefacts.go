package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

const (
	// indexSliceNode finds ResourceSlices by the Kubernetes nodes that they are about.
	indexSliceNode = "sliceNode"
	// indexOwnNode finds the bridge's own pods that its taint would end, by node.
	indexOwnNode = "ownPodNode"
	// ownAccounts begins the names of the service accounts that the bridge runs as.
	ownAccounts = "slurm-bridge"
)

// indexNodes adds the indexes that facts on nodes are read by. slices tells whether
// the API server has ResourceSlices.
func (b *Bridge) indexNodes(ctx context.Context, mgr manager.Manager, slices bool) error {
	indexer := mgr.GetFieldIndexer()
	err := indexer.IndexField(ctx, &corev1.Node{}, indexSlurmName, func(o client.Object) []string {
		return []string{placement.SlurmName(o.(*corev1.Node))}
	})
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &corev1.Pod{}, indexOwnNode, func(o client.Object) []string {
		if pod := o.(*corev1.Pod); strings.HasPrefix(pod.Spec.ServiceAccountName, ownAccounts) && b.ends(pod) {
			return []string{pod.Spec.NodeName}
		}
		return nil
	})
	if err != nil || !slices {
		return err
	}
	return indexer.IndexField(ctx, &resourcev1.ResourceSlice{}, indexSliceNode, func(o client.Object) []string {
		return device.NodesOf(o.(*resourcev1.ResourceSlice))
	})
}

// ends tells whether the bridge's taint would end a pod.
func (b *Bridge) ends(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		managed := mirror.Taint(b.Nodes)
		return t.TolerationSeconds == nil && (t.Effect == "" || t.Effect == managed.Effect) &&
			(t.Operator == corev1.TolerationOpExists && (t.Key == "" || t.Key == managed.Key) ||
				t.Operator != corev1.TolerationOpExists && t.Key == managed.Key && t.Value == managed.Value)
	})
}

// servesSlices tells whether the API server has ResourceSlices in the version that is read here.
func servesSlices(mgr manager.Manager) (bool, error) {
	gvk := resourcev1.SchemeGroupVersion.WithKind("ResourceSlice")
	_, err := mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask whether the API server has ResourceSlices: %w", err)
	}
	return true, nil
}

// onSlices queues the nodes that a ResourceSlice is about.
func (b *Bridge) onSlices() handler.TypedEventHandler[client.Object, string] {
	all := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[string]) {
		s, ok := o.(*resourcev1.ResourceSlice)
		if !ok {
			return
		}
		for _, name := range device.NodesOf(s) {
			var n corev1.Node
			if b.Client.Get(ctx, client.ObjectKey{Name: name}, &n) == nil {
				q.Add(placement.SlurmName(&n))
			}
		}
	}
	return handler.TypedFuncs[client.Object, string]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[client.Object], q workqueue.TypedRateLimitingInterface[string]) {
			all(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[client.Object], q workqueue.TypedRateLimitingInterface[string]) {
			all(ctx, e.ObjectOld, q)
			all(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[client.Object], q workqueue.TypedRateLimitingInterface[string]) {
			all(ctx, e.Object, q)
		},
	}
}

// nodeFacts collects what is known about a node, by its name in Slurm.
func (r *nodeMirror) nodeFacts(ctx context.Context, name string) (mirror.Facts, error) {
	f := mirror.Facts{Policy: r.Nodes, Now: time.Now()}
	var err error
	f.Slurm = r.slurmNode(name)
	if f.Kube, err = r.kubeNode(ctx, name); err != nil || f.Kube == nil {
		return f, err
	}
	var slices []*resourcev1.ResourceSlice
	if r.slices {
		var list resourcev1.ResourceSliceList
		if err := r.Client.List(ctx, &list, client.MatchingFields{indexSliceNode: f.Kube.Name}); err != nil {
			return f, fmt.Errorf("find the ResourceSlices of node %s: %w", f.Kube.Name, err)
		}
		for i := range list.Items {
			slices = append(slices, &list.Items[i])
		}
	}
	f.Devices = device.Of(f.Kube, slices, r.Drivers)
	if f.Uninstalled, err = r.uninstalled(ctx, f); err != nil {
		return f, err
	}
	if f.Slurm != nil && !f.Slurm.States.Has(slurm.NodeExternal) {
		var own corev1.PodList
		if err := r.Client.List(ctx, &own, client.MatchingFields{indexOwnNode: f.Kube.Name}); err != nil {
			return f, fmt.Errorf("find the bridge's own pods on node %s: %w", f.Kube.Name, err)
		}
		for _, pod := range own.Items {
			f.OwnPods = append(f.OwnPods, pod.Namespace+"/"+pod.Name)
		}
	}
	return f, nil
}

// uninstalled returns the driver that the node misses, if no DeviceClass is for it. The
// published role can't list classes: where it is bound still, nothing is known of them.
func (r *nodeMirror) uninstalled(ctx context.Context, f mirror.Facts) ([]string, error) {
	gone := mirror.DriversAway(f.Slurm, f.Devices)
	if gone == "" {
		return nil, nil
	}
	var classes resourcev1.DeviceClassList
	switch err := r.Live.List(ctx, &classes); {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for a DeviceClass of driver %s, which publishes no devices on node %s: %w", gone, f.Kube.Name, err)
	case device.Installed(gone, classes.Items):
		return nil, nil
	}
	return []string{gone}, nil
}

// namedBy returns a job that hasn't ended and asks for a node or against it, 0 if there is none.
func (r *nodeMirror) namedBy(node string) uint32 {
	for _, j := range r.View.Jobs() {
		if j.States.JobEnded() {
			continue
		}
		lists := []string{j.Asked.RequiredNodes}
		if j.States.Has(slurm.JobPending) {
			// One that runs survives the loss of a node that it excluded.
			lists = append(lists, j.Asked.ExcludedNodes)
		}
		for _, list := range lists {
			if names, err := hostlist.Expand(list); err != nil || slices.Contains(names, node) {
				return j.ID
			}
		}
	}
	return 0
}

// notes are what was said last about each node, so that each sentence is said once.
type notes struct {
	mu   sync.Mutex
	last map[string]string
}

// news tells whether a text about a node is another than the last.
func (n *notes) news(node, text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last[node] == text {
		return false
	}
	if n.last == nil {
		n.last = map[string]string{}
	}
	n.last[node] = text
	return true
}

func (n *notes) forget(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.last, node)
}

// report tells of a node in events.
func (r *nodeMirror) report(name string, node *corev1.Node, p mirror.Plan) {
	if p.Anew != "" {
		r.Events.Eventf(node, nil, corev1.EventTypeNormal, "RegisteredAnew", "Mirroring", "Registered in Slurm anew: %s", p.Anew)
	}
	if !r.said.news(name, strings.Join(p.Notes, "\n")) {
		return
	}
	for _, note := range p.Notes {
		r.Events.Eventf(node, nil, corev1.EventTypeWarning, "SlurmNode", "Mirroring", "%s", note)
	}
}

// setCondition writes what Slurm thinks of a node.
func (r *nodeMirror) setCondition(ctx context.Context, node *corev1.Node, c corev1.NodeCondition) error {
	c.LastTransitionTime = metav1.Now()
	c.LastHeartbeatTime = c.LastTransitionTime
	for _, old := range node.Status.Conditions {
		if old.Type == c.Type && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"status":   map[string]any{"conditions": []corev1.NodeCondition{c}},
	})
	if err != nil {
		return fmt.Errorf("condition %s of node %s: %w", c.Type, node.Name, err)
	}
	err = r.Client.Status().Patch(ctx, node.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(fieldOwner))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("write condition %s of node %s: %w", c.Type, node.Name, err)
	}
	return nil
}
