package robust

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/internal/apitest"
)

// admit has the API server ask bridge-admission about pods, as it is installed: pods can't be made while it is away.
func (w *world) admit(t *testing.T, bin, dir string) *program {
	t.Helper()
	w.server.Apply(t, "cmd", "bridge-admission", "testdata", "webhooks.yaml")
	w.server.Apply(t, "config", "rbac", "bridge-admission", "role.yaml")
	w.server.Bind(t, "slinky", "slurm-bridge-admission", "slurm-bridge-admission")
	w.server.BindRole(t, "slinky", "slurm-bridge-admission", "slurm-bridge-admission")
	port := int32(apitest.FreePort(t))
	w.redirect(t, port)
	return &program{
		name: "bridge-admission", log: filepath.Join(dir, "admission.log"), argv: []string{
			filepath.Join(bin, "bridge-admission"), "--config=" + filepath.Join(dir, "bridge.yaml"), fmt.Sprintf("--server-addr=127.0.0.1:%d", port),
			"--health-probe-bind-address=0", "--namespace=slinky", "--cert-secret=slurm-bridge-admission-tls",
			"--kubeconfig=" + w.server.Kubeconfig(t, "slinky", "slurm-bridge-admission"), "--zap-log-level=error",
		},
	}
}

// redirect leads the API server's calls of the Service to a port of this machine.
func (w *world) redirect(t *testing.T, port int32) {
	t.Helper()
	const name = "slurm-bridge-admission"
	api := w.kube.AdmissionregistrationV1()
	m, err := api.MutatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Webhooks {
		leadTo(&m.Webhooks[i].ClientConfig, port)
	}
	if _, err := api.MutatingWebhookConfigurations().Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	v, err := api.ValidatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.Webhooks {
		leadTo(&v.Webhooks[i].ClientConfig, port)
	}
	if _, err := api.ValidatingWebhookConfigurations().Update(t.Context(), v, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func leadTo(c *admissionregistrationv1.WebhookClientConfig, port int32) { c.Service.Port = &port }

// admitted tries for as long as admission may be away, as a controller does. Any other refusal is final.
func admitted(ctx context.Context, create func() error) error {
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		err := create()
		if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return err
		}
		select {
		case <-again.C:
		case <-limit.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
