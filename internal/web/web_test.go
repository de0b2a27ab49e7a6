package web

import (
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/test/scene"
)

type still struct{ facts view.Facts }

func (s still) Facts() view.Facts { return s.facts }

func call(h http.Handler, method, target string, change func(*http.Request)) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestOneTimeToken(t *testing.T) {
	once := NewOnce()
	h := (&Server{Source: still{scene.Full()}, Guard: once}).Handler()
	const home = "http://127.0.0.1:8080/"
	token := once.Token()
	if r := call(h, "GET", home, nil); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", r.Status)
	}
	if r := call(h, "GET", home+"?token=wrong", nil); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("with another token: %s", r.Status)
	}
	if r := call(h, "GET", "http://evil.example/?token="+token, nil); r.StatusCode != http.StatusForbidden {
		t.Errorf("under a foreign name: %s", r.Status)
	}
	r := call(h, "GET", home+"?token="+token, nil)
	if r.StatusCode != http.StatusSeeOther || len(r.Cookies()) != 1 || r.Header.Get("Location") != "/" {
		t.Fatalf("with the token: %s, cookies %v", r.Status, r.Cookies())
	}
	c := r.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie is %v", c)
	}
	if r := call(h, "GET", home+"?token="+token, nil); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the token a second time: %s", r.Status)
	}
	if r := call(h, "GET", home+"?token=", nil); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("an empty token, once it is used up: %s", r.Status)
	}
	with := func(r *http.Request) { r.AddCookie(c) }
	for _, path := range []string{"", "app.js", "draw.js", "style.css", "api/view", "api/why?target=4708"} {
		r := call(h, "GET", home+path, with)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%q: %s", path, r.Status)
		}
		if policy := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%q has the policy %q", path, policy)
		}
	}
	if r := call(h, "POST", home+"api/view", with); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a write: %s", r.Status)
	}
	if r := call(h, "GET", home+"api/why?target=nope", with); r.StatusCode != http.StatusNotFound {
		t.Errorf("of an unknown name: %s", r.Status)
	}
}

type anybody struct{}

func (anybody) Allow(http.ResponseWriter, *http.Request) bool { return true }

func TestPicture(t *testing.T) {
	h := (&Server{Source: still{scene.Large(100, 4000)}, Guard: anybody{}}).Handler()
	r := call(h, "GET", "http://localhost/api/view", nil)
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p Picture
	if err := json.NewDecoder(z).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if len(p.Items) != linesShown || p.More != 4000-linesShown || len(p.Nodes) != 150 {
		t.Errorf("%d lines, %d more, %d nodes", len(p.Items), p.More, len(p.Nodes))
	}
	again := call(h, "GET", "http://localhost/api/view", func(q *http.Request) { q.Header.Set("If-None-Match", r.Header.Get("ETag")) })
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("what the browser has already: %s", again.Status)
	}
}

// reviewed is an API server that knows two tokens, of which one may list pods.
func reviewed() *fake.Clientset {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		o.Status.Authenticated = o.Spec.Token == "admin" || o.Spec.Token == "guest"
		o.Status.User.Username = o.Spec.Token
		return true, o, nil
	})
	kube.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		o.Status.Allowed = o.Spec.User == "admin" && o.Spec.ResourceAttributes.Verb == "list"
		return true, o, nil
	})
	return kube
}

func TestTokensOfTheCluster(t *testing.T) {
	h := (&Server{Source: still{scene.Full()}, Guard: &Reviews{Kube: reviewed()}}).Handler()
	const home = "http://slinky.example/"
	if r := call(h, "GET", home+"api/view", nil); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", r.Status)
	}
	for token, want := range map[string]int{"admin": http.StatusOK, "guest": http.StatusForbidden, "nobody": http.StatusForbidden, "": http.StatusForbidden} {
		if r := call(h, "GET", home+"api/view", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }); r.StatusCode != want {
			t.Errorf("token %q: %s", token, r.Status)
		}
	}
	login := func(token string) *http.Response {
		r := httptest.NewRequest("POST", home+"login", strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	if r := login("guest"); r.StatusCode != http.StatusForbidden || len(r.Cookies()) != 0 {
		t.Errorf("a guest logs in: %s", r.Status)
	}
	r := login("admin")
	if r.StatusCode != http.StatusSeeOther || len(r.Cookies()) != 1 || strings.Contains(r.Cookies()[0].Value, "admin") {
		t.Fatalf("admin logs in: %s, %v", r.Status, r.Cookies())
	}
	if got := call(h, "GET", home+"api/view", func(q *http.Request) { q.AddCookie(r.Cookies()[0]) }); got.StatusCode != http.StatusOK {
		t.Errorf("with the cookie: %s", got.Status)
	}
	if got := call(h, "GET", home+"healthz", nil); got.StatusCode != http.StatusOK {
		t.Errorf("the probe: %s", got.Status)
	}
}
