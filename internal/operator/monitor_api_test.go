package operator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
)

// testMonitor wants a ServiceMonitor before its kind exists, then makes the kind.
func (s *suite) testMonitor(t *testing.T) {
	const namespace = "monitored"
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	c := &v1beta1.Controller{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "slurm"}}
	c.Spec.SlurmKeyRef = &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Key: "slurm.key"}
	c.Spec.JwtKeyRef = c.Spec.SlurmKeyRef
	c.Spec.Metrics = v1beta1.Metrics{Enabled: true, ServiceMonitor: v1beta1.ServiceMonitor{Enabled: true}}
	s.create(t, c)
	all, _ := s.reconcilers(t)
	reconcile := func() ctrl.Result {
		t.Helper()
		out, err := all["controller"].Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "slurm"}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := reconcile(); out.RequeueAfter <= 0 || out.RequeueAfter > monitorRetry {
		t.Errorf("without the kind it looks again after %s", out.RequeueAfter)
	}

	yes := true
	s.createKind(t, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "servicemonitors.monitoring.coreos.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "monitoring.coreos.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "servicemonitors", Kind: "ServiceMonitor", ListKind: "ServiceMonitorList", Singular: "servicemonitor"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes}}}},
		},
	})
	live := func() (*unstructured.Unstructured, error) {
		u := cluster.MonitorOf(c)
		return u, s.admin.Get(t.Context(), client.ObjectKeyFromObject(u), u)
	}
	s.eventually(t, func() bool {
		reconcile()
		_, err := live()
		return err == nil
	}, "the ServiceMonitor is made once its kind exists")
	u, err := live()
	if err != nil {
		t.Fatal(err)
	}
	s.get(t, namespace, "slurm", c)
	if !metav1.IsControlledBy(u, c) {
		t.Errorf("it belongs to %v", u.GetOwnerReferences())
	}
	writes := s.writes.Load()
	reconcile()
	if n := s.writes.Load() - writes; n != 0 {
		t.Errorf("%d writes without a change, the last of them %v", n, s.lastWrite.Load())
	}
	c.Spec.Metrics.ServiceMonitor.Enabled = false
	if err := s.admin.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	reconcile()
	if _, err := live(); !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func (s *suite) createKind(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		t.Fatal(err)
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	s.create(t, u)
}
