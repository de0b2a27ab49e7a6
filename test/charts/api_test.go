package charts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/internal/apitest"
)

// cluster is a real API server, and helm that talks to it as an administrator.
type cluster struct {
	admin      client.Client
	kubeconfig string
	// authority is a certificate in PEM.
	authority []byte
}

func TestAPIServer(t *testing.T) {
	server := apitest.Start(t)
	helm(t)
	server.InstallOthers(t)
	config := rest.CopyConfig(server.Config)
	config.WarningHandler = rest.NoWarnings{} // privileged pods in plain namespaces, say
	admin, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{admin: admin, kubeconfig: server.AdminKubeconfig(t), authority: config.CAData}
	t.Run("accepted", c.testAccepted)
	t.Run("check 53: keys", c.testKeys)
	t.Run("unchanged", c.testUnchanged)
	t.Run("unchanged bridge", c.testBridgeUnchanged)
}

func (c *cluster) helm(t *testing.T, values string, args ...string) {
	t.Helper()
	if _, err := run(t, values, append(args, "--kubeconfig", c.kubeconfig)...); err != nil {
		t.Fatal(err)
	}
}

// testAccepted gives all that the charts render, with all values of the tests and examples,
// to the API server, which checks it and stores nothing.
func (c *cluster) testAccepted(t *testing.T) {
	for _, namespace := range []string{"slurm", "hpc", "slinky", "team-a", "team-b"} {
		if err := c.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			t.Fatal(err)
		}
	}
	high := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1}
	if err := c.admin.Create(t.Context(), high); err != nil {
		t.Fatal(err)
	}
	accepted := map[string]bool{}
	for _, tc := range append(cases(t), testCase{exporterChart, "everything", exporterEverything}, testCase{"dra-driver-cpu", "defaults", ""}) {
		t.Run(tc.chart+"/"+tc.name, func(t *testing.T) {
			for _, u := range render(t, tc.chart, tc.values) {
				accepted[u.GetKind()] = true
				if u.GetNamespace() == "" {
					if mapping, err := c.admin.RESTMapper().RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version); err != nil {
						t.Fatal(err)
					} else if mapping.Scope.Name() == "namespace" {
						u.SetNamespace("slurm")
					}
				}
				if err := c.admin.Create(t.Context(), u.DeepCopy(), client.DryRunAll, client.FieldValidation("Strict")); err != nil {
					t.Errorf("the API server refuses %s %s: %v", u.GetKind(), u.GetName(), err)
				}
			}
		})
	}
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule", "Certificate", "Issuer"} {
		if !accepted[kind] {
			t.Errorf("no case renders a %s", kind)
		}
	}
}

// oldChart makes its keys itself, as published charts do: random, immutable, part of the release.
const oldChart = `apiVersion: v1
kind: Secret
metadata:
  name: slurm-auth-%[1]s
  namespace: {{ .Release.Namespace }}
type: Opaque
immutable: true
data:
  %[1]s.key: {{ randAscii 1024 | b64enc }}
---
`

// testKeys upgrades a release of an older chart: its keys stay, also with the next upgrade.
// A new release gets none from the chart, but asks for them, and keeps what the operator made.
func (c *cluster) testKeys(t *testing.T) {
	old := filepath.Join(t.TempDir(), "slurm")
	if err := os.MkdirAll(filepath.Join(old, "templates"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"Chart.yaml":          "apiVersion: v2\nname: slurm\nversion: 1.2.1\n",
		"templates/keys.yaml": fmt.Sprintf(oldChart, "slurm") + fmt.Sprintf(oldChart, "jwt"),
	} {
		if err := os.WriteFile(filepath.Join(old, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c.helm(t, "", "install", "slurm", old, "--namespace", "old", "--create-namespace")
	before := c.keys(t, "old")
	for range 2 {
		c.helm(t, "", "upgrade", "slurm", chart("slurm"), "--namespace", "old")
		same(t, "the keys after an upgrade", before, c.keys(t, "old"))
	}

	c.helm(t, "", "install", "slurm", chart("slurm"), "--namespace", "new", "--create-namespace")
	for _, name := range []string{"slurm", "jwt"} {
		secret := c.secret(t, "new", name)
		if secret.Annotations["slinky.slurm.net/generate-key"] != name+".key" || len(secret.Data) != 0 {
			t.Fatalf("the new Secret %s has annotations %v and %d keys", secret.Name, secret.Annotations, len(secret.Data))
		}
		// What the operator does.
		yes := true
		secret.Data, secret.Immutable = map[string][]byte{name + ".key": []byte("made for " + name)}, &yes
		if err := c.admin.Update(t.Context(), secret, client.FieldOwner("slurm-operator")); err != nil {
			t.Fatal(err)
		}
	}
	before = c.keys(t, "new")
	for range 2 {
		c.helm(t, "nodesets: {a: {}}", "upgrade", "slurm", chart("slurm"), "--namespace", "new", "--values", "-")
		same(t, "the keys after an upgrade", before, c.keys(t, "new"))
	}
}

func (c *cluster) secret(t *testing.T, namespace, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := c.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "slurm-auth-" + name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// keys are the UIDs and the contents of both Secrets.
func (c *cluster) keys(t *testing.T, namespace string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"slurm", "jwt"} {
		secret := c.secret(t, namespace, name)
		out[name] = fmt.Sprint(secret.UID, string(secret.Data[name+".key"]), *secret.Immutable)
		if len(secret.Data[name+".key"]) == 0 {
			t.Errorf("Secret %s has no key", secret.Name)
		}
	}
	return out
}

// testUnchanged upgrades with the same values: nothing of the cluster is written.
func (c *cluster) testUnchanged(t *testing.T) {
	values, _, _ := strings.Cut(read(t, "testdata/slurm/everything.yaml"), "extraObjects:")
	install := func() map[string]string {
		c.helm(t, values, "upgrade", "--install", "slurm", chart("slurm"), "--namespace", "same", "--create-namespace", "--values", "-")
		versions := map[string]string{}
		for _, kind := range []string{"Controller", "Accounting", "RestApi", "NodeSet", "LoginSet", "Token"} {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: "slinky.slurm.net", Version: "v1beta1", Kind: kind + "List"})
			if err := c.admin.List(t.Context(), list, client.InNamespace("same")); err != nil {
				t.Fatal(err)
			}
			for _, u := range list.Items {
				versions[kind+" "+u.GetName()] = fmt.Sprint(u.GetGeneration(), u.GetResourceVersion())
			}
		}
		return versions
	}
	first := install()
	if len(first) != 9 {
		t.Errorf("the chart made %d custom resources, want 9: %v", len(first), first)
	}
	same(t, "the custom resources after an upgrade without a change", first, install())
}
