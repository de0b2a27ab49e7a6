package operator

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// testKeys: a key that a Secret asks for is made once, under the operator's own role, and
// nothing that is there is ever written over.
func (s *suite) testKeys(t *testing.T) {
	c, err := client.New(s.operatorConfig(), client.Options{Scheme: s.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "keys"}})
	r := &keyReconciler{c}
	reconcile := func(name string) *corev1.Secret {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "keys", Name: name}}); err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{}
		s.get(t, "keys", name, secret)
		return secret
	}
	secret := func(name string, data map[string][]byte) {
		s.create(t, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "keys", Name: name, Annotations: map[string]string{v1beta1.AnnotationGenerateKey: "slurm.key"}},
			Data:       data,
		})
	}
	secret("empty", nil)
	first := reconcile("empty")
	if len(first.Data["slurm.key"]) != 1024 || first.Immutable == nil || !*first.Immutable {
		t.Errorf("the key has %d bytes, immutable is %v", len(first.Data["slurm.key"]), first.Immutable)
	}
	if again := reconcile("empty"); again.ResourceVersion != first.ResourceVersion {
		t.Error("a second look at the Secret wrote it again")
	}
	secret("other", map[string][]byte{"more": []byte("stays")})
	other := reconcile("other")
	if string(other.Data["more"]) != "stays" || bytes.Equal(other.Data["slurm.key"], first.Data["slurm.key"]) {
		t.Error("another key was changed, or two Secrets got the same key")
	}
	secret("given", map[string][]byte{"slurm.key": []byte("mine")})
	if given := reconcile("given"); string(given.Data["slurm.key"]) != "mine" {
		t.Error("a key that was there was written over")
	}
	s.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "keys", Name: "unasked"}})
	if unasked := reconcile("unasked"); len(unasked.Data) != 0 {
		t.Error("a Secret that asks for no key got one")
	}
}
