package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// The exporter's chart serves Prometheus' page, and a real HorizontalPodAutoscaler follows the jobs that wait through
// its external metrics API: no Prometheus, and no adapter.
func TestAutoscalerFollowsSlurm(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-exporter")
	b.must("", "load", imageArchive(b, "exporter"))
	c := b.cluster(strings.Replace(b.exampleCluster(), "  replicas: 2\n", "  replicas: 1\n  oversubscribeNode: true\n", 1))
	c.helmExporter()

	text := b.kubectl("get", "--raw", "/api/v1/namespaces/"+b.namespace+"/services/slurm-exporter:metrics/proxy/metrics")
	for _, line := range []string{"slurm_up 1\n", "slurm_jobs_pending 0\n", `slurm_nodeset_workers{nodeset="cpu",nodeset_namespace="` + b.namespace + `"} 1` + "\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("the page lacks %q", line)
		}
	}
	if out := b.kubectl("get", "--raw", "/apis/external.metrics.k8s.io/v1beta1"); !strings.Contains(out, `"slurm_nodeset_workers_wanted"`) {
		t.Errorf("the API lists %s", out)
	}
	// Who comes by another way than the aggregator is nobody, and who has no right gets nothing.
	path := "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + b.namespace + "/slurm_jobs_pending"
	for want, args := range map[string][]string{
		"only the Kubernetes API server": {"--raw", "/api/v1/namespaces/" + b.namespace + "/services/https:slurm-exporter:external/proxy" + path},
		"orbidden":                       {"--as", "nobody", "--raw", path},
	} {
		if out, err := b.run(t.Context(), "", append([]string{"kubectl", "get"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("kubectl get %s: %s, %v; want %q", strings.Join(args, " "), out, err, want)
		}
	}

	b.apply(strings.ReplaceAll(autoscaler, "@NAMESPACE@", b.namespace))
	job := c.submit("#!/bin/sh\nexec sleep 600\n", "-D", "/tmp", "-o", "/dev/null", "-N2", "--exclusive", "--mem=100")
	c.wait("nss/cpu", "jsonpath={.spec.replicas}=2")
	c.jobIs(job, "RUNNING")
	var hpa autoscalingv2.HorizontalPodAutoscaler
	c.get(&hpa, "hpa", "cpu")
	if len(hpa.Status.CurrentMetrics) != 1 || hpa.Status.CurrentMetrics[0].External == nil {
		t.Errorf("the HorizontalPodAutoscaler follows %+v", hpa.Status)
	}
	c.slurm("", "scancel", job)
	c.wait("nss/cpu", "jsonpath={.spec.replicas}=1")
}

// autoscaler gives the NodeSet as many workers as its jobs need. It acts at once, for the test's sake.
const autoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: cpu}
spec:
  scaleTargetRef: {apiVersion: slinky.slurm.net/v1beta1, kind: NodeSet, name: cpu}
  minReplicas: 1
  maxReplicas: 2
  behavior:
    scaleDown: {stabilizationWindowSeconds: 0}
  metrics:
    - type: External
      external:
        metric:
          name: slurm_nodeset_workers_wanted
          selector: {matchLabels: {nodeset: cpu}}
        target: {type: AverageValue, averageValue: "1"}
`

// helmExporter installs the exporter by its chart, and waits until Kubernetes takes its API.
func (c *cluster) helmExporter() {
	c.t.Helper()
	c.must("", "helm", "install", "slurm-exporter", "../../charts/slurm-exporter", "--namespace", c.namespace,
		"--set", "exporter.jwtKeySecret.name=slurm-auth-jwt", "--set", "exporter.image.tag=dev", "--set", "exporter.externalMetrics.enabled=true",
		"--set", "exporter.cacheFrequency=1s", "--set-json", `exporter.tolerations=[{"key":"slinky.slurm.net/managed-node","operator":"Exists"}]`)
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if c.t.Failed() {
			out, err := c.run(ctx, "", "kubectl", "logs", "-n", c.namespace, "deployment/slurm-exporter")
			c.t.Logf("the exporter says\n%s%s", out, errorLine(err))
		}
		// An API without a server would keep namespaces from going.
		if out, err := c.run(ctx, "", "helm", "uninstall", "slurm-exporter", "--namespace", c.namespace, "--wait"); err != nil {
			c.t.Errorf("uninstall the exporter: %v\n%s", err, out)
		}
	})
	c.wait("deployment/slurm-exporter", "condition=Available")
	c.wait("apiservice/v1beta1.external.metrics.k8s.io", "condition=Available")
	c.until("the exporter knows the NodeSet", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "--raw", "/apis/external.metrics.k8s.io/v1beta1/namespaces/"+c.namespace+"/slurm_nodeset_workers")
		if err == nil && !strings.Contains(out, `"value":"1"`) {
			err = fmt.Errorf("it says %s", out)
		}
		return err
	})
}
