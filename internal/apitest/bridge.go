package apitest

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// InstallBridge gives the bridge's programs their accounts with the rights that
// the chart gives them, in namespace slinky, and returns what it renders for kube-scheduler.
func (s *Server) InstallBridge(t testing.TB) SchedulerConfig {
	t.Helper()
	chart := []string{"test", "charts", "testdata", "slurm-bridge", "installed.golden.yaml"}
	s.Namespace(t, "slinky")
	s.Apply(t, "config", "rbac", "bridge", "role.yaml")
	s.Apply(t, "config", "rbac", "bridge-scheduler", "role.yaml")
	s.ApplyKinds(t, []string{"ConfigMap", "ServiceAccount", "ClusterRoleBinding", "RoleBinding"}, chart...)
	for _, o := range s.Manifests(t, chart...) {
		if text, ok, _ := unstructured.NestedString(o.Object, "data", "scheduler-config.yaml"); ok {
			return SchedulerConfig(text)
		}
	}
	t.Fatalf("the chart renders no scheduler-config.yaml: %v", chart)
	return ""
}

// SchedulerConfig is kube-scheduler's configuration as the chart renders it.
type SchedulerConfig string

// With returns the configuration for a kubeconfig, and with other lines about the election, as "leaderElect: false".
func (c SchedulerConfig) With(t testing.TB, kubeconfig string, election ...string) string {
	t.Helper()
	out := string(c)
	for before, after := range map[string]string{
		"clientConnection:": fmt.Sprintf("clientConnection:\n  kubeconfig: %q", kubeconfig),
		"leaderElect: true": strings.Join(election, "\n  "),
	} {
		if strings.Count(out, before) != 1 {
			t.Fatalf("the chart's scheduler configuration doesn't have %q once:\n%s", before, out)
		}
		out = strings.Replace(out, before, after, 1)
	}
	return out
}
