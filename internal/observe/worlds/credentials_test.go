package worlds

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/slinky-hpc/slinky/slurm/rest"
)

// deployment is one of the bridge's programs, with a Secret as a volume.
func deployment(secret string, items ...corev1.KeyToPath) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "slinky", Name: "any"}}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}}}},
		{Name: "slurm-token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, Items: items}}},
	}
	return d
}

func secret(name, key, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "slinky", Name: name}, Data: map[string][]byte{key: []byte(value)}}
}

// The token is found in the Secret that the programs have mounted, however the chart's values call it.
func TestBridgesToken(t *testing.T) {
	published := deployment("slurm-bridge-token")
	before := deployment("unused")
	before.Spec.Template.Spec.Volumes = before.Spec.Template.Spec.Volumes[:1]
	before.Spec.Template.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "SLURM_JWT", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "old"}, Key: "token"},
	}}}}}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    string
	}{
		"by values":            {[]runtime.Object{deployment("mine", corev1.KeyToPath{Key: "auth-token", Path: "auth-token"}), secret("mine", "auth-token", "SLURM_JWT=abc\n")}, "abc"},
		"published chart":      {[]runtime.Object{published, secret("slurm-bridge-token", "auth-token", "def")}, "def"},
		"published up to 1.2":  {[]runtime.Object{before, secret("old", "token", "ghi")}, "ghi"},
		"without a deployment": {[]runtime.Object{secret("slurm-bridge-token", "auth-token", "jkl")}, "jkl"},
	} {
		t.Run(name, func(t *testing.T) {
			tokens, err := bridge{namespace: "slinky"}.tokens(t.Context(), fake.NewClientset(tc.objects...), "slurm")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := tokens.Token(t.Context()); err != nil || got != tc.want {
				t.Errorf("the token is %q, %v, want %q", got, err, tc.want)
			}
		})
	}
	t.Run("a key of another name", func(t *testing.T) {
		kube := fake.NewClientset(deployment("keys", corev1.KeyToPath{Key: "hs256", Path: "jwt.key"}), secret("keys", "hs256", "0123456789abcdef0123456789abcdef"))
		tokens, err := bridge{namespace: "slinky"}.tokens(t.Context(), kube, "slurm")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tokens.Token(t.Context()); err != nil || strings.Count(got, ".") != 2 {
			t.Errorf("the token is %q, %v", got, err)
		}
	})
}

func TestNoToken(t *testing.T) {
	kube := fake.NewClientset(secret("slurm-bridge-token", "token", "x"))
	_, err := bridge{namespace: "slinky"}.tokens(t.Context(), kube, "slurm")
	for _, want := range []string{"set SLURM_JWT", "Secret slinky/slurm-bridge-token has no key auth-token", "there is no Secret slinky/slurm-jwt"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, and should say %q", err, want)
		}
	}
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "slurm-bridge-token", errors.New("not you"))
	kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	if _, err := (bridge{namespace: "slinky"}).tokens(t.Context(), kube, "slurm"); err == nil || !strings.Contains(err.Error(), "not you") {
		t.Errorf("who may not read Secrets is told %v", err)
	}
}

// A token that is replaced is taken without a restart: at once if Slurm refuses the old one,
// else within a minute. An API server that is away takes none away.
func TestReplacedSecret(t *testing.T) {
	kube := fake.NewClientset(secret("slurm-bridge-token", "auth-token", "one"))
	tokens, err := bridge{namespace: "slinky"}.tokens(t.Context(), kube, "slurm")
	if err != nil {
		t.Fatal(err)
	}
	is := func(want string) {
		t.Helper()
		if got, err := tokens.Token(t.Context()); err != nil || got != want {
			t.Errorf("the token is %q, %v, want %q", got, err, want)
		}
	}
	is("one")
	if _, err := kube.CoreV1().Secrets("slinky").Update(t.Context(), secret("slurm-bridge-token", "auth-token", "two"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	is("one")
	tokens.(rest.Renewer).Renew()
	is("two")
	kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("etcd is away") })
	tokens.(rest.Renewer).Renew()
	is("two")
}

func TestReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	tokens, err := Slurmrestd{TokenFile: path}.tokens(t.Context(), nil, endpoint{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"SLURM_JWT=one\n", "three"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		want := strings.TrimSpace(strings.TrimPrefix(text, "SLURM_JWT="))
		if got, err := tokens.Token(t.Context()); err != nil || got != want {
			t.Errorf("the token is %q, %v, want %q", got, err, want)
		}
	}
}

// The configuration that is mounted says all that its ConfigMap would.
func TestMountedConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := "schedulerName: mine\nslurmRestApi: https://slurmrestd:6820\nslurmRestApiFallbacks: [https://other:6820]\nslurmTLS: {caFile: /nowhere/ca.crt}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := readBridge(path)
	if err != nil || b.SchedulerName != "mine" || b.URL != "https://slurmrestd:6820" || len(b.Fallbacks) != 1 || b.TLS.CAFile != "/nowhere/ca.crt" {
		t.Errorf("the configuration is %+v, %v", b, err)
	}
	if _, err := readBridge(path + "x"); err == nil || !strings.Contains(err.Error(), "config.yamlx") {
		t.Errorf("of a missing file is said: %v", err)
	}
}
