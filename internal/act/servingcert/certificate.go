// Package servingcert keeps the certificate of a program that the API server calls, where
// no other part of the cluster does: an authority that stays, certificates that are
// renewed in time, and webhook configurations that trust them.
package servingcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookAgain is how long a lost Secret or a lost caBundle stays unnoticed at most.
const lookAgain = 10 * time.Second

// Certificate keeps the certificate of the webhooks where nobody else does: in a Secret that
// all replicas share. The API server is told to trust it by the webhooks' configurations.
type Certificate struct {
	// Kube reads and writes without a cache.
	Kube client.Client
	// Secret holds the certificate.
	Secret types.NamespacedName
	// Service is the one in front of the webhooks, in the same namespace.
	Service string
	// Configuration is the name of the webhook configurations; empty where there are none.
	Configuration string
	// APIService is the name of the aggregated API that the program serves; empty where it serves none.
	APIService string
	// Owner is the name of the program: of its authority, and of its fields in the configurations.
	Owner string

	held atomic.Pointer[tls.Certificate]
}

// Keeper makes and renews the certificate, in one replica at a time.
type Keeper struct{ *Certificate }

// Start implements manager.Runnable.
func (k Keeper) Start(ctx context.Context) error {
	return every(ctx, func(ctx context.Context) error {
		if err := k.Keep(ctx, time.Now()); err != nil {
			return err
		}
		return k.Load(ctx)
	})
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (k Keeper) NeedLeaderElection() bool { return true }

// Start follows the Secret. It implements manager.Runnable.
func (c *Certificate) Start(ctx context.Context) error { return every(ctx, c.Load) }

// NeedLeaderElection implements manager.LeaderElectionRunnable: all replicas serve.
func (c *Certificate) NeedLeaderElection() bool { return false }

func every(ctx context.Context, do func(context.Context) error) error {
	for {
		wait := lookAgain
		bounded, cancel := context.WithTimeout(ctx, lookAgain)
		if err := do(bounded); err != nil && ctx.Err() == nil {
			ctrl.Log.WithName("certificate").Info("is not in place yet: " + err.Error())
			wait = time.Second
		}
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// Get returns the certificate that is served. It is a tls.Config's GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if held := c.held.Load(); held != nil {
		return held, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Ready is a readiness check.
func (c *Certificate) Ready(*http.Request) error {
	_, err := c.Get(nil)
	return err
}

// Load takes the certificate from the Secret.
func (c *Certificate) Load(ctx context.Context) error {
	var secret corev1.Secret
	if err := c.Kube.Get(ctx, c.Secret, &secret); err != nil {
		return fmt.Errorf("read Secret %s: %w", c.Secret, err)
	}
	pair, err := tls.X509KeyPair(secret.Data[fileCertificate], secret.Data[fileKey])
	if err != nil {
		return fmt.Errorf("read the certificate in Secret %s: %w", c.Secret, err)
	}
	c.held.Store(&pair)
	return nil
}

// Keep makes the Secret what it should be at a time, and makes API servers trust it.
func (c *Certificate) Keep(ctx context.Context, now time.Time) error {
	trusted, err := c.trusted(ctx)
	if err != nil {
		return err
	}
	var live corev1.Secret
	found, err := c.get(ctx, c.Secret, &live)
	if err != nil {
		return err
	}
	host := c.Service + "." + c.Secret.Namespace
	data, err := renewal{
		owner: c.Owner, hosts: []string{host + ".svc", host, host + ".svc.cluster.local"}, trusted: trusted, now: now,
	}.renew(live.Data)
	if err != nil {
		return err
	}
	want := live.DeepCopy()
	want.Data = maps.Clone(live.Data)
	if want.Data == nil {
		want.Data = map[string][]byte{}
	}
	maps.Copy(want.Data, data)
	switch {
	case !found:
		want.ObjectMeta = metav1.ObjectMeta{Namespace: c.Secret.Namespace, Name: c.Secret.Name}
		want.Type = corev1.SecretTypeTLS
		err = c.Kube.Create(ctx, want)
	case !maps.EqualFunc(live.Data, want.Data, bytes.Equal):
		// It carries the version that was read: a change in between is a conflict.
		err = c.Kube.Update(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s: %w", c.Secret, err)
	}
	return c.inject(ctx, data[fileAuthority])
}

// configurations are those that exist.
func (c *Certificate) configurations(ctx context.Context) (out []client.Object, err error) {
	if c.Configuration == "" {
		return nil, nil
	}
	for _, o := range []client.Object{&admissionv1.ValidatingWebhookConfiguration{}, &admissionv1.MutatingWebhookConfiguration{}} {
		found, err := c.get(ctx, types.NamespacedName{Name: c.Configuration}, o)
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, o)
		}
	}
	return out, nil
}

// call is how the API server calls one webhook.
type call struct {
	name   string
	client admissionv1.WebhookClientConfig
}

// calls are those of a configuration, in its order.
func calls(o client.Object) []call {
	var out []call
	switch o := o.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		for _, w := range o.Webhooks {
			out = append(out, call{w.Name, w.ClientConfig})
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for _, w := range o.Webhooks {
			out = append(out, call{w.Name, w.ClientConfig})
		}
	}
	return out
}

// trusted is what all webhooks of all configurations are trusted by.
func (c *Certificate) trusted(ctx context.Context) ([]byte, error) {
	if c.APIService != "" {
		bundle, _, err := c.apiServiceTrusts(ctx)
		return bundle, err
	}
	configurations, err := c.configurations(ctx)
	if err != nil {
		return nil, err
	}
	var common []byte
	first := true
	for _, o := range configurations {
		for _, w := range calls(o) {
			if !first && !bytes.Equal(common, w.client.CABundle) {
				return nil, nil
			}
			common, first = w.client.CABundle, false
		}
	}
	return common, nil
}

// inject makes API servers trust the authorities. It owns that field alone.
func (c *Certificate) inject(ctx context.Context, authorities []byte) error {
	if c.APIService != "" {
		return c.injectAPIService(ctx, authorities)
	}
	configurations, err := c.configurations(ctx)
	if err != nil {
		return err
	}
	for _, o := range configurations {
		kind := "ValidatingWebhookConfiguration"
		if _, mutating := o.(*admissionv1.MutatingWebhookConfiguration); mutating {
			kind = "MutatingWebhookConfiguration"
		}
		var webhooks []any
		change := false
		for _, w := range calls(o) {
			change = change || !bytes.Equal(w.client.CABundle, authorities)
			webhooks = append(webhooks, map[string]any{"name": w.name, "clientConfig": map[string]any{
				"caBundle": base64.StdEncoding.EncodeToString(authorities)}})
		}
		if !change {
			continue
		}
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": admissionv1.SchemeGroupVersion.String(), "kind": kind,
			"metadata": map[string]any{"name": c.Configuration, "uid": string(o.GetUID())}, "webhooks": webhooks,
		}}
		err := c.Kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(c.Owner), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("write the authority into %s %s: %w", kind, c.Configuration, err)
		}
	}
	return nil
}

// get tells whether an object exists.
func (c *Certificate) get(ctx context.Context, name types.NamespacedName, out client.Object) (bool, error) {
	err := c.Kube.Get(ctx, name, out)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %T %s: %w", out, name, err)
	}
	return true, nil
}
