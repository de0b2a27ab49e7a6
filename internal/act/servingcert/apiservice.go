package servingcert

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apiService is how Kubernetes calls an aggregated API. Its types would bring all of the aggregator in.
func (c *Certificate) apiService() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("apiregistration.k8s.io/v1")
	u.SetKind("APIService")
	u.SetName(c.APIService)
	return u
}

// apiServiceTrusts is what the aggregated API is trusted by; found is false where it isn't registered.
func (c *Certificate) apiServiceTrusts(ctx context.Context) (bundle []byte, found bool, err error) {
	live := c.apiService()
	found, err = c.get(ctx, types.NamespacedName{Name: c.APIService}, live)
	if err != nil || !found {
		return nil, found, err
	}
	text, _, err := unstructured.NestedString(live.Object, "spec", "caBundle")
	if err != nil {
		return nil, true, fmt.Errorf("read APIService %s: %w", c.APIService, err)
	}
	bundle, err = base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, true, fmt.Errorf("read the authority in APIService %s: %w", c.APIService, err)
	}
	return bundle, true, nil
}

// injectAPIService makes API servers trust the authorities. It owns that field alone.
func (c *Certificate) injectAPIService(ctx context.Context, authorities []byte) error {
	have, found, err := c.apiServiceTrusts(ctx)
	if err != nil || !found || bytes.Equal(have, authorities) {
		return err
	}
	u := c.apiService()
	u.Object["spec"] = map[string]any{"caBundle": base64.StdEncoding.EncodeToString(authorities)}
	err = c.Kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(c.Owner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write the authority into APIService %s: %w", c.APIService, err)
	}
	return nil
}
