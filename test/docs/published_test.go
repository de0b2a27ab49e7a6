package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// published are the facts of the published custom resources that manifests, scripts and
// autoscalers rely on: names; scale; columns; required fields; defaults.
func published() map[string]string {
	const age = "AGE .metadata.creationTimestamp date 0"
	return map[string]string{
		"Controller": `controllers controller slurmctld
` + age + `
required spec.externalConfig: host port
required spec.ha: enabled
required spec.jwksKeyRef: key
required spec.jwtHs256KeyRef: key
required spec.jwtKeyRef: key
required spec.metrics.serviceMonitor.endpoints: path
required spec.persistence: enabled
required spec.slurmKeyRef: key
default spec.ha.backups 1
default spec.persistence.enabled true`,
		"Accounting": `accountings accounting slurmdbd
` + age + `
required spec.externalConfig: host port
required spec.jwksKeyRef: key
required spec.jwtHs256KeyRef: key
required spec.jwtKeyRef: key
required spec.slurmKeyRef: key
required spec.storageConfig: host passwordKeyRef
required spec.storageConfig.passwordKeyRef: key
default spec.storageConfig.database slurm_acct_db
default spec.storageConfig.port 3306`,
		"RestApi": `restapis restapi slurmrestd
` + age + `
required spec: controllerRef
default spec.replicas 1`,
		"NodeSet": `nodesets nodeset nodesets nss slurmd
scale .spec.replicas .status.replicas .status.selector
DESIRED .status.desired integer 0
REPLICAS .status.replicas integer 0
UPDATED .status.updatedReplicas integer 0
READY .status.readyReplicas integer 0
IDLE .status.slurmIdle integer 1
ALLOCATED .status.slurmAllocated integer 1
DOWN .status.slurmDown integer 1
DRAIN .status.slurmDrain integer 1
` + age + `
required spec: controllerRef
required spec.partition: enabled
required spec.ssh: enabled sssdConfRef
required spec.ssh.sssdConfRef: key
required status: nodeSetHash selector
default spec.minReadySeconds 0
default spec.ordinalPadding 0
default spec.oversubscribeNode false
default spec.persistentVolumeClaimRetentionPolicy.whenDeleted Retain
default spec.persistentVolumeClaimRetentionPolicy.whenScaled Retain
default spec.pinToNode false
default spec.pruneSlurmNodeRecords Never
default spec.replicas 1
default spec.revisionHistoryLimit 0
default spec.scalingMode StatefulSet
default spec.updateStrategy.rollingUpdate.maxUnavailable 25%
default spec.updateStrategy.scheduledUpdate.duration 30m
default spec.updateStrategy.type RollingUpdate
default spec.workloadDisruptionProtection true`,
		"LoginSet": `loginsets loginset loginsets lss sackd
scale .spec.replicas .status.replicas .status.selector
REPLICAS .status.replicas integer 0
` + age + `
required spec: controllerRef sssdConfRef
required spec.sssdConfRef: key
required status: selector
default spec.replicas 1`,
		"Token": `tokens token tokens jwt
USER .spec.username string 0
IAT .status.issuedAt date 0
` + age + `
required spec: username
required spec.jwtHs256KeyRef: key
required spec.jwtKeyRef: key
required spec.secretRef: key
default spec.refresh true`,
	}
}

// ours are the columns and the required parts of optional fields that only we have.
func ours() []string {
	return []string{
		`AUTOSCALING .status.conditions[?(@.type=="AutoscalingActive")].message string 1`,
		"required spec.autoscaling: maxReplicas",
		"required spec.topologyFromLabels: labels topology",
	}
}

// TestCheck1PublishedFacts: whoever has the published custom resources finds the same things here.
func TestCheck1PublishedFacts(t *testing.T) {
	for kind, want := range published() {
		t.Run(kind, func(t *testing.T) {
			words := strings.Fields(want)
			crd := definition(t, words[0])
			if crd.Spec.Group != "slinky.slurm.net" || crd.Spec.Scope != apiextensionsv1.NamespaceScoped || crd.Spec.Names.Kind != kind || len(crd.Spec.Versions) != 1 {
				t.Fatalf("it is %+v", crd.Spec.Names)
			}
			v := crd.Spec.Versions[0]
			if v.Name != "v1beta1" || !v.Served || !v.Storage || v.Subresources == nil || v.Subresources.Status == nil {
				t.Errorf("version is %s, served %v, stored %v, subresources %+v", v.Name, v.Served, v.Storage, v.Subresources)
			}
			got := facts(crd)
			var missing []string
			for line := range strings.SplitSeq(want, "\n") {
				if !slices.Contains(got, line) {
					missing = append(missing, line)
				}
			}
			if len(missing) > 0 {
				t.Errorf("(-missing)\n%s\nof\n%s", strings.Join(missing, "\n"), strings.Join(got, "\n"))
			}
			// A field that was not required must not become so, and a column must keep its place.
			var extra []string
			for _, line := range got {
				if !strings.HasPrefix(line, "default ") && !strings.Contains(line, ".service.") && !slices.Contains(append(ours(), strings.Split(want, "\n")...), line) {
					extra = append(extra, line)
				}
			}
			if len(extra) > 0 {
				t.Errorf("beyond what is published:\n%s", strings.Join(extra, "\n"))
			}
		})
	}
}

func definition(t *testing.T, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "slinky.slurm.net_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func facts(crd *apiextensionsv1.CustomResourceDefinition) []string {
	n, v := crd.Spec.Names, crd.Spec.Versions[0]
	out := []string{strings.Join(append([]string{n.Plural, n.Singular}, n.ShortNames...), " ")}
	if s := v.Subresources.Scale; s != nil {
		out = append(out, strings.Join([]string{"scale", s.SpecReplicasPath, s.StatusReplicasPath, *s.LabelSelectorPath}, " "))
	}
	for _, c := range v.AdditionalPrinterColumns {
		out = append(out, fmt.Sprintf("%s %s %s %d", c.Name, c.JSONPath, c.Type, c.Priority))
	}
	for _, part := range []string{"spec", "status"} {
		out = append(out, schemaFacts(part, v.Schema.OpenAPIV3Schema.Properties[part])...)
	}
	return out
}

func schemaFacts(path string, s apiextensionsv1.JSONSchemaProps) []string {
	var out []string
	if s.Items != nil {
		s = *s.Items.Schema
	}
	// Kubernetes' own types are what Kubernetes says.
	for _, foreign := range []string{"conditions", "strategy", "dataSource", "dataSourceRef", "resources", "selector"} {
		if strings.HasSuffix(path, "."+foreign) {
			return nil
		}
	}
	if len(s.Required) > 0 {
		required := slices.Sorted(slices.Values(s.Required))
		out = append(out, fmt.Sprintf("required %s: %s", path, strings.Join(required, " ")))
	}
	for name, p := range s.Properties {
		if p.Default != nil && string(p.Default.Raw) != `""` {
			out = append(out, fmt.Sprintf("default %s.%s %s", path, name, strings.Trim(string(p.Default.Raw), `"`)))
		}
		out = append(out, schemaFacts(path+"."+name, p)...)
	}
	return out
}

func TestSchemaFactsSeeNestedFields(t *testing.T) {
	inner := apiextensionsv1.JSONSchemaProps{Required: []string{"b", "a"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"a": {Default: &apiextensionsv1.JSON{Raw: []byte(`"x"`)}}}}
	got := schemaFacts("spec", apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"list": {Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &inner}}}})
	if diff := cmp.Diff([]string{"required spec.list: a b", "default spec.list.a x"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
