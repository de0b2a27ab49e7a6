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
	t.Run("scale", s.testScale)
}

func (s *suite) testRefused(t *testing.T) {
	cases := map[string]struct{ kind, spec, want string }{
		"controller without slurm key":   {"Controller", `{}`, "slurmKeyRef is required unless external is true"},
		"controller without jwt key":     {"Controller", `{"slurmKeyRef":{"key":"k"}}`, "jwtKeyRef is required unless external is true"},
		"external without config":        {"Controller", `{"external":true}`, "externalConfig is required when external is true"},
		"external without port":          {"Controller", `{"external":true,"externalConfig":{"host":"h"}}`, "port: Required value"},
		"ha without a claim":             {"Controller", `{` + keys + `,"ha":{"enabled":true},"persistence":{"enabled":true}}`, "ha needs persistence.enabled"},
		"cluster name with a line break": {"Controller", `{` + keys + `,"clusterName":"a\nb"}`, "clusterName"},
		"cluster name of 41 characters":  {"Controller", `{` + keys + `,"clusterName":"` + strings.Repeat("a", 41) + `"}`, "clusterName"},
		"accounting without key":         {"Accounting", `{}`, "slurmKeyRef is required unless external is true"},
		"storage without password":       {"Accounting", `{` + keys + `,"storageConfig":{"host":"h"}}`, "passwordKeyRef: Required value"},
		"rest api without controller":    {"RestApi", `{}`, "controllerRef: Required value"},
		"token without key":              {"Token", `{"username":"u"}`, "jwtKeyRef is required"},
		"token with a bad lifetime":      {"Token", `{"username":"u","jwtKeyRef":{"key":"k"},"lifetime":"3 days"}`, "lifetime"},
		"node set without controller":    {"NodeSet", `{"controllerRef":{}}`, "controllerRef.name must name a Controller"},
		"none unavailable":               {"NodeSet", `{"controllerRef":{"name":"c"},"updateStrategy":{"rollingUpdate":{"maxUnavailable":0}}}`, "must be a number of at least 1"},
		"0% unavailable":                 {"NodeSet", `{"controllerRef":{"name":"c"},"updateStrategy":{"rollingUpdate":{"maxUnavailable":"0%"}}}`, "must be a number of at least 1"},
		"scheduled without start":        {"NodeSet", `{"controllerRef":{"name":"c"},"updateStrategy":{"type":"ScheduledUpdate"}}`, "ScheduledUpdate needs"},
		"30s window":                     {"NodeSet", `{"controllerRef":{"name":"c"},"updateStrategy":{"scheduledUpdate":{"duration":"30s"}}}`, "at least 1m"},
		"partition with a line break":    {"NodeSet", `{"controllerRef":{"name":"c"},"partition":{"enabled":true,"config":"MaxTime=1\nSlurmUser=root"}}`, "spec.partition.config"},
		"partition with a comment":       {"NodeSet", `{"controllerRef":{"name":"c"},"partition":{"enabled":true,"config":"MaxTime=1 # x"}}`, "spec.partition.config"},
		"partition with U+2028":          {"NodeSet", `{"controllerRef":{"name":"c"},"partition":{"enabled":true,"config":"MaxTime=1\u2028SlurmUser=root"}}`, "spec.partition.config"},
		"unknown scaling mode":           {"NodeSet", `{"controllerRef":{"name":"c"},"scalingMode":"Deployment"}`, "Unsupported value"},
		"container that is a text":       {"NodeSet", `{"controllerRef":{"name":"c"},"slurmd":"image"}`, "spec.slurmd"},
		"login set without sssd":         {"LoginSet", `{"controllerRef":{"name":"c"}}`, "sssdConfRef: Required value"},
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
		"rest":          {"RestApi", `{"controllerRef":{"name":"c"},"service":{"spec":{"type":"NodePort"},"nodePort":30000}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := object(t, tc.kind, name, tc.spec)
			s.create(t, u)
			if tc.kind == "NodeSet" {
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

func (s *suite) testUnchangeable(t *testing.T) {
	for _, kind := range []string{"NodeSet", "LoginSet"} {
		u := object(t, kind, "fixed", `{"controllerRef":{"name":"c"},"sssdConfRef":{"name":"s","key":"k"}}`)
		if kind == "NodeSet" {
			u = object(t, kind, "fixed", `{"controllerRef":{"name":"c"}}`)
		}
		s.create(t, u)
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"controllerRef":{"name":"other"}}}`))
		if err := s.admin.Patch(t.Context(), u, patch); err == nil || !strings.Contains(err.Error(), "can't be changed") {
			t.Errorf("%s: got %v", kind, err)
		}
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
