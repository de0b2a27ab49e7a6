package web

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Reviews lets in who has a token of the cluster that may list pods and nodes everywhere:
// that is what the page shows.
type Reviews struct {
	Kube kubernetes.Interface
	// Now is the clock; time.Now by default.
	Now func() time.Time

	mu sync.Mutex
	// sessions are by the hash of what the browser has, answers by the hash of a token.
	sessions map[hash]session
	answers  map[hash]ruling
}

type hash = [sha256.Size]byte

// session is one login. The token itself is kept to be asked about again.
type session struct {
	token       string
	begun, used time.Time
}

// ruling is what the API server said of a token.
type ruling struct {
	verdict verdict
	why     string
	// asked is when it was asked, good when it last said yes.
	asked, good time.Time
}

// verdict is whether a token is good.
type verdict int

const (
	// unasked: the API server gave no answer, which says nothing about the token.
	unasked verdict = iota
	refused
	allowed
)

// How long answers and sessions hold, and how many are kept.
const (
	recheck = time.Minute
	// askAgain is how soon is asked again where there was no answer, or a refusal: rights may have been given since.
	askAgain = 5 * time.Second
	// unaskedHolds is how long a good token is believed while the API server gives no answer.
	unaskedHolds = 10 * time.Minute
	sessionLasts = 12 * time.Hour
	mostSessions = 1000
	mostAnswers  = 2000
)

func (g *Reviews) now() time.Time {
	if g.Now != nil {
		return g.Now()
	}
	return time.Now()
}

// Allow implements Guard.
func (g *Reviews) Allow(w http.ResponseWriter, r *http.Request) bool {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return g.may(w, r, token)
	}
	if r.Method == http.MethodPost && r.URL.Path == "/login" {
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		if token := strings.TrimSpace(r.PostFormValue("token")); g.may(w, r, token) {
			g.login(w, r, token)
		}
		return false
	}
	if c, err := r.Cookie(cookie); err == nil {
		if token, ok := g.session(c.Value); ok {
			switch a := g.ask(r.Context(), token); a.verdict {
			case allowed:
				return true
			case unasked:
				http.Error(w, a.why, http.StatusServiceUnavailable)
				return false
			case refused:
				g.end(c.Value)
			}
		}
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

// may tells whether a token is good, and answers itself where it isn't.
func (g *Reviews) may(w http.ResponseWriter, r *http.Request, token string) bool {
	switch a := g.ask(r.Context(), token); a.verdict {
	case allowed:
		return true
	case unasked:
		http.Error(w, a.why, http.StatusServiceUnavailable)
	case refused:
		http.Error(w, a.why, http.StatusForbidden)
	}
	return false
}

// login begins a session. Where there are too many, the one goes that was not used for longest.
func (g *Reviews) login(w http.ResponseWriter, r *http.Request, token string) {
	id, now := newSecret(), g.now()
	g.mu.Lock()
	if g.sessions == nil {
		g.sessions = map[hash]session{}
	}
	for len(g.sessions) >= mostSessions {
		var idlest hash
		var used time.Time
		for key, s := range g.sessions {
			if used.IsZero() || s.used.Before(used) {
				idlest, used = key, s.used
			}
		}
		delete(g.sessions, idlest)
	}
	g.sessions[sha256.Sum256([]byte(id))] = session{token: token, begun: now, used: now}
	g.mu.Unlock()
	setCookie(w, r, id)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// session returns the token of a session that goes on.
func (g *Reviews) session(id string) (string, bool) {
	key, now := sha256.Sum256([]byte(id)), g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.sessions[key]
	if ok && now.Sub(s.begun) >= sessionLasts {
		delete(g.sessions, key)
		ok = false
	}
	if !ok {
		return "", false
	}
	s.used = now
	g.sessions[key] = s
	return s.token, true
}

func (g *Reviews) end(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sessions, sha256.Sum256([]byte(id)))
}

// ask returns what the API server says of a token: a good answer holds for a minute. While
// there is none, the last good one holds on for some minutes.
func (g *Reviews) ask(ctx context.Context, token string) ruling {
	if token == "" {
		return ruling{verdict: refused, why: "give a token of the cluster, such as: kubectl create token NAME"}
	}
	key, now := sha256.Sum256([]byte(token)), g.now()
	g.mu.Lock()
	before, known := g.answers[key]
	g.mu.Unlock()
	holds := askAgain
	if before.verdict == allowed && before.asked.Equal(before.good) {
		holds = recheck
	}
	if known && now.Sub(before.asked) < holds {
		return before
	}
	a := ruling{asked: now, good: before.good}
	a.verdict, a.why = g.review(ctx, token)
	switch {
	case a.verdict == allowed:
		a.good = now
	case a.verdict == unasked && ctx.Err() != nil:
		return a // who asked has gone, which says nothing of the API server
	case a.verdict == unasked && before.verdict == allowed && now.Sub(before.good) < unaskedHolds:
		a.verdict = allowed
	}
	g.keep(key, a)
	return a
}

func (g *Reviews) keep(key hash, a ruling) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answers == nil {
		g.answers = map[hash]ruling{}
	}
	if _, known := g.answers[key]; !known && len(g.answers) >= mostAnswers {
		for other, o := range g.answers { // those that hold no longer, or else any: they are asked for again
			if a.asked.Sub(o.asked) >= recheck || len(g.answers) >= mostAnswers {
				delete(g.answers, other)
			}
		}
	}
	g.answers[key] = a
}

// review asks the API server whose a token is, and whether they may see what the page shows.
func (g *Reviews) review(ctx context.Context, token string) (verdict, string) {
	t, err := g.Kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return unasked, "the API server can't be asked about the token: " + err.Error()
	}
	if !t.Status.Authenticated {
		return refused, "the API server doesn't know this token, or it has expired"
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
			return unasked, "the API server can't be asked what the token may see: " + err.Error()
		}
		if !a.Status.Allowed {
			return refused, fmt.Sprintf("%s may not list %s in all namespaces, which is what this page shows", t.Status.User.Username, resource)
		}
	}
	return allowed, ""
}
