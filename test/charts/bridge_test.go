package charts

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
)

// bridgeConfig reads the rendered configuration file as the programs do.
func bridgeConfig(t *testing.T, all []*unstructured.Unstructured) config.Config {
	t.Helper()
	text, _ := at(t, find(t, all, "ConfigMap", "slurm-bridge-config"), "data", "config.yaml").(string)
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatalf("the programs refuse the configuration: %v\n%s", err, text)
	}
	return c
}

// Whatever values are taken, the programs take what comes of them.
func TestBridgeConfiguration(t *testing.T) {
	helm(t)
	for _, tc := range cases(t) {
		if tc.chart == "slurm-bridge" {
			t.Run(tc.name, func(t *testing.T) { bridgeConfig(t, render(t, tc.chart, tc.values)) })
		}
	}
	c := bridgeConfig(t, render(t, "slurm-bridge", read(t, "testdata/slurm-bridge/everything.yaml")))
	same(t, "the owners' kinds", []config.OwnerKind{
		{Group: "ray.io", Version: "v1", Kind: "RayCluster", Resource: "rayclusters", GangLabel: "ray.io/cluster"},
		{Version: "v1", Kind: "ReplicationController", Resource: "replicationcontrollers"},
	}, c.OwnerKinds)
	same(t, "TLS", config.SlurmTLS{CAFile: "/etc/slurm-tls/ca/ca.crt", CertFile: "/etc/slurm-tls/client/tls.crt", KeyFile: "/etc/slurm-tls/client/tls.key"}, c.SlurmTLS)
	if sink, ok := c.Sink(); !ok || sink.String() != "10.0.0.5:6818" {
		t.Errorf("the sink is %v, %v", sink, ok)
	}
}

// The chart gives each program the rights that its own code asks for, and no other.
func TestBridgeRoles(t *testing.T) {
	all := render(t, "slurm-bridge", "web: {enabled: true}")
	for component, dir := range map[string]string{"scheduler": "bridge-scheduler", "controllers": "bridge", "admission": "bridge-admission", "web": "web"} {
		for _, want := range objects(t, read(t, root, "config/rbac", dir, "role.yaml")) {
			same(t, "the "+want.GetKind()+" of "+component, at(t, want, "rules"), at(t, find(t, all, want.GetKind(), want.GetName()), "rules"))
		}
	}
	for _, u := range all {
		if u.GetKind() == "ClusterRole" || u.GetKind() == "Role" {
			for _, right := range rights(t, u) {
				if strings.Contains(right, "*") {
					t.Errorf("%s %s has a right for everything: %s", u.GetKind(), u.GetName(), right)
				}
			}
		}
	}
	before := rights(t, find(t, all, "ClusterRole", "slurm-bridge-scheduler"))
	more := "sharedConfig: {ownerKinds: [{group: ray.io, version: v1, kind: RayCluster, resource: rayclusters}]}"
	after := rights(t, find(t, render(t, "slurm-bridge", more), "ClusterRole", "slurm-bridge-scheduler"))
	same(t, "the scheduler's rights with another kind of owners", append(before, "ray.io/rayclusters get"), after)
	hook := find(t, render(t, "slurm-bridge", more), "ValidatingWebhookConfiguration", "slurm-bridge-admission")
	hooks, _ := at(t, hook, "webhooks").([]any)
	if !slices.ContainsFunc(hooks, func(h any) bool {
		rules, _ := h.(map[string]any)["rules"].([]any)
		return slices.ContainsFunc(rules, func(r any) bool {
			resources, _ := r.(map[string]any)["resources"].([]any)
			return slices.Contains(resources, any("rayclusters"))
		})
	}) {
		t.Error("admission isn't asked about the other kind of owners")
	}
}

// What can't work is refused before anything is installed, with a sentence that names the value.
func TestBridgeRefused(t *testing.T) {
	helm(t)
	for name, tc := range map[string]struct{ values, want string }{
		"unknown key":              {"schedulr: {}", "additional properties 'schedulr' not allowed"},
		"unknown key inside":       {"scheduler: {replicas: 2}", "at '/scheduler': additional properties 'replicas' not allowed"},
		"negative replicas":        {"controllers: {replicas: -1}", "at '/controllers/replicas': minimum: got -1, want 0"},
		"replicas as text":         {"admission: {replicas: many}", "at '/admission/replicas': got string, want"},
		"no election of two":       {"scheduler: {replicaCount: 2, leaderElect: false}", "scheduler.replicaCount is 2, but scheduler.leaderElect is false: several would act at once"},
		"two without an election":  {"controllers: {replicas: 3, leaderElect: false}", "controllers.replicas is 3, but controllers.leaderElect is false"},
		"budget of nothing":        {"scheduler: {pdb: {enabled: true, maxUnavailable: null}}", "scheduler.pdb.enabled needs scheduler.pdb.minAvailable or scheduler.pdb.maxUnavailable"},
		"no credentials":           {"sharedConfig: {slurmJwtSecret: ''}", "sharedConfig.slurmJwtSecret must name the Secret with Slurm's token"},
		"no URL":                   {"sharedConfig: {slurmRestApi: slurm-restapi:6820}", "at '/sharedConfig/slurmRestApi': 'slurm-restapi:6820' does not match pattern"},
		"fallback without scheme":  {"sharedConfig: {slurmRestApiFallbacks: [other:6820]}", "at '/sharedConfig/slurmRestApiFallbacks/0'"},
		"two authorities":          {"sharedConfig: {slurmTLS: {caConfigMap: a, caSecret: b}}", "sharedConfig.slurmTLS has both caConfigMap and caSecret: leave one of them empty"},
		"TLS without https":        {"sharedConfig: {slurmTLS: {caSecret: b}}", "sharedConfig.slurmTLS is set, but sharedConfig.slurmRestApi begins with http: and no fallback with https:"},
		"two sources of rules":     {"policy: {configMap: a, rules: {b: {}}}", "policy has both rules and configMap: leave one of them empty"},
		"unknown policy":           {"policy: {mode: Closed}", "at '/policy/mode': value must be one of"},
		"unknown taint":            {"schedulerConfig: {managedNodeTaint: Prefer}", "at '/schedulerConfig/managedNodeTaint': value must be one of"},
		"key of its own":           {"sharedConfig: {extraConfig: {mcsLabel: a}}", "sharedConfig.extraConfig has mcsLabel, which has a value of its own in this chart"},
		"owner without a resource": {"sharedConfig: {ownerKinds: [{group: a, version: v1, kind: B}]}", "at '/sharedConfig/ownerKinds/0': missing property 'resource'"},
		"owner by its kind":        {"sharedConfig: {ownerKinds: [{group: a, version: v1, kind: B, resource: RayClusters}]}", "at '/sharedConfig/ownerKinds/0/resource'"},
		"owners in extraConfig":    {"sharedConfig: {extraConfig: {ownerKinds: []}}", "sharedConfig.extraConfig has ownerKinds, which has a value of its own in this chart"},
		"no failure policy":        {"admission: {failurePolicy: Maybe}", "at '/admission/failurePolicy': value must be one of"},
		"endless webhooks":         {"admission: {timeoutSeconds: 60}", "at '/admission/timeoutSeconds': maximum: got 60, want 30"},
		"page on no port":          {"web: {enabled: true, service: {port: 0}}", "at '/web/service/port': minimum: got 0, want 1"},
		"several pages":            {"web: {enabled: true, replicas: 2}", "at '/web': additional properties 'replicas' not allowed"},
		"bad scheduler name":       {"schedulerConfig: {schedulerName: My_Scheduler}", "at '/schedulerConfig/schedulerName'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, "slurm-bridge", tc.values)
			if err == nil {
				t.Fatalf("these values were taken:\n%s", tc.values)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is\n%v\nand doesn't say %q", err, tc.want)
			}
		})
	}
}
