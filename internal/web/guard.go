package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// cookie is what a browser keeps.
const cookie = "slinky"

func newSecret() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// Once lets in who has the address with the one-time token, from this machine alone: whoever
// opens it first gets a cookie, and the token is used up.
type Once struct {
	mu             sync.Mutex
	token, session string
}

// NewOnce returns a guard with a new token.
func NewOnce() *Once { return &Once{token: newSecret(), session: newSecret()} }

// Token is what the address must have as its parameter "token", once.
func (o *Once) Token() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.token
}

// Allow implements Guard.
func (o *Once) Allow(w http.ResponseWriter, r *http.Request) bool {
	if !local(r.Host) { // else a page of somebody else's could let its name lead here
		http.Error(w, "this page is for this machine alone: open it as http://localhost:PORT", http.StatusForbidden)
		return false
	}
	if c, err := r.Cookie(cookie); err == nil && same(c.Value, o.session) {
		return true
	}
	given := r.URL.Query().Get("token")
	o.mu.Lock()
	good := o.token != "" && same(given, o.token)
	if good {
		o.token = ""
	}
	o.mu.Unlock()
	if !good {
		http.Error(w, "open the address that slinky web has printed; it works once, so start slinky web again for another browser", http.StatusUnauthorized)
		return false
	}
	setCookie(w, r, o.session)
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return false
}

func local(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func setCookie(w http.ResponseWriter, r *http.Request, value string) {
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	})
}

// Reviews lets in who has a token of the cluster that may list pods and nodes everywhere:
// that is what the page shows.
type Reviews struct {
	Kube kubernetes.Interface

	mu sync.Mutex
	// sessions are by the hash of what the browser has; the token itself is kept to be asked about again.
	sessions map[[sha256.Size]byte]session
}

type session struct {
	token   string
	checked time.Time
	begun   time.Time
}

// How long an answer of the API server about a token holds, and a session, and how many there may be.
const (
	recheck      = time.Minute
	sessionLasts = 12 * time.Hour
	mostSessions = 1000
)

// Allow implements Guard.
func (g *Reviews) Allow(w http.ResponseWriter, r *http.Request) bool {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return g.answer(w, r, token, func() { /* programs bring it each time */ }, true)
	}
	if r.Method == http.MethodPost && r.URL.Path == "/login" {
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		g.answer(w, r, strings.TrimSpace(r.PostFormValue("token")), func() { g.login(w, r) }, false)
		return false
	}
	if c, err := r.Cookie(cookie); err == nil && g.known(r.Context(), c.Value) {
		return true
	}
	if r.URL.Path == "/style.css" {
		return true // the login page needs it, and it has nothing to hide
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusUnauthorized)
	text, _ := page.ReadFile("page/login.html") // it is embedded
	_, _ = w.Write(text)
	return false
}

func (g *Reviews) answer(w http.ResponseWriter, r *http.Request, token string, good func(), may bool) bool {
	ok, why := g.review(r.Context(), token)
	if !ok {
		http.Error(w, why, http.StatusForbidden)
		return false
	}
	good()
	return may
}

func (g *Reviews) login(w http.ResponseWriter, r *http.Request) {
	id := newSecret()
	now := time.Now()
	g.mu.Lock()
	if g.sessions == nil || len(g.sessions) >= mostSessions {
		g.sessions = map[[sha256.Size]byte]session{}
	}
	g.sessions[sha256.Sum256([]byte(id))] = session{strings.TrimSpace(r.PostFormValue("token")), now, now}
	g.mu.Unlock()
	setCookie(w, r, id)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// known tells whether a session goes on: its token is asked about again each minute.
func (g *Reviews) known(ctx context.Context, id string) bool {
	key := sha256.Sum256([]byte(id))
	g.mu.Lock()
	s, ok := g.sessions[key]
	g.mu.Unlock()
	switch {
	case !ok:
		return false
	case time.Since(s.begun) < sessionLasts && time.Since(s.checked) < recheck:
		return true
	}
	if good, _ := g.review(ctx, s.token); !good || time.Since(s.begun) >= sessionLasts {
		g.mu.Lock()
		delete(g.sessions, key)
		g.mu.Unlock()
		return false
	}
	s.checked = time.Now()
	g.mu.Lock()
	g.sessions[key] = s
	g.mu.Unlock()
	return true
}

// review asks the API server whose a token is, and whether they may see what the page shows.
func (g *Reviews) review(ctx context.Context, token string) (bool, string) {
	if token == "" {
		return false, "give a token of the cluster, such as: kubectl create token NAME"
	}
	t, err := g.Kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return false, "the API server can't be asked about the token: " + err.Error()
	}
	if !t.Status.Authenticated {
		return false, "the API server doesn't know this token, or it has expired"
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range t.Status.User.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	for _, resource := range []string{"pods", "nodes"} {
		a, err := g.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: t.Status.User.Username, UID: t.Status.User.UID, Groups: t.Status.User.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: resource},
		}}, metav1.CreateOptions{})
		if err != nil {
			return false, "the API server can't be asked what the token may see: " + err.Error()
		}
		if !a.Status.Allowed {
			return false, t.Status.User.Username + " may not list " + resource + " in all namespaces, which is what this page shows"
		}
	}
	return true, ""
}
