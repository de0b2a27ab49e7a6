package charts

import (
	"encoding/base64"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testBridgeUnchanged upgrades the bridge with the same values: nothing is written. What
// its programs have written into its objects stays.
func (c *cluster) testBridgeUnchanged(t *testing.T) {
	const values = `
scheduler: {replicaCount: 2, pdb: {enabled: true}}
controllers: {replicas: 2, pdb: {enabled: true}}
admission: {replicas: 2, pdb: {enabled: true}, certManager: {enabled: false}}
sharedConfig: {ownerKinds: [{group: ray.io, version: v1, kind: RayCluster, resource: rayclusters}]}
policy: {rules: {physics: {allowed: {account: physics}}}}
networkPolicy: {enabled: true}
`
	rendered := render(t, "slurm-bridge", values, "--namespace", "bridge")
	install := func() map[string]string {
		c.helm(t, values, "upgrade", "--install", "slurm-bridge", chart("slurm-bridge"), "--namespace", "bridge", "--create-namespace", "--values", "-")
		versions := map[string]string{}
		for _, u := range rendered {
			versions[u.GetKind()+" "+u.GetName()] = fmt.Sprint(c.now(t, u).GetGeneration(), c.now(t, u).GetResourceVersion())
		}
		return versions
	}
	install()
	// What bridge-admission does without cert-manager.
	hook := find(t, rendered, "ValidatingWebhookConfiguration", "slurm-bridge-admission")
	bundle := fmt.Appendf(nil, `[{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": %q}]`, base64.StdEncoding.EncodeToString(c.authority))
	if err := c.admin.Patch(t.Context(), c.now(t, hook), client.RawPatch(types.JSONPatchType, bundle), client.FieldOwner("bridge-admission")); err != nil {
		t.Fatal(err)
	}
	second := install()
	if len(second) < 20 {
		t.Errorf("the chart made %d objects: %v", len(second), second)
	}
	same(t, "the bridge's objects after an upgrade without a change", second, install())
	hooks, _ := at(t, c.now(t, hook), "webhooks").([]any)
	if len(hooks) == 0 || hooks[0].(map[string]any)["clientConfig"].(map[string]any)["caBundle"] == nil {
		t.Error("an upgrade takes the webhooks' authority away")
	}
}

// now reads what an object has become.
func (c *cluster) now(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(u.GroupVersionKind())
	if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(u), out); err != nil {
		t.Fatal(err)
	}
	return out
}
