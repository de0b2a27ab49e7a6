package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestCheck5And6WebhookRefuses: what a custom resource's own rules can't know is refused by the webhook, which has made its
// certificate itself; what is right passes.
func TestCheck5And6WebhookRefuses(t *testing.T) {
	t.Parallel()
	b := open(t, "webhook")
	b.kubectl("wait", "--namespace=slinky", "--for=condition=Available", "deployment/slurm-operator-webhook", "--timeout=120s")
	const head = "apiVersion: slinky.slurm.net/v1beta1\nmetadata: {name: probe, namespace: webhook}\n"
	const nodeSet = head + "kind: NodeSet\nspec:\n  controllerRef: {name: slurm}\n"
	const controller = head + "kind: Controller\nspec:\n  slurmKeyRef: {name: s, key: k}\n  jwtKeyRef: {name: s, key: k}\n"
	for manifest, wants := range map[string][]string{
		nodeSet + "  template: {spec: {hostname: Bad_Name}}\n":                         {"spec.template.spec.hostname: Invalid value", `there is no Controller "slurm" in namespace webhook yet`},
		controller + "  configFileRefs: [{name: missing}]\n  extraConf: KillWiat=30\n": {"there is no ConfigMap of this name in namespace webhook", "did you mean KillWait?"},
	} {
		// The API server may hear a second later than the webhook that it is to be trusted.
		b.until("the webhook says "+wants[0], func(ctx context.Context) error {
			_, err := b.run(ctx, manifest, "kubectl", "apply", "--dry-run=server", "-f", "-")
			if err == nil {
				return errors.New("it was taken")
			}
			for _, want := range wants {
				if !strings.Contains(err.Error(), want) {
					return fmt.Errorf("want %q: %w", want, err)
				}
			}
			return nil
		})
	}
	b.must(nodeSet, "kubectl", "apply", "--dry-run=server", "-f", "-")
}
