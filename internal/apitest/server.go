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
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	if err != nil {
		t.Fatalf("start the API server of %s: %v", assets, err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stop the API server: %v", err)
		}
	})
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
	c := s.As(namespace, serviceAccount)
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

// Apply applies the manifests in a file of the repository, as an administrator.
func (s *Server) Apply(t testing.TB, file ...string) {
	t.Helper()
	c, err := client.New(s.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, u := range s.Manifests(t, file...) {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("apitest"), client.ForceOwnership); err != nil {
			t.Fatalf("apply %s %s of %s: %v", u.GetKind(), u.GetName(), filepath.Join(file...), err)
		}
	}
}

// Manifests reads the objects in a file of the repository.
func (s *Server) Manifests(t testing.TB, file ...string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{s.root}, file...)...))
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(u)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("read %s: %v", filepath.Join(file...), err)
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
