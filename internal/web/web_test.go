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

	"github.com/slinky-hpc/slinky/test/scene"
)

// answer is what came back, with its body read.
type answer struct {
	*httptest.ResponseRecorder
	cookies []*http.Cookie
}

func answered(w *httptest.ResponseRecorder) answer {
	r := w.Result()
	defer r.Body.Close()
	return answer{w, r.Cookies()}
}

func call(h http.Handler, method, target string, change func(*http.Request)) answer {
	r := httptest.NewRequest(method, target, nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answered(w)
}

func TestOneTimeToken(t *testing.T) {
	once := NewOnce()
	h := (&Server{Source: scene.Still(scene.Full()), Guard: once}).Handler()
	const home = "http://127.0.0.1:8080/"
	token := once.Token()
	if r := call(h, "GET", home, nil); r.Code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", r.Code)
	}
	if r := call(h, "GET", home+"?token=wrong", nil); r.Code != http.StatusUnauthorized {
		t.Errorf("with another token: %d", r.Code)
	}
	if r := call(h, "GET", "http://evil.example/?token="+token, nil); r.Code != http.StatusForbidden {
		t.Errorf("under a foreign name: %d", r.Code)
	}
	r := call(h, "GET", home+"?token="+token, nil)
	if r.Code != http.StatusSeeOther || len(r.cookies) != 1 || r.Header().Get("Location") != "/" {
		t.Fatalf("with the token: %d, cookies %v", r.Code, r.cookies)
	}
	c := r.cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie is %v", c)
	}
	if r := call(h, "GET", home+"?token="+token, nil); r.Code != http.StatusUnauthorized {
		t.Errorf("the token a second time: %d", r.Code)
	}
	if r := call(h, "GET", home+"?token=", nil); r.Code != http.StatusUnauthorized {
		t.Errorf("an empty token, once it is used up: %d", r.Code)
	}
	with := func(r *http.Request) { r.AddCookie(c) }
	for _, path := range []string{"", "app.js", "draw.js", "style.css", "api/view", "api/why?target=4708"} {
		r := call(h, "GET", home+path, with)
		if r.Code != http.StatusOK {
			t.Errorf("%q: %d", path, r.Code)
		}
		if policy := r.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%q has the policy %q", path, policy)
		}
	}
	if r := call(h, "POST", home+"api/view", with); r.Code != http.StatusMethodNotAllowed {
		t.Errorf("a write: %d", r.Code)
	}
	if r := call(h, "GET", home+"api/why?target=nope", with); r.Code != http.StatusNotFound {
		t.Errorf("of an unknown name: %d", r.Code)
	}
}

type anybody struct{}

func (anybody) Allow(http.ResponseWriter, *http.Request) bool { return true }

func TestPicture(t *testing.T) {
	h := (&Server{Source: scene.Still(scene.Large(100, 4000)), Guard: anybody{}}).Handler()
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
	again := call(h, "GET", "http://localhost/api/view", func(q *http.Request) { q.Header.Set("If-None-Match", r.Header().Get("ETag")) })
	if again.Code != http.StatusNotModified {
		t.Errorf("what the browser has already: %d", again.Code)
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
	h := (&Server{Source: scene.Still(scene.Full()), Guard: &Reviews{Kube: reviewed()}}).Handler()
	const home = "http://slinky.example/"
	if r := call(h, "GET", home+"api/view", nil); r.Code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", r.Code)
	}
	for token, want := range map[string]int{"admin": http.StatusOK, "guest": http.StatusForbidden, "nobody": http.StatusForbidden, "": http.StatusForbidden} {
		if r := call(h, "GET", home+"api/view", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }); r.Code != want {
			t.Errorf("token %q: %d", token, r.Code)
		}
	}
	login := func(token string) answer {
		r := httptest.NewRequest(http.MethodPost, home+"login", strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return answered(w)
	}
	if r := login("guest"); r.Code != http.StatusForbidden || len(r.cookies) != 0 {
		t.Errorf("a guest logs in: %d", r.Code)
	}
	r := login("admin")
	if r.Code != http.StatusSeeOther || len(r.cookies) != 1 || strings.Contains(r.cookies[0].Value, "admin") {
		t.Fatalf("admin logs in: %d, %v", r.Code, r.cookies)
	}
	if got := call(h, "GET", home+"api/view", func(q *http.Request) { q.AddCookie(r.cookies[0]) }); got.Code != http.StatusOK {
		t.Errorf("with the cookie: %d", got.Code)
	}
	if got := call(h, "GET", home+"healthz", nil); got.Code != http.StatusOK {
		t.Errorf("the probe: %d", got.Code)
	}
}
