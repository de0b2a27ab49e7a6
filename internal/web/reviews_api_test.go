package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/test/scene"
)

// The page in a pod, with the rights that the chart gives it, before a real API server: real
// tokens of real service accounts are let in, refused, and thrown out when they are gone.
func TestRealTokens(t *testing.T) {
	server := apitest.Start(t)
	admin, err := kubernetes.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	server.Namespace(t, "slinky")
	server.Apply(t, "config", "rbac", "web", "role.yaml")
	server.Bind(t, "slinky", "page", "slurm-bridge-web")
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"list"}}}
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "looks"}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	accounts := admin.CoreV1().ServiceAccounts("slinky")
	token := func(name string) string {
		t.Helper()
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		r, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Token
	}
	viewer, guest := token("viewer"), token("guest")
	server.Bind(t, "slinky", "viewer", "looks")

	page, err := kubernetes.NewForConfig(server.As("slinky", "page"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	d := &door{}
	d.guard = &Reviews{Kube: page, Now: func() time.Time { return now }}
	d.Handler = (&Server{Source: scene.Still(scene.Empty()), Guard: d.guard}).Handler()
	for who, tc := range map[string]struct {
		token, says string
		code        int
	}{
		"viewer":           {viewer, `neither Kubernetes nor Slurm`, http.StatusNotFound},
		"guest":            {guest, "system:serviceaccount:slinky:guest may not list pods in all namespaces", http.StatusForbidden},
		"forged":           {viewer[:len(viewer)-4] + "AAAA", "the API server doesn't know this token", http.StatusForbidden},
		"no token of ours": {"abc", "the API server doesn't know this token", http.StatusForbidden},
	} {
		r := call(d, "GET", "http://slinky.example/api/why?target=node/nobody", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tc.token) })
		if r.Code != tc.code || !strings.Contains(r.Body.String(), tc.says) {
			t.Errorf("%s: %d %s", who, r.Code, r.Body)
		}
	}
	if r := d.login(guest); len(r.cookies) != 0 || r.Code != http.StatusForbidden {
		t.Errorf("a guest logs in: %d", r.Code)
	}
	c := d.login(viewer).cookies[0]
	if code := d.with(c); code != http.StatusOK {
		t.Errorf("after the login: %d", code)
	}
	if err := accounts.Delete(t.Context(), "viewer", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, time.Minute, "the session of an account that is gone ends", func() error {
		now = now.Add(recheck)
		if code := d.with(c); code != http.StatusUnauthorized {
			return fmt.Errorf("it is answered with %d", code)
		}
		return nil
	})
}

// The rights of the chart are enough to see all of Kubernetes that the page shows.
func TestRightsOfThePage(t *testing.T) {
	server := apitest.Start(t)
	server.Namespace(t, "slinky")
	server.Apply(t, "config", "rbac", "web", "role.yaml")
	server.Bind(t, "slinky", "page", "slurm-bridge-web")
	kube, err := kubernetes.NewForConfig(server.As("slinky", "page"))
	if err != nil {
		t.Fatal(err)
	}
	live := worlds.NewLive(worlds.Sources{Kube: kube, SlurmAbsent: true})
	go live.Run(t.Context())
	apitest.Eventually(t, time.Minute, "all is seen", func() error {
		if k := live.Facts().Kubernetes; !k.Known || len(k.Missing)+len(k.Hidden) > 0 {
			return fmt.Errorf("known %v, %s; missing %v, hidden %q", k.Known, k.Error, k.Missing, k.Hidden)
		}
		return nil
	})
}
