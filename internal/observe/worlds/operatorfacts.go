package worlds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/internal/plan/redact"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/slurm"
)

// reserver is a Slurm that tells of its reservations.
type reserver interface {
	Reservation(ctx context.Context, name string) (slurm.Reservation, error)
}

// operatorFacts reads what the operator's planner of NodeSets needs, nil where there are none.
func (s Sources) operatorFacts(ctx context.Context, a *asker, f *view.Facts, kinds operatorKinds, r redact.Redactor) *view.Operator {
	for _, what := range []string{view.PartNodeSets, view.PartControllers} {
		for _, p := range f.Kubernetes.Missing {
			if p.What == what {
				a.unread = append(a.unread, view.Part{What: view.PartNodeSetSpecs, Error: p.Error, Forbidden: p.Forbidden})
				return nil
			}
		}
	}
	if len(kinds.sets.Items) == 0 {
		return nil
	}
	o := &view.Operator{Sssd: map[string]string{}, Reservations: map[string]*slurm.Reservation{}}
	for i := range kinds.controllers.Items {
		o.Controllers = append(o.Controllers, redact.Controller(&kinds.controllers.Items[i]))
	}
	var namespaces, claiming []string
	for i := range kinds.sets.Items {
		n := &kinds.sets.Items[i]
		o.NodeSets = append(o.NodeSets, r.NodeSet(n))
		namespaces = append(namespaces, n.Namespace)
		if len(n.Spec.VolumeClaimTemplates) > 0 {
			claiming = append(claiming, n.Namespace)
		}
		s.sssd(ctx, a, n, r, o)
		s.reservation(ctx, a, n, o)
	}
	slices.Sort(namespaces)
	slices.Sort(claiming)
	for _, namespace := range slices.Compact(namespaces) {
		s.revisions(ctx, a, namespace, r, o)
	}
	for _, namespace := range slices.Compact(claiming) {
		claims(ctx, a, namespace, o)
	}
	var apis v1beta1.RestApiList
	if err := list(ctx, s.Kube, "restapis", &apis); err == nil {
		o.Cluster = s.clusterOf(apis.Items) // without it, the workers in Slurm tell
	}
	o.NodeConditions = s.operatorConditions(ctx, a)
	return o
}

func (s Sources) revisions(ctx context.Context, a *asker, namespace string, r redact.Redactor, o *view.Operator) {
	for at := (metav1.ListOptions{Limit: page}); ; {
		list, err := s.Kube.AppsV1().ControllerRevisions(namespace).List(ctx, at)
		if err != nil {
			a.lacks(view.Part{What: view.PartRevisions, In: namespace}, lacking("list", "controllerrevisions.apps", namespace), err)
			return
		}
		for i := range list.Items {
			if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.Kind == v1beta1.KindNodeSet {
				o.Revisions = append(o.Revisions, r.Revision(&list.Items[i]))
			}
		}
		if at.Continue = list.Continue; at.Continue == "" {
			return
		}
	}
}

func claims(ctx context.Context, a *asker, namespace string, o *view.Operator) {
	workers := labels.Set{v1beta1.LabelName: v1beta1.NameSlurmd}.String()
	list, err := a.metadata(ctx, schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, namespace, workers)
	if err != nil {
		a.lacks(view.Part{What: view.PartClaims, In: namespace}, lacking("list", "persistentvolumeclaims", namespace), err)
	}
	for i := range list {
		o.Claims = append(o.Claims, metav1.PartialObjectMetadata{ObjectMeta: redact.Meta(list[i].ObjectMeta)})
	}
}

// sssd keeps what stands for a NodeSet's sssd.conf: enough to see that it is another one than its pods have.
func (s Sources) sssd(ctx context.Context, a *asker, n *v1beta1.NodeSet, r redact.Redactor, o *view.Operator) {
	ref := nodeset.SssdConf(n)
	if ref == nil {
		return
	}
	secret, err := s.Kube.CoreV1().Secrets(n.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		a.lacks(view.Part{What: view.PartSssd, In: n.Namespace}, fmt.Sprintf("you may not get secrets in namespace %s", n.Namespace), err)
		return
	}
	hash := ""
	if err == nil {
		hash = nodeset.Checksum(secret.Data[ref.Key])
	}
	o.Sssd[n.Namespace+"/"+n.Name] = r.Text(hash)
}

// reservation reads the maintenance reservation of a NodeSet that has one.
func (s Sources) reservation(ctx context.Context, a *asker, n *v1beta1.NodeSet, o *view.Operator) {
	if !nodeset.NeedsReservation(n) {
		return
	}
	from, ok := s.Slurm.(reserver)
	if !ok {
		a.lacks(view.Part{What: view.PartReservations}, "", errNoSlurm)
		return
	}
	name := nodeset.ReservationName(n)
	switch got, err := from.Reservation(ctx, name); {
	case err == nil:
		o.Reservations[name] = &got
	case errors.Is(err, slurm.ErrNotFound):
		o.Reservations[name] = nil
	default:
		a.lacks(view.Part{What: view.PartReservations}, "", err)
	}
}

// operatorConditions are the conditions of nodes that the operator passes on, by its Deployment.
func (s Sources) operatorConditions(ctx context.Context, a *asker) []string {
	list, err := s.Kube.AppsV1().Deployments("").List(ctx, metav1.ListOptions{LabelSelector: v1beta1.LabelName + "=slurm-operator"})
	if err != nil {
		a.lacks(view.Part{What: view.PartOperator}, lacking("list", "deployments.apps", ""), err)
		return nil
	}
	for i := range list.Items {
		for _, c := range list.Items[i].Spec.Template.Spec.Containers {
			for _, arg := range c.Args {
				if value, ok := strings.CutPrefix(arg, "--propagated-node-conditions="); ok {
					return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
				}
			}
		}
	}
	return nil
}
