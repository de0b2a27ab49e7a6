package charts

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// published are the values of the published charts with their defaults. A user's values
// file must mean the same here, so none of these may go away or change.
const published = `
slurm-operator:
  nameOverride: ""
  fullnameOverride: ""
  namespaceOverride: ""
  imagePullSecrets: []
  imagePullPolicy: IfNotPresent
  priorityClassName: ""
  crds.enabled: false
  operator.enabled: true
  operator.replicas: 1
  operator.imagePullPolicy: IfNotPresent
  operator.image.tag: null
  operator.image.digest: null
  operator.serviceAccount: {create: true, name: ""}
  operator.nodeSelector: {}
  operator.affinity: {}
  operator.tolerations: []
  operator.topologySpreadConstraints: []
  operator.podSecurityContext: {}
  operator.securityContext: {}
  operator.resources: {}
  operator.pdb: {enabled: false, minAvailable: 1, maxUnavailable: null}
  operator.accountingWorkers: 4
  operator.controllerWorkers: 4
  operator.loginsetWorkers: 4
  operator.nodesetWorkers: 4
  operator.restapiWorkers: 4
  operator.tokenWorkers: 4
  operator.slurmclientWorkers: 2
  operator.logLevel: info
  operator.healthPort: 8081
  operator.metricsPort: 8080
  operator.metricsSecure: false
  operator.profile: false
  operator.profileAddr: localhost:6060
  operator.leaderElection: true
  operator.namespaces: ""
  webhook.enabled: true
  webhook.podsBinding: false
  webhook.replicas: 1
  webhook.imagePullPolicy: IfNotPresent
  webhook.image.tag: null
  webhook.image.digest: null
  webhook.serviceAccount: {create: true, name: ""}
  webhook.nodeSelector: {}
  webhook.affinity: {}
  webhook.tolerations: []
  webhook.topologySpreadConstraints: []
  webhook.podSecurityContext: {}
  webhook.securityContext: {}
  webhook.resources: {}
  webhook.pdb: {enabled: false, minAvailable: 1, maxUnavailable: null}
  webhook.logLevel: info
  webhook.timeoutSeconds: 10
  webhook.validating: {failurePolicy: Fail, matchConditions: [], matchPolicy: Equivalent, namespaceSelector: {}}
  webhook.mutating: {failurePolicy: Ignore, matchConditions: [], matchPolicy: Equivalent}
  webhook.serverPort: 9443
  webhook.healthPort: 8081
  webhook.metricsPort: 0
  webhook.metricsSecure: false
  webhook.leaderElection: true
  webhook.namespaces: ""
  certManager: {enabled: true, secretName: slurm-operator-webhook-ca, duration: 43800h0m0s, renewBefore: 8760h0m0s}
  propagatedNodeConditions: []
  extraObjects: []
slurm-bridge:
  nameOverride: ""
  fullnameOverride: ""
  namespaceOverride: ""
  scheduler.image.tag: ""
  scheduler.image.pullPolicy: IfNotPresent
  scheduler.replicaCount: 1
  scheduler.pdb.enabled: false
  scheduler.priorityClassName: ""
  scheduler.resources: {}
  scheduler.nodeSelector: {}
  scheduler.affinity: {}
  scheduler.tolerations: []
  scheduler.verbosity: null
  schedulerConfig.schedulerName: slurm-bridge-scheduler
  schedulerConfig.mcsLabel: kubernetes
  schedulerConfig.partition: slurm-bridge
  admission.enabled: true
  admission.image.tag: ""
  admission.image.pullPolicy: IfNotPresent
  admission.certManager: {enabled: true, duration: 43800h0m0s, renewBefore: 8760h0m0s}
  admission.replicas: 1
  admission.pdb: {enabled: false, minAvailable: 1, maxUnavailable: null}
  admission.priorityClassName: ""
  admission.resources: {}
  admission.nodeSelector: {}
  admission.affinity: {}
  admission.tolerations: []
  admission.managedNamespaces: [slurm-bridge]
  admission.managedNamespaceSelector: {}
  controllers.image.tag: ""
  controllers.image.pullPolicy: IfNotPresent
  controllers.replicas: 1
  controllers.pdb: {enabled: false, minAvailable: 1, maxUnavailable: null}
  controllers.priorityClassName: ""
  controllers.resources: {}
  controllers.nodeSelector: {}
  controllers.affinity: {}
  controllers.tolerations: []
  controllers.verbosity: null
  sharedConfig.slurmRestApi: http://slurm-restapi.slurm:6820
  sharedConfig.slurmJwtSecret: slurm-bridge-token
slurm:
  nameOverride: null
  fullnameOverride: null
  namespaceOverride: null
  asciiArt: true
  imagePullSecrets: []
  imagePullPolicy: IfNotPresent
  priorityClass: {enabled: false, create: false, name: slurm-system-critical, description: null, value: 1000000000, preemptionPolicy: PreemptLowerPriority}
  slurmKey: {create: true, annotations: {}, secretRef: {}}
  jwtKey: {create: true, annotations: {}, secretRef: {}}
  jwksKeys: {enabled: false, configMapRef: {}}
  clusterName: null
  configFiles: {}
  prologScripts: {}
  epilogScripts: {}
  prologSlurmctldScripts: {}
  epilogSlurmctldScripts: {}
  prologScriptRefs: []
  epilogScriptRefs: []
  prologSlurmctldScriptRefs: []
  epilogSlurmctldScriptRefs: []
  controller.external: false
  controller.externalConfig: {host: slurmctld.example.com, port: null}
  controller.slurmctld.image: {repository: ghcr.io/slinkyproject/slurmctld, tag: 26.05-ubuntu26.04, digest: null}
  controller.slurmctld.args: []
  controller.slurmctld.resources: {}
  controller.inplaceReconfigure: false
  controller.reconfigure.resources: {}
  controller.logfile.image: {repository: docker.io/library/alpine, tag: latest, digest: null}
  controller.logfile.resources: {}
  controller.ha: {enabled: false, backups: 1}
  controller.persistence: {enabled: true, existingClaim: "", storageClassName: null, accessModes: [ReadWriteOnce], resources: {requests: {storage: 4Gi}}}
  controller.extraConf: null
  controller.extraConfMap: {}
  controller.metadata: {}
  controller.podSpec: {resources: {}, initContainers: [], nodeSelector: {kubernetes.io/os: linux}, affinity: {}, tolerations: []}
  controller.service.metadata: {}
  controller.service.spec: {}
  controller.metrics.enabled: false
  controller.metrics.serviceMonitor.enabled: false
  controller.metrics.serviceMonitor.annotations: {}
  controller.metrics.serviceMonitor.labels: {}
  controller.metrics.serviceMonitor.interval: 30s
  controller.metrics.serviceMonitor.scrapeTimeout: 25s
  restapi.replicas: 1
  restapi.pdb: {enabled: false, minAvailable: 1, maxUnavailable: null}
  restapi.slurmrestd: {image: {repository: ghcr.io/slinkyproject/slurmrestd, tag: 26.05-ubuntu26.04, digest: null}, env: [], args: [], resources: {}}
  restapi.metadata: {}
  restapi.podSpec: {resources: {}, initContainers: [], nodeSelector: {kubernetes.io/os: linux}, affinity: {}, tolerations: []}
  accounting.enabled: false
  accounting.external: false
  accounting.externalConfig: {host: slurmdbd.example.com, port: null}
  accounting.slurmdbd: {image: {repository: ghcr.io/slinkyproject/slurmdbd, tag: 26.05-ubuntu26.04, digest: null}, args: [], resources: {}}
  accounting.storageConfig: {host: mariadb, port: 3306, database: slurm_acct_db, username: slurm, passwordKeyRef: {name: mariadb-password, key: password}}
  accounting.extraConf: null
  accounting.extraConfMap: {}
  accounting.podSpec: {resources: {}, initContainers: [], nodeSelector: {kubernetes.io/os: linux}, affinity: {}, tolerations: []}
  sssd.secretRef: {}
  loginsetDefaults.enabled: true
  loginsetDefaults.replicas: 1
  loginsetDefaults.strategy: {}
  loginsetDefaults.login: {image: {repository: ghcr.io/slinkyproject/login, tag: 26.05-ubuntu26.04, digest: null}, env: [], securityContext: {privileged: false}, resources: {}, volumeMounts: []}
  loginsetDefaults.initconf: {image: {repository: docker.io/library/alpine, tag: latest, digest: null}, resources: {}}
  loginsetDefaults.rootSshAuthorizedKeys: null
  loginsetDefaults.extraSshdConfig: null
  loginsetDefaults.metadata: {}
  loginsetDefaults.podSpec: {resources: {}, initContainers: [], nodeSelector: {kubernetes.io/os: linux}, affinity: {}, tolerations: [], volumes: []}
  loginsetDefaults.service.spec: {type: LoadBalancer}
  loginsets: {}
  nodesetDefaults.enabled: true
  nodesetDefaults.scalingMode: StatefulSet
  nodesetDefaults.replicas: 1
  nodesetDefaults.pinToNode: false
  nodesetDefaults.workloadDisruptionProtection: true
  nodesetDefaults.pruneSlurmNodeRecords: Never
  nodesetDefaults.ordinalPadding: 0
  nodesetDefaults.oversubscribeNode: false
  nodesetDefaults.slurmd: {image: {repository: ghcr.io/slinkyproject/slurmd, tag: 26.05-ubuntu26.04, digest: null}, args: [], env: [], resources: {}, volumeMounts: []}
  nodesetDefaults.logfile: {image: {repository: docker.io/library/alpine, tag: latest, digest: null}, resources: {}}
  nodesetDefaults.extraConf: null
  nodesetDefaults.extraConfMap: {}
  nodesetDefaults.partition: {enabled: false, config: null, configMap: {}}
  nodesetDefaults.ssh: {enabled: false, extraSshdConfig: null}
  nodesetDefaults.updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 25%}, scheduledUpdate: {}}
  nodesetDefaults.metadata: {}
  nodesetDefaults.podSpec: {resources: {}, initContainers: [], nodeSelector: {kubernetes.io/os: linux}, affinity: {}, tolerations: [], volumes: []}
  nodesets: {}
  partitions: {all: {enabled: false, nodesets: [ALL], config: null, configMap: {Default: "YES", MaxTime: UNLIMITED}}}
  vendor.nvidia.dcgm: {enabled: false, jobMappingDir: /var/lib/dcgm-exporter/job-mapping, scriptPriority: "90"}
  vendor.google: {a3mega: [], a3ultra: []}
  extraObjects: []
`

func TestPublishedValues(t *testing.T) {
	var charts map[string]map[string]any
	if err := yaml.Unmarshal([]byte(published), &charts); err != nil {
		t.Fatal(err)
	}
	for name, defaults := range charts {
		t.Run("check 53: "+name, func(t *testing.T) {
			ours := defaultsOf(t, name)
			for path, want := range defaults {
				got, ok := lookUp(ours, strings.Split(path, "."))
				if !ok {
					t.Errorf("there is no value %s", path)
					continue
				}
				same(t, path, want, got)
			}
		})
	}
}

func defaultsOf(t testing.TB, name string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(read(t, chart(name), "values.yaml")), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func lookUp(values map[string]any, path []string) (any, bool) {
	v, ok := values[path[0]]
	if !ok || len(path) == 1 {
		return v, ok
	}
	section, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	return lookUp(section, path[1:])
}

// All values as they stand in values.yaml can be given, so the schema knows each of them,
// and each is described for the table in the README.
func TestSchemaKnowsEveryValue(t *testing.T) {
	for _, name := range []string{"slurm", "slurm-operator", "slurm-operator-crds", "slurm-bridge", "dra-driver-cpu", "slurm-exporter"} {
		t.Run(name, func(t *testing.T) {
			var schema map[string]any
			if err := json.Unmarshal([]byte(read(t, chart(name), "values.schema.json")), &schema); err != nil {
				t.Fatal(err)
			}
			readme := read(t, chart(name), "README.md")
			walk(t, schema, schema, defaultsOf(t, name), "", readme)
		})
	}
}

// walk fails for a value that the schema doesn't name or the README doesn't describe.
func walk(t *testing.T, schema, part map[string]any, values map[string]any, prefix, readme string) {
	t.Helper()
	part = resolve(t, schema, part)
	properties, ok := part["properties"].(map[string]any)
	if !ok {
		return // anything goes: the API server knows these
	}
	for key, value := range values {
		path := prefix + key
		sub, ok := properties[key].(map[string]any)
		if !ok {
			t.Errorf("the schema doesn't know %s", path)
			continue
		}
		if strings.Contains(readme, "| `"+path+"` |") {
			continue // what is below belongs to this value
		}
		section, ok := value.(map[string]any)
		if !ok || len(section) == 0 || path == "partitions" {
			if path != "partitions" {
				t.Errorf("%s has no description", path)
			}
			continue
		}
		walk(t, schema, sub, section, path+".", readme)
	}
	if prefix != "" || part["additionalProperties"] == false {
		return
	}
	t.Error("the schema takes unknown values")
}

func resolve(t *testing.T, schema, part map[string]any) map[string]any {
	t.Helper()
	ref, ok := part["$ref"].(string)
	if !ok {
		return part
	}
	definitions, _ := schema["definitions"].(map[string]any)
	out, ok := definitions[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	if !ok {
		t.Fatalf("the schema has no %s", ref)
	}
	return out
}
