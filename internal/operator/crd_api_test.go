package operator

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

const keys = `"slurmKeyRef":{"name":"s","key":"slurm.key"},"jwtKeyRef":{"name":"j","key":"jwt.key"}`

func object(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion":"slinky.slurm.net/v1beta1","kind":%q,"metadata":{"name":%q,"namespace":"crds"},"spec":%s}`, kind, name, spec)
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return u
}

// testSchema checks what the API server accepts, refuses and fills in.
func (s *suite) testSchema(t *testing.T) {
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "crds"}})
	t.Run("refused", s.testRefused)
	t.Run("accepted", s.testAccepted)
	t.Run("defaults", s.testDefaults)
	t.Run("unchangeable", s.testUnchangeable)
	t.Run("changeable", s.testChangeable)
	t.Run("check 8: scale", s.testScale)
	t.Run("unknown fields", s.testUnknownFields)
}

func (s *suite) testRefused(t *testing.T) {
	cases := map[string]struct{ kind, spec, want string }{
		"check 2: controller without slurm key": {"Controller", `{}`, "slurmKeyRef is required unless external is true"},
		"controller without jwt key":            {"Controller", `{"slurmKeyRef":{"key":"k"}}`, "jwtKeyRef is required unless external is true"},
		"check 2: external without config":      {"Controller", `{"external":true}`, "externalConfig is required when external is true"},
		"external without port":                 {"Controller", `{"external":true,"externalConfig":{"host":"h"}}`, "port: Required value"},
		"check 3: ha without a claim":           {"Controller", `{` + keys + `,"ha":{"enabled":true},"persistence":{"enabled":true}}`, "ha needs persistence.enabled"},
		"cluster name with a line break":        {"Controller", `{` + keys + `,"clusterName":"a\nb"}`, "clusterName"},
		"cluster name of 41 characters":         {"Controller", `{` + keys + `,"clusterName":"` + strings.Repeat("a", 41) + `"}`, "clusterName"},
		"accounting without key":                {"Accounting", `{}`, "slurmKeyRef is required unless external is true"},
		"storage without password":              {"Accounting", `{` + keys + `,"storageConfig":{"host":"h"}}`, "passwordKeyRef: Required value"},
		"rest api without controller":           {"RestApi", `{}`, "controllerRef: Required value"},
		"token without key":                     {"Token", `{"username":"u"}`, "jwtKeyRef is required"},
		"token with a bad lifetime":             {"Token", `{"username":"u","jwtKeyRef":{"key":"k"},"lifetime":"3 days"}`, "lifetime"},
		"node set without controller":           {"NodeSet", `{"controllerRef":{}}`, "controllerRef.name must name a Controller"},
		"none unavailable":                      {"NodeSet", `{"controllerRef":{"name":"c"},"updateStrategy":{"rollingUpdate":{"maxUnavailable":0}}}`, "must be a number of at least 1"},
		"0% unavailable":                        {"NodeSet", `{"controllerRef":{"name":"c"},"updateStrategy":{"rollingUpdate":{"maxUnavailable":"0%"}}}`, "must be a number of at least 1"},
		"scheduled without start":               {"NodeSet", `{"controllerRef":{"name":"c"},"updateStrategy":{"type":"ScheduledUpdate"}}`, "ScheduledUpdate needs"},
		"30s window":                            {"NodeSet", `{"controllerRef":{"name":"c"},"updateStrategy":{"scheduledUpdate":{"duration":"30s"}}}`, "at least 1m"},
		"check 9: partition with a line break":  {"NodeSet", `{"controllerRef":{"name":"c"},"partition":{"enabled":true,"config":"MaxTime=1\nSlurmUser=root"}}`, "spec.partition.config"},
		"partition with a comment":              {"NodeSet", `{"controllerRef":{"name":"c"},"partition":{"enabled":true,"config":"MaxTime=1 # x"}}`, "spec.partition.config"},
		"partition with U+2028":                 {"NodeSet", `{"controllerRef":{"name":"c"},"partition":{"enabled":true,"config":"MaxTime=1\u2028SlurmUser=root"}}`, "spec.partition.config"},
		"unknown scaling mode":                  {"NodeSet", `{"controllerRef":{"name":"c"},"scalingMode":"Deployment"}`, "Unsupported value"},
		"container that is a text":              {"NodeSet", `{"controllerRef":{"name":"c"},"slurmd":"image"}`, "spec.slurmd"},
		"more than all unavailable":             {"NodeSet", `{"controllerRef":{"name":"c"},"updateStrategy":{"rollingUpdate":{"maxUnavailable":"150%"}}}`, "from 1% to 100%"},
		"minus one unavailable":                 {"NodeSet", `{"controllerRef":{"name":"c"},"updateStrategy":{"rollingUpdate":{"maxUnavailable":-1}}}`, "must be a number of at least 1"},
		"minus one replicas":                    {"NodeSet", `{"controllerRef":{"name":"c"},"replicas":-1}`, "spec.replicas"},
		"minus one digits":                      {"NodeSet", `{"controllerRef":{"name":"c"},"ordinalPadding":-1}`, "spec.ordinalPadding"},
		"extraConf without a value":             {"NodeSet", `{"controllerRef":{"name":"c"},"extraConf":"foo"}`, "spec.extraConf"},
		"extraConf with a line break":           {"NodeSet", `{"controllerRef":{"name":"c"},"extraConf":"Weight=1\nSlurmUser=root"}`, "spec.extraConf"},
		"extraConf with U+2028":                 {"NodeSet", `{"controllerRef":{"name":"c"},"extraConf":"Weight=1\u2028SlurmUser=root"}`, "spec.extraConf"},
		"extraConf with an open quote":          {"NodeSet", `{"controllerRef":{"name":"c"},"extraConf":"Feature=\"a"}`, "spec.extraConf"},
		"ssh without sssd":                      {"NodeSet", `{"controllerRef":{"name":"c"},"ssh":{"enabled":true,"sssdConfRef":{"key":"k"}}}`, "sssdConfRef.name must name a Secret"},
		"login set with unnamed sssd":           {"LoginSet", `{"controllerRef":{"name":"c"},"sssdConfRef":{"key":"k"}}`, "sssdConfRef.name must name a Secret"},
		"host with a line break":                {"Controller", `{"external":true,"externalConfig":{"host":"h\nSlurmUser=root","port":6817}}`, "externalConfig.host"},
		"port above all ports":                  {"Controller", `{"external":true,"externalConfig":{"host":"h","port":65536}}`, "externalConfig.port"},
		"service port below all ports":          {"RestApi", `{"controllerRef":{"name":"c"},"service":{"port":-1}}`, "service.port"},
		"user name with a line break":           {"Token", `{"username":"u\nroot","jwtKeyRef":{"key":"k"}}`, "spec.username"},
		"login set without sssd":                {"LoginSet", `{"controllerRef":{"name":"c"}}`, "sssdConfRef: Required value"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := s.admin.Create(t.Context(), object(t, tc.kind, "refused", tc.spec))
			if err == nil {
				t.Fatal("it was accepted")
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to contain %q", err, tc.want)
			}
		})
	}
}

func (s *suite) testAccepted(t *testing.T) {
	cases := map[string]struct{ kind, spec string }{
		"old-key-name":  {"Controller", `{"slurmKeyRef":{"name":"s","key":"k"},"jwtHs256KeyRef":{"name":"j","key":"k"}}`},
		"external":      {"Controller", `{"external":true,"externalConfig":{"host":"h","port":6817}}`},
		"ha":            {"Controller", `{` + keys + `,"ha":{"enabled":true},"persistence":{"enabled":true,"existingClaim":"c"}}`},
		"metrics":       {"Controller", `{` + keys + `,"metrics":{"enabled":true,"serviceMonitor":{"enabled":true,"interval":"1m30s","labels":{"a":"b"},"endpoints":[{"path":"/metrics/jobs"}]}}}`},
		"accounting":    {"Accounting", `{` + keys + `,"storageConfig":{"host":"h","passwordKeyRef":{"name":"p","key":"k"}}}`},
		"unknown-parts": {"NodeSet", `{"controllerRef":{"name":"c"},"slurmd":{"someNewField":true},"template":{"metadata":{"labels":null},"spec":{"hostname":"gpu-"}},"volumeClaimTemplates":[{"metadata":{"name":"x"}}]}`},
		"login":         {"LoginSet", `{"controllerRef":{"name":"c"},"sssdConfRef":{"name":"s","key":"k"}}`},
		"token":         {"Token", `{"username":"u","jwtKeyRef":{"name":"j","key":"k"},"lifetime":"1h30m"}`},
		"spaced-conf":   {"NodeSet", `{"controllerRef":{"name":"c"},"extraConf":"  Gres=gpu:a100:4  Features=\"a b\",c\tWeight=2\n"}`},
		"all-of-them":   {"NodeSet", `{"controllerRef":{"name":"c"},"replicas":0,"extraConf":"","updateStrategy":{"rollingUpdate":{"maxUnavailable":"100%"}}}`},
		"no-ssh":        {"NodeSet", `{"controllerRef":{"name":"c"},"ssh":{"enabled":false,"sssdConfRef":{"key":"k"}}}`},
		"odd-name":      {"Controller", `{` + keys + `,"clusterName":"my:cluster@1"}`},
		"rest":          {"RestApi", `{"controllerRef":{"name":"c"},"service":{"spec":{"type":"NodePort"},"nodePort":30000}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := object(t, tc.kind, name, tc.spec)
			s.create(t, u)
			if name == "unknown-parts" {
				if is, _, _ := unstructured.NestedBool(u.Object, "spec", "slurmd", "someNewField"); !is {
					t.Error("an unknown field of a container was dropped")
				}
			}
		})
	}
}

func (s *suite) testDefaults(t *testing.T) {
	n := &v1beta1.NodeSet{}
	s.create(t, object(t, "NodeSet", "defaults", `{"controllerRef":{"name":"c"},"updateStrategy":{"rollingUpdate":{},"scheduledUpdate":{}},"persistentVolumeClaimRetentionPolicy":{}}`))
	s.get(t, "crds", "defaults", n)
	got := fmt.Sprintln(n.Spec.ScalingMode, *n.Spec.Replicas, *n.Spec.WorkloadDisruptionProtection, n.Spec.PruneSlurmNodeRecords,
		n.Spec.UpdateStrategy.Type, n.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, n.Spec.UpdateStrategy.ScheduledUpdate.Duration.Duration,
		n.Spec.PersistentVolumeClaimRetentionPolicy)
	if diff := cmp.Diff("StatefulSet 1 true Never RollingUpdate 25% 30m0s {Retain Retain}\n", got); diff != "" {
		t.Errorf("NodeSet (-want +got):\n%s", diff)
	}
	a := &v1beta1.Accounting{}
	s.get(t, "crds", "accounting", a)
	if a.Spec.StorageConfig.Port != 3306 || a.Spec.StorageConfig.Database != "slurm_acct_db" {
		t.Errorf("Accounting: %+v", a.Spec.StorageConfig)
	}
	k := &v1beta1.Token{}
	s.get(t, "crds", "token", k)
	if !k.Spec.Refresh {
		t.Error("a Token is not refreshed by default")
	}
}

// testUnchangeable changes what must stay, with no webhook about.
func (s *suite) testUnchangeable(t *testing.T) {
	controller := `{` + keys + `,"clusterName":"one","persistence":{"enabled":true,"existingClaim":"c"}}`
	cases := map[string]struct{ kind, spec, patch, want string }{
		"nodeset-ref":        {"NodeSet", `{"controllerRef":{"name":"c"}}`, `{"controllerRef":{"name":"other"}}`, "controllerRef can't be changed"},
		"loginset-ref":       {"LoginSet", `{"controllerRef":{"name":"c"},"sssdConfRef":{"name":"s","key":"k"}}`, `{"controllerRef":{"name":"other"}}`, "controllerRef can't be changed"},
		"cluster-name":       {"Controller", controller, `{"clusterName":"two"}`, "clusterName can't be changed"},
		"slurm-key":          {"Controller", controller, `{"slurmKeyRef":{"name":"other"}}`, "slurmKeyRef.name can't be changed"},
		"no-slurm-key":       {"Controller", controller, `{"slurmKeyRef":null,"external":true,"externalConfig":{"host":"h","port":1}}`, "slurmKeyRef.name can't be changed"},
		"jwt-key":            {"Controller", controller, `{"jwtKeyRef":{"key":"other"}}`, "jwtKeyRef can't be changed"},
		"jwt-secret":         {"Controller", controller, `{"jwtKeyRef":{"name":"other"}}`, "jwtKeyRef can't be changed"},
		"persistence":        {"Controller", controller, `{"persistence":{"enabled":false}}`, "persistence.enabled can't be changed"},
		"no-persistence":     {"Controller", controller, `{"persistence":null}`, "persistence.enabled can't be changed"},
		"existing-claim":     {"Controller", controller, `{"persistence":{"existingClaim":"other"}}`, "persistence.existingClaim can't be changed"},
		"accounting-jwt":     {"Accounting", `{` + keys + `}`, `{"jwtKeyRef":{"name":"other"}}`, "jwtKeyRef can't be changed"},
		"token-jwt":          {"Token", `{"username":"u","jwtHs256KeyRef":{"name":"j","key":"k"}}`, `{"jwtKeyRef":{"name":"other","key":"k"}}`, "jwtKeyRef can't be changed"},
		"no-claim-templates": {"NodeSet", `{"controllerRef":{"name":"c"},"volumeClaimTemplates":[{"metadata":{"name":"a"}}]}`, `{"volumeClaimTemplates":null}`, "volumeClaimTemplates can't be changed"},
		"claim-templates":    {"NodeSet", `{"controllerRef":{"name":"c"},"volumeClaimTemplates":[{"metadata":{"name":"a"}}]}`, `{"volumeClaimTemplates":[{"metadata":{"name":"b"}}]}`, "volumeClaimTemplates can't be changed"},
	}
	for name, tc := range cases {
		t.Run("check 7: "+name, func(t *testing.T) {
			u := object(t, tc.kind, "fixed-"+name, tc.spec)
			s.create(t, u)
			err := s.admin.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"spec":`+tc.patch+`}`)))
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to contain %q", err, tc.want)
			}
		})
	}
}

// testChangeable changes what only looks like what must stay.
func (s *suite) testChangeable(t *testing.T) {
	cases := map[string]struct{ kind, spec, patch string }{
		"slurm-key-key": {"Controller", `{` + keys + `}`, `{"slurmKeyRef":{"key":"other"}}`},
		"new-jwt-name":  {"Controller", `{"slurmKeyRef":{"name":"s","key":"k"},"jwtHs256KeyRef":{"name":"j","key":"k"}}`, `{"jwtKeyRef":{"name":"j","key":"k"},"jwtHs256KeyRef":null}`},
		"late-keys":     {"Controller", `{"external":true,"externalConfig":{"host":"h","port":1}}`, `{` + keys + `}`},
		"scaling-mode":  {"NodeSet", `{"controllerRef":{"name":"c"}}`, `{"scalingMode":"DaemonSet"}`},
		"rest-ref":      {"RestApi", `{"controllerRef":{"name":"c"}}`, `{"controllerRef":{"name":"other"}}`},
		"same-claims":   {"NodeSet", `{"controllerRef":{"name":"c"},"volumeClaimTemplates":[{"metadata":{"name":"a"},"x":{"y":[1]}}]}`, `{"volumeClaimTemplates":[{"metadata":{"name":"a"},"x":{"y":[1]}}],"replicas":2}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := object(t, tc.kind, "free-"+name, tc.spec)
			s.create(t, u)
			if err := s.admin.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"spec":`+tc.patch+`}`))); err != nil {
				t.Error(err)
			}
		})
	}
}

func (s *suite) testScale(t *testing.T) {
	u := object(t, "NodeSet", "scaled", `{"controllerRef":{"name":"c"}}`)
	s.create(t, u)
	scale := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": int64(3)}}}
	if err := s.admin.SubResource("scale").Update(t.Context(), u, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	n := &v1beta1.NodeSet{}
	s.get(t, "crds", "scaled", n)
	if *n.Spec.Replicas != 3 {
		t.Errorf("replicas is %d", *n.Spec.Replicas)
	}
}
