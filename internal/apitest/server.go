// Package apitest gives tests a real Kubernetes API server. Such tests run with
// SLINKY_TEST_APISERVER=1 and KUBEBUILDER_ASSETS naming a folder with kube-apiserver
// and etcd, and are skipped without.
package apitest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Server is an API server that lives as long as its test.
type Server struct {
	// Config is an administrator's.
	Config *rest.Config
	root   string
}

// Start runs an API server with the project's custom resources. Flags are more
// flags for kube-apiserver, as "feature-gates=GenericWorkload=true".
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	if os.Getenv("SLINKY_TEST_APISERVER") != "1" {
		t.Skip("needs a real API server: set SLINKY_TEST_APISERVER=1 and KUBEBUILDER_ASSETS")
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: it must name a folder with kube-apiserver and etcd")
	}
	root := repository(t)
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{filepath.Join(root, "config", "crd")},
		ErrorIfCRDPathMissing: true,
	}
	for _, f := range flags {
		name, value, _ := strings.Cut(f, "=")
		env.ControlPlane.GetAPIServer().Configure().Append(name, value)
	}
	config, err := env.Start()
	// A server whose custom resources were refused runs all the same.
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stop the API server: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("start the API server of %s: %v", assets, err)
	}
	config.QPS, config.Burst = 1000, 1000
	return &Server{Config: config, root: root}
}

// As returns a configuration that acts as a service account, with the rights of nobody else.
func (s *Server) As(namespace, serviceAccount string) *rest.Config {
	c := rest.CopyConfig(s.Config)
	c.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + serviceAccount,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	return c
}

// Kubeconfig writes a kubeconfig that acts as a service account, with the rights of nobody
// else, and returns its path.
func (s *Server) Kubeconfig(t testing.TB, namespace, serviceAccount string) string {
	t.Helper()
	return write(t, s.As(namespace, serviceAccount), namespace)
}

// AdminKubeconfig writes an administrator's kubeconfig and returns its path.
func (s *Server) AdminKubeconfig(t testing.TB) string {
	t.Helper()
	return write(t, s.Config, "default")
}

func write(t testing.TB, c *rest.Config, namespace string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "test",
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test", Namespace: namespace}},
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: "https://" + strings.TrimPrefix(c.Host, "https://"), CertificateAuthorityData: c.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"test": {
			ClientCertificateData: c.CertData, ClientKeyData: c.KeyData,
			Impersonate: c.Impersonate.UserName, ImpersonateGroups: c.Impersonate.Groups,
		}},
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Bind gives a service account the rights of a cluster role, as the charts do.
func (s *Server) Bind(t testing.TB, namespace, serviceAccount, clusterRole string) {
	t.Helper()
	c, err := client.New(s.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: clusterRole + "-" + namespace + "-" + serviceAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: serviceAccount}},
	}
	if err := c.Create(t.Context(), binding); err != nil {
		t.Fatalf("let %s/%s do what %s may: %v", namespace, serviceAccount, clusterRole, err)
	}
}

// BindRole gives a service account the rights of a role in its namespace, as the charts do.
func (s *Server) BindRole(t testing.TB, namespace, serviceAccount, role string) {
	t.Helper()
	c, err := client.New(s.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role + "-" + serviceAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: serviceAccount}},
	}
	if err := c.Create(t.Context(), binding); err != nil {
		t.Fatalf("let %s/%s do what %s may: %v", namespace, serviceAccount, role, err)
	}
}

// Apply applies the manifests in a file of the repository, as an administrator.
func (s *Server) Apply(t testing.TB, file ...string) {
	t.Helper()
	s.apply(t, filepath.Join(file...), s.Manifests(t, file...))
}

// ApplyKinds applies the manifests of some kinds in a file of the repository.
func (s *Server) ApplyKinds(t testing.TB, kinds []string, file ...string) {
	t.Helper()
	objects := slices.DeleteFunc(s.Manifests(t, file...), func(u *unstructured.Unstructured) bool { return !slices.Contains(kinds, u.GetKind()) })
	if len(objects) == 0 {
		t.Fatalf("%s has nothing of the kinds %v", filepath.Join(file...), kinds)
	}
	s.apply(t, filepath.Join(file...), objects)
}

func (s *Server) apply(t testing.TB, from string, objects []*unstructured.Unstructured) {
	t.Helper()
	c, err := client.New(s.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, u := range objects {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("apitest"), client.ForceOwnership); err != nil {
			t.Fatalf("apply %s %s of %s: %v", u.GetKind(), u.GetName(), from, err)
		}
	}
}

// Chart applies what a chart of the repository renders with values, as "webhook.enabled=false",
// as a release of the chart's name, into a namespace that it makes.
func (s *Server) Chart(t testing.TB, namespace, chart string, values ...string) {
	t.Helper()
	helm := os.Getenv("SLINKY_HELM")
	if helm == "" {
		t.Fatal("SLINKY_HELM is not set: it must be the path of helm, as \"slinky tools helm\" prints it")
	}
	cmd := exec.CommandContext(t.Context(), helm, "template", chart, filepath.Join(s.root, "charts", chart), "--namespace", namespace)
	for _, v := range values {
		cmd.Args = append(cmd.Args, "--set", v)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	s.Namespace(t, namespace)
	s.apply(t, "chart "+chart, Objects(t, "chart "+chart, text))
}

// Namespace makes a namespace.
func (s *Server) Namespace(t testing.TB, name string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("Namespace")
	u.SetName(name)
	s.apply(t, "namespace "+name, []*unstructured.Unstructured{u})
}

// Manifests reads the objects in a file of the repository.
func (s *Server) Manifests(t testing.TB, file ...string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{s.root}, file...)...))
	if err != nil {
		t.Fatal(err)
	}
	return Objects(t, filepath.Join(file...), text)
}

// Objects reads the documents of a manifest; from says where it is from, for an error. Empty documents are left out.
func Objects(t testing.TB, from string, text []byte) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(u)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("read %s: %v", from, err)
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
}

// repository finds the folder of go.mod.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = parent
	}
}
