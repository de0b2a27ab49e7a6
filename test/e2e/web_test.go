package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The page of the chart: who brings a token that may see pods and nodes sees the pod with its
// job, by a header and after a login; others see nothing.
func TestWebPage(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-web")
	b.apply(bridgePod("shown", "exec sleep infinity"))
	// The box's own values, but the objects of the page alone, in this namespace.
	values := b.must("", "helm", "get", "values", "slurm-bridge", "--namespace", "slinky", "--output", "yaml")
	page := b.must(values, "helm", "template", "e2e-page", "../../charts/slurm-bridge", "--namespace", b.namespace, "--values", "-",
		"--set", "web.enabled=true", "--set", "web.image.tag=dev", "--set", "fullnameOverride=e2e-page",
		"--set-json", `web.tolerations=[{"key":"slinky.slurm.net/managed-node","operator":"Exists"}]`,
		"--show-only", "templates/web.yaml", "--show-only", "templates/config.yaml")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), b.patience)
		defer cancel()
		for _, args := range [][]string{
			{"kubectl", "delete", "clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/instance=e2e-page"},
			{"kubectl", "delete", "clusterrole/e2e-page-looks", "clusterrolebinding/e2e-page-looks", "--ignore-not-found"},
		} {
			if out, err := b.run(ctx, "", args...); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}
	})
	for _, name := range secretsOf(page) {
		text := b.kubectl("get", "secret", name, "-n", "slinky", "-o", "jsonpath={.data}")
		b.apply(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ndata: %s\n", name, text))
	}
	b.apply(page)
	b.kubectl("create", "serviceaccount", "viewer", "-n", b.namespace)
	b.kubectl("create", "serviceaccount", "guest", "-n", b.namespace)
	b.kubectl("create", "clusterrole", "e2e-page-looks", "--verb=list", "--resource=pods,nodes")
	b.kubectl("create", "clusterrolebinding", "e2e-page-looks", "--clusterrole=e2e-page-looks", "--serviceaccount="+b.namespace+":viewer")
	b.wait("deployment/e2e-page-web", "condition=Available")
	b.wait("pod/shown", "condition=Ready")
	address := "http://" + b.forward("service/e2e-page-web", "80")
	get := func(ctx context.Context, path, token string) (int, string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
		if err != nil {
			return 0, "", err
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return fetch(http.DefaultTransport, r)
	}
	viewer := strings.TrimSpace(b.kubectl("create", "token", "viewer", "-n", b.namespace))
	guest := strings.TrimSpace(b.kubectl("create", "token", "guest", "-n", b.namespace))
	for _, tc := range []struct {
		what, path, token, says string
		code                    int
	}{
		{"without a token", "/", "", "A token of the cluster", http.StatusUnauthorized},
		{"without a token, the facts", "/api/view", "", "A token of the cluster", http.StatusUnauthorized},
		{"a token without rights", "/api/view", guest, "may not list pods in all namespaces", http.StatusForbidden},
		{"the page of a viewer", "/", viewer, "<title>Slinky</title>", http.StatusOK},
		{"the facts of a viewer", "/api/view", viewer, `"kubernetes":{"known":true`, http.StatusOK},
	} {
		code, text, err := get(t.Context(), tc.path, tc.token)
		if err != nil || code != tc.code || !strings.Contains(text, tc.says) || code != http.StatusOK && strings.Contains(text, "e2e-web/shown") {
			t.Errorf("%s: %v, %d, want %d with %q\n%.600s", tc.what, err, code, tc.code, tc.says, text)
		}
	}
	for token, want := range map[string]int{guest: http.StatusForbidden, viewer: http.StatusSeeOther} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if code, text, err := fetch(http.DefaultTransport, r); err != nil || code != want {
			t.Errorf("a login: %v, %d, want %d\n%.600s", err, code, want, text)
		}
	}
	b.until("the pod is on the page, with its job", func(ctx context.Context) error {
		_, text, err := get(ctx, "/api/view", viewer)
		if err == nil && !strings.Contains(text, `"pods":["e2e-web/shown"],"podsRunning":1`) {
			err = fmt.Errorf("the page has\n%.3000s", text)
		}
		return err
	})
}

// fetch makes one request, without following where it leads.
func fetch(transport http.RoundTripper, r *http.Request) (int, string, error) {
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// secretsOf are the Secrets that a manifest mounts.
func secretsOf(manifest string) []string {
	var out []string
	for line := range strings.Lines(manifest) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "secretName: "); ok {
			out = append(out, name)
		}
	}
	return out
}
