package main

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/operator"
)

// TestCheck55OneOperatorActs: while another operator, the published one, holds the lease by
// its published name, ours does nothing; and it acts once the lease is given up.
func TestCheck55OneOperatorActs(t *testing.T) {
	server := apitest.Start(t)
	scheme, err := operator.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(server.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	const home = "slinky"
	create := func(o client.Object) {
		t.Helper()
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}})
	holder, seconds, now := "the-other_1", int32(3600), metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "slurm-operator"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now}}
	create(lease)
	key := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Key: "key"}
	create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "keys"}, Data: map[string][]byte{"key": []byte("0123456789abcdef")}})
	c := &v1beta1.Controller{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "slurm"}}
	c.Spec.SlurmKeyRef, c.Spec.JwtKeyRef = key, key
	create(c)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--kubeconfig=" + server.AdminKubeconfig(t), "--leader-elect", "--leader-elect-namespace=" + home,
			"--health-addr=0", "--metrics-addr=0", "--cluster-domain=cluster.local"})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	has := func() bool {
		err := admin.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "slurm-config"}, &corev1.ConfigMap{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 5*time.Second, true, func(context.Context) (bool, error) { return has(), nil }); err == nil {
		t.Fatal("it acts although another holds the lease")
	}
	live := &coordinationv1.Lease{}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(lease), live); err != nil || *live.Spec.HolderIdentity != holder {
		t.Fatalf("the lease is held by %v, %v", live.Spec.HolderIdentity, err)
	}
	none, one := "", int32(1)
	live.Spec.HolderIdentity, live.Spec.LeaseDurationSeconds = &none, &one // as a holder does that ends
	if err := admin.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { return has(), nil }); err != nil {
		t.Fatal("it never acts")
	}
}
