package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// testTakeOver: what a published operator has left is taken over by its name. Nothing is
// made anew, what can't be changed isn't tried, hashes stay, and so does what others set.
func (s *suite) testTakeOver(t *testing.T) {
	const ns = "running"
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	for name, key := range map[string]string{"slurm-auth-slurm": "slurm.key", "slurm-auth-jwt": "jwt.key"} {
		yes := true
		s.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string][]byte{key: []byte("k")}, Immutable: &yes})
	}
	persist := true
	c := &v1beta1.Controller{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "slurm", Labels: map[string]string{"helm.sh/chart": "slurm-1.2.1"}},
		Spec: v1beta1.ControllerSpec{
			SlurmKeyRef: secretKey("slurm-auth-slurm", "slurm.key"), JwtKeyRef: secretKey("slurm-auth-jwt", "jwt.key"),
			Persistence: &v1beta1.ControllerPersistence{Enabled: &persist, PersistentVolumeClaimSpec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("4Gi")}},
			}},
		},
	}
	s.create(t, c)
	set, service := published(c)
	s.create(t, set)
	s.create(t, service)

	all, _ := s.reconcilers(t)
	for range 2 {
		if _, err := all["controller"].Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c)}); err != nil {
			t.Fatal(err)
		}
	}
	after, afterService := &appsv1.StatefulSet{}, &corev1.Service{}
	s.get(t, ns, set.Name, after)
	s.get(t, ns, service.Name, afterService)
	if after.UID != set.UID || afterService.UID != service.UID || afterService.Spec.ClusterIP != service.Spec.ClusterIP {
		t.Error("an object was made anew")
	}
	if d := cmp.Diff([]any{set.Spec.Selector, set.Spec.ServiceName, set.Spec.VolumeClaimTemplates},
		[]any{after.Spec.Selector, after.Spec.ServiceName, after.Spec.VolumeClaimTemplates}); d != "" {
		t.Errorf("what can't be changed (-before +after):\n%s", d)
	}
	before, now := set.Spec.Template.Annotations, after.Spec.Template.Annotations
	for _, name := range []string{v1beta1.AnnotationSlurmKeyHash, v1beta1.AnnotationJwtKeyHash} {
		if before[name] != now[name] {
			t.Errorf("%s was %s and is %s", name, before[name], now[name])
		}
	}
	if after.Spec.Template.Labels["helm.sh/chart"] != "slurm-1.2.1" {
		t.Error("a label of the running pods' template is gone")
	}
	var pods corev1.PodList
	if err := s.admin.List(t.Context(), &pods, client.InNamespace(ns)); err != nil || len(pods.Items) != 0 {
		t.Errorf("pods were made or listed wrong: %d, %v", len(pods.Items), err)
	}
}

func secretKey(name, key string) *corev1.SecretKeySelector {
	return &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}
}

// published are a StatefulSet and a Service of the published operator, release 1.3, in
// what matters to whoever takes them over.
func published(c *v1beta1.Controller) (*appsv1.StatefulSet, *corev1.Service) {
	yes, one, zero := true, int32(1), int32(0)
	labels := map[string]string{
		"app.kubernetes.io/name": "slurmctld", "app.kubernetes.io/instance": "slurm", "app.kubernetes.io/component": "controller", "helm.sh/chart": "slurm-1.2.1",
	}
	selector := map[string]string{"app.kubernetes.io/name": "slurmctld", "app.kubernetes.io/instance": "slurm"}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: c.Namespace, Name: name, Labels: labels, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "slinky.slurm.net/v1beta1", Kind: "Controller", Name: c.Name, UID: c.UID, Controller: &yes, BlockOwnerDeletion: &yes,
		}}}
	}
	const sumOfK = "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a"
	set := &appsv1.StatefulSet{
		ObjectMeta: meta("slurm-controller"),
		Spec: appsv1.StatefulSetSpec{
			Replicas: &one, RevisionHistoryLimit: &zero, ServiceName: "slurm-controller-internal",
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
					v1beta1.AnnotationSlurmKeyHash: sumOfK, v1beta1.AnnotationJwtKeyHash: sumOfK, v1beta1.AnnotationDefaultContainer: "slurmctld",
				}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "slurmctld", Image: "ghcr.io/slinkyproject/slurmctld:26.05-ubuntu26.04",
					VolumeMounts: []corev1.VolumeMount{{Name: "statesave", MountPath: "/var/spool/slurmctld/running_slurm"}},
				}}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "statesave"},
				Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("4Gi")},
				}},
			}},
		},
	}
	service := &corev1.Service{
		ObjectMeta: meta("slurm-controller"),
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app.kubernetes.io/name": "slurmctld", "app.kubernetes.io/instance": "slurm", "controller.slinky.slurm.net/active": "true"},
			Ports:    []corev1.ServicePort{{Name: "slurmctld", Port: 6817}},
		},
	}
	return set, service
}
