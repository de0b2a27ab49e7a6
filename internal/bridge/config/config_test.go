package config

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Config
	}{
		"published": {`
schedulerName: slurm-bridge-scheduler
slurmRestApi: http://slurm-restapi.slurm:6820
managedNamespaces: [a, b]
managedNamespaceSelector: {matchLabels: {slurm: "yes"}}
mcsLabel: kubernetes
partition: slurm-bridge
`, Config{
			SchedulerName: "slurm-bridge-scheduler", SlurmRestAPI: "http://slurm-restapi.slurm:6820", Partition: "slurm-bridge", MCSLabel: "kubernetes",
			ManagedNamespaces: []string{"a", "b"}, ManagedNamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"slurm": "yes"}},
			ManagedNodeTaint: "NoExecute", Policy: "Open", Environment: "threads,slurm",
		}},
		"policy": {`
slurmRestApi: http://x
policy: Restricted
policyConfigMap: slurm-bridge-policy
environment: none
`, Config{
			SchedulerName: "slurm-bridge-scheduler", SlurmRestAPI: "http://x", ManagedNodeTaint: "NoExecute",
			Policy: "Restricted", PolicyConfigMap: "slurm-bridge-policy", Environment: "none",
		}},
		"owner kinds": {`
slurmRestApi: http://x
ownerKinds: [{group: ray.io, version: v1, kind: RayCluster, resource: rayclusters, gangLabel: ray.io/cluster}]
`, Config{
			SchedulerName: "slurm-bridge-scheduler", SlurmRestAPI: "http://x", ManagedNodeTaint: "NoExecute", Policy: "Open", Environment: "threads,slurm",
			OwnerKinds: []OwnerKind{{Group: "ray.io", Version: "v1", Kind: "RayCluster", Resource: "rayclusters", GangLabel: "ray.io/cluster"}},
		}},
		"other case, defaults": {"SLURMRESTAPI: https://x", Config{SchedulerName: "slurm-bridge-scheduler", SlurmRestAPI: "https://x", ManagedNodeTaint: "NoExecute", Policy: "Open", Environment: "threads,slurm"}},
		"TLS": {"slurmRestApi: https://x\nslurmRestApiFallbacks: [https://y]\nslurmTLS: {caFile: /ca, certFile: /c, keyFile: /k}", Config{
			SchedulerName: "slurm-bridge-scheduler", SlurmRestAPI: "https://x", SlurmRestAPIFallbacks: []string{"https://y"},
			SlurmTLS: SlurmTLS{CAFile: "/ca", CertFile: "/c", KeyFile: "/k"}, ManagedNodeTaint: "NoExecute", Policy: "Open", Environment: "threads,slurm",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":   {"slurmRestApi: http://x\npartitoin: p", `unknown key "partitoin"; known are schedulerName, slurmRestApi`},
		"bad fallback":  {"slurmRestApi: http://x\nslurmRestApiFallbacks: [http://y, z]", `slurmRestApiFallbacks[1] is "z", not a URL`},
		"half a pair":   {"slurmRestApi: http://x\nslurmTLS: {certFile: /c}", "slurmTLS has one of certFile and keyFile"},
		"no URL":        {"partition: p", `slurmRestApi is "", not a URL such as http://slurm-restapi.slurm:6820`},
		"no scheme":     {"slurmRestApi: host:6820", `slurmRestApi is "host:6820", not a URL`},
		"bad effect":    {"slurmRestApi: http://x\nmanagedNodeTaint: Maybe", `managedNodeTaint is "Maybe", not NoExecute, NoSchedule or None`},
		"bad policy":    {"slurmRestApi: http://x\npolicy: closed", `policy is "closed", not Open or Restricted`},
		"bad group":     {"slurmRestApi: http://x\nenvironment: treads", `environment: "treads" is none of threads, slurm, peers, ranks, all and none`},
		"no plural":     {"slurmRestApi: http://x\nownerKinds: [{group: ray.io, version: v1, kind: RayCluster}]", "ownerKinds[0]: version, kind and resource (the plural in lower case) are all needed"},
		"no label":      {"slurmRestApi: http://x\nownerKinds: [{version: v1, kind: A, resource: as, gangLabel: 'a b'}]", `ownerKinds[0]: gangLabel "a b" is no name of a label`},
		"twice":         {"partition: a\npartition: b", "not valid YAML"},
		"wrong type":    {"managedNamespaces: a", "managedNamespaces"},
		"not a mapping": {"- a", "cannot unmarshal array"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestReadNamesTheFile(t *testing.T) {
	files := fstest.MapFS{"etc/c.yaml": {Data: []byte("x: 1")}}
	if _, err := Read(files, "etc/c.yaml"); err == nil || !strings.Contains(err.Error(), "/etc/c.yaml: unknown key") {
		t.Error(err)
	}
	if _, err := Read(files, "etc/d.yaml"); err == nil || !strings.Contains(err.Error(), "etc/d.yaml") {
		t.Error(err)
	}
}
