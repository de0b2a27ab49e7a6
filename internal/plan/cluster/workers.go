package cluster

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
)

// workersMeta is for what all NodeSets of the cluster share.
func (f ControllerFacts) workersMeta(name string) metav1.ObjectMeta {
	c := f.Controller
	own := labels(v1beta1.NameSlurmd, c.Name, v1beta1.ComponentWorker)
	own[v1beta1.LabelCluster] = c.Name
	l, a := overlay.Metadata(c, v1beta1.Metadata{}, own, nil)
	return metav1.ObjectMeta{Name: name, Namespace: c.Namespace, Labels: l, Annotations: a, OwnerReferences: ownedBy(c, v1beta1.KindController)}
}

// workersService gives every worker a DNS name, also before it is ready: jobs look up the
// names of all their nodes.
func (f ControllerFacts) workersService() *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: f.workersMeta(f.Controller.WorkersServiceName()),
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
			Selector: map[string]string{v1beta1.LabelName: v1beta1.NameSlurmd, v1beta1.LabelCluster: f.Controller.Name},
			Ports:    []corev1.ServicePort{servicePort(v1beta1.NameSlurmd, v1beta1.PortSlurmd, 0)},
		},
	}
}

// workersBudget keeps workers with jobs from being evicted.
func (f ControllerFacts) workersBudget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: f.workersMeta(f.Controller.WorkersBudgetName()),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr(intstr.FromInt32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{
				v1beta1.LabelNodeSetPodProtect: "true", v1beta1.LabelCluster: f.Controller.Name}},
		},
	}
}
