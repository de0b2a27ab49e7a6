package operator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// testToken goes through a token's life under the operator's own role.
func (s *suite) testToken(t *testing.T) {
	const namespace = "tokens"
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	signer := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "jwt"}, Data: map[string][]byte{"key": []byte("first")}}
	s.create(t, signer)
	s.create(t, &v1beta1.Token{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "alice"}, Spec: v1beta1.TokenSpec{
		Username: "alice", Refresh: true, JwtKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "jwt"}, Key: "key"}}})
	all, _ := s.reconcilers(t)
	reconcile := func() {
		t.Helper()
		out, err := all["token"].Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "alice"}})
		if err != nil {
			t.Fatal(err)
		}
		if out.RequeueAfter <= 0 || out.RequeueAfter > 15*time.Minute {
			t.Errorf("looks again after %s", out.RequeueAfter)
		}
	}
	token := func() string {
		t.Helper()
		secret := &corev1.Secret{}
		s.get(t, namespace, "alice-jwt-alice", secret)
		return string(secret.Data["SLURM_JWT"])
	}

	reconcile()
	first := token()
	out := &v1beta1.Token{}
	s.get(t, namespace, "alice", out)
	s.wantCondition(t, out.Status.Conditions, v1beta1.ConditionReady, "True", "the token in key SLURM_JWT of Secret alice-jwt-alice is valid until 2")
	if out.Status.IssuedAt == nil {
		t.Error("status.issuedAt is empty")
	}
	writes := s.writes.Load()
	reconcile()
	if n := s.writes.Load() - writes; n != 0 || token() != first {
		t.Errorf("%d writes without a change, the last of them %v", n, s.lastWrite.Load())
	}

	signer.Data["key"] = []byte("second")
	if err := s.admin.Update(t.Context(), signer); err != nil {
		t.Fatal(err)
	}
	reconcile()
	if token() == first {
		t.Error("check 24: the token is still that of the old key")
	}

	s.get(t, namespace, "alice", out) // its status says when the new token was issued
	out.Spec.Refresh = false
	if err := s.admin.Update(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	reconcile()
	secret := &corev1.Secret{}
	s.get(t, namespace, "alice-jwt-alice", secret)
	if secret.Immutable == nil || !*secret.Immutable {
		t.Error("check 24: the Secret is not immutable without refresh")
	}
	s.get(t, namespace, "alice", out)
	out.Spec.Refresh = true
	if err := s.admin.Update(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	reconcile() // deletes the immutable one
	reconcile()
	s.get(t, namespace, "alice-jwt-alice", secret)
	if secret.Immutable != nil && *secret.Immutable {
		t.Error("the Secret is still immutable")
	}

	// As an earlier operator made it: owned by the signing key.
	secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "jwt", UID: signer.UID, Controller: new(bool)}}
	*secret.OwnerReferences[0].Controller = true
	if err := s.admin.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	reconcile()
	reconcile()
	s.get(t, namespace, "alice-jwt-alice", secret)
	if owner := metav1.GetControllerOf(secret); owner == nil || owner.Kind != v1beta1.KindToken || owner.UID != out.UID {
		t.Errorf("check 24: the Secret belongs to %v, and would outlive the Token", owner)
	}
	if err := s.admin.Delete(t.Context(), out); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}
