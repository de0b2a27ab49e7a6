package operator

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// testControl turns an old StatefulSet into a new one, and follows the pod in control.
func (s *suite) testControl(t *testing.T) {
	const namespace = "control"
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	s.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keys"}, Data: map[string][]byte{"slurm.key": []byte("0123456789abcdef")}})
	s.create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "state"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}})
	yes := true
	c := &v1beta1.Controller{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "slurm"}}
	c.Spec.SlurmKeyRef = &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Key: "slurm.key"}
	c.Spec.JwtKeyRef = c.Spec.SlurmKeyRef
	c.Spec.HA = &v1beta1.ControllerHA{Enabled: true}
	c.Spec.Persistence = &v1beta1.ControllerPersistence{Enabled: &yes, ExistingClaim: "state"}
	s.create(t, c)
	all, _ := s.reconcilers(t)
	reconcile := func() {
		t.Helper()
		if _, err := all["controller"].Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "slurm"}}); err != nil {
			t.Fatal(err)
		}
	}

	old := s.oldStatefulSet(t, c)
	reconcile()
	set := &appsv1.StatefulSet{}
	s.get(t, namespace, old.Name, set)
	if set.UID != old.UID || set.DeletionTimestamp == nil {
		t.Fatal("check 19: the StatefulSet of an earlier operator is not replaced")
	}
	set.Finalizers = nil // Kubernetes' garbage collector, which isn't here
	if err := s.admin.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	reconcile()
	set = &appsv1.StatefulSet{}
	s.get(t, namespace, old.Name, set)
	if set.UID == old.UID || set.Spec.ServiceName != "slurm-controller-internal" || *set.Spec.Replicas != 2 || set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		t.Errorf("check 19: StatefulSet %+v", set.Spec)
	}
	reconcile()
	s.get(t, namespace, old.Name, set)
	if set.DeletionTimestamp != nil {
		t.Error("check 19: it is replaced a second time")
	}

	for i, ready := range []bool{true, false} {
		s.slurmctldPod(t, set, c.PodName(i), ready)
	}
	reconcile()
	s.wantActive(t, namespace, c.PodName(0), c.PodName(1))
	s.slurmctldPod(t, set, c.PodName(0), false)
	s.slurmctldPod(t, set, c.PodName(1), true)
	reconcile()
	s.wantActive(t, namespace, c.PodName(1), c.PodName(0))
	s.get(t, namespace, "slurm", c)
	s.wantCondition(t, c.Status.Conditions, v1beta1.ConditionReady, "True", "slurm-controller-1 is in control, 1 of 1 standbys run")
	s.wantCondition(t, c.Status.Conditions, v1beta1.ConditionProgressing, "False", "")
}

// oldStatefulSet is slurmctld's before there was a Service for the controllers' own names.
func (s *suite) oldStatefulSet(t *testing.T, c *v1beta1.Controller) *appsv1.StatefulSet {
	t.Helper()
	yes := true
	labels := map[string]string{v1beta1.LabelName: v1beta1.NameSlurmctld, v1beta1.LabelInstance: c.Name}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.WorkloadName(), OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindController, Name: c.Name, UID: c.UID, Controller: &yes}}},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: "slurm-controller", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "slurmctld", Image: "x"}}}},
		},
	}
	s.create(t, set)
	return set
}

// slurmctldPod plays the StatefulSet's controller and the kubelet.
func (s *suite) slurmctldPod(t *testing.T, set *appsv1.StatefulSet, name string, ready bool) {
	t.Helper()
	yes := true
	pod := &corev1.Pod{}
	if err := s.admin.Get(t.Context(), types.NamespacedName{Namespace: set.Namespace, Name: name}, pod); err != nil {
		pod = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: name, Labels: set.Spec.Template.Labels, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID, Controller: &yes}}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "slurmctld", Image: "x"}}},
		}
		s.create(t, pod)
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "slurmctld", Started: &yes, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}
	s.status(t, pod)
}

func (s *suite) wantActive(t *testing.T, namespace, active, standby string) {
	t.Helper()
	for name, want := range map[string]string{active: "true", standby: ""} {
		pod := &corev1.Pod{}
		s.get(t, namespace, name, pod)
		if got := pod.Labels[v1beta1.LabelControllerActive]; got != want {
			t.Errorf("check 15: %s has the label %q, want %q", name, got, want)
		}
	}
}
