package charts

import (
	"strings"
	"testing"
)

// What can't work is refused before anything is installed, with a sentence that names the value.
func TestRefused(t *testing.T) {
	helm(t)
	cases := []struct{ name, chart, values, want string }{
		{"unknown key", "slurm", "contoller: {}", "additional properties 'contoller' not allowed"},
		{"unknown key inside", "slurm", "nodesets: {a: {slurmd: {}, replica: 2}}", "at '/nodesets/a': additional properties 'replica' not allowed"},
		{"unknown key of the operator", "slurm-operator", "operator: {replica: 2}", "at '/operator': additional properties 'replica' not allowed"},
		{"old top key", "slurm", "login: {enabled: true}", "login is not a value of this chart any more: use loginsets"},
		{"old file of 0.3", "slurm", "compute: {nodesets: [{name: gpu, replicas: 2}]}\nlogin: {enabled: true, service: {type: LoadBalancer}}",
			"compute is not a value of this chart any more: use nodesets"},
		{"old key of a node set", "slurm", "nodesets: {a: {image: {repository: x}}}", "nodesets.a.image is not a value of this chart any more: use slurmd.image of the node set"},
		{"old key of the controller", "slurm", "controller: {servicePort: 1}", "controller.servicePort is not a value of this chart any more: use controller.service.port"},
		{"list of node sets", "slurm", "nodesets: [{name: a}]", "nodesets is a map from names to sets, no longer a list"},
		{"list of login sets", "slurm", "loginsets: [{name: a}]", "loginsets is a map from names to sets, no longer a list"},
		{"1.0 key", "slurm", "jwtHs256KeyRef: {name: a}", "jwtHs256KeyRef is not a value of this chart any more: use jwtKey.secretRef"},
		{"unknown node set in a partition", "slurm", "nodesets: {a: {}}\npartitions: {p: {enabled: true, nodesets: [a, b]}}", `partitions.p.nodesets names "b", which is not in nodesets or not enabled there; there are: a, ALL`},
		{"disabled node set in a partition", "slurm", "nodesets: {a: {enabled: false}}\npartitions: {p: {enabled: true, nodesets: [a]}}", `partitions.p.nodesets names "a"`},
		{"partition of nothing", "slurm", "partitions: {p: {enabled: true}}", "partitions.p.nodesets is empty: name at least one of nodesets, or ALL"},
		{"high availability without a claim", "slurm", "controller: {ha: {enabled: true}}", "controller.ha.enabled needs controller.persistence.existingClaim"},
		{"A3 on an unknown node set", "slurm", "vendor: {google: {a3mega: [{targetNodeSet: g, nodePool: p, networks: [default]}]}}", `vendor.google.a3mega[0].targetNodeSet names "g"`},
		{"false as text", "slurm", `vendor: {nvidia: {dcgm: {enabled: "false"}}}`, "at '/vendor/nvidia/dcgm/enabled': got string, want"},
		{"bad image", "slurm", `restapi: {slurmrestd: {image: "Bad Image:1"}}`, "at '/restapi/slurmrestd/image'"},
		{"a name that Kubernetes refuses", "slurm", "nodesets: {Bad_Name: {}}", "Bad_Name"},
		{"budget of nothing", "slurm", "restapi: {pdb: {enabled: true, minAvailable: null}}", "restapi.pdb.enabled needs"},
		{"token of nobody", "slurm", "tokens: {a: {}}", "tokens.a.username must say whom the token is for"},
		{"map in a Slurm option", "slurm", "controller: {extraConfMap: {A: {b: c}}}", "at '/controller/extraConfMap/A': got object"},
		{"namespaced rights without namespaces", "slurm-operator", "rbac: {namespaced: true}", "rbac.namespaced needs operator.namespaces"},
		{"namespaced rights, webhooks everywhere", "slurm-operator", "rbac: {namespaced: true}\noperator: {namespaces: a}", "rbac.namespaced needs webhook.namespaces, too, or webhook.enabled: false"},
		{"secure metrics nowhere", "slurm-operator", "operator: {metricsSecure: true, metricsPort: 0}", "operator.metricsSecure needs an operator.metricsPort other than 0"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, tc.chart, tc.values)
			if err == nil {
				t.Fatalf("these values were taken:\n%s", tc.values)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is\n%v\nand doesn't say %q", err, tc.want)
			}
		})
	}
}

// Kubernetes distributors add to the version; Helm takes that for a version before the release.
func TestKubernetesVersions(t *testing.T) {
	helm(t)
	for version, ok := range map[string]bool{
		"v1.29.0": true, "v1.29.0-gke.1": true, "v1.33.2-eks-abc": true, "v1.34.1+k3s1": true, "v1.28.9": false, "v1.28.9-gke.1": false,
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, "slurm", "", "--kube-version", version)
			switch {
			case ok && err != nil:
				t.Error(err)
			case !ok && (err == nil || !strings.Contains(err.Error(), "chart requires kubeVersion")):
				t.Errorf("the answer is %v", err)
			}
		})
	}
}
