package web

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/slinky-hpc/slinky/test/scene"
)

// door is a page behind Reviews, whose API server and clock a test has in its hands.
type door struct {
	http.Handler
	guard *Reviews
	kube  *fake.Clientset
	now   time.Time
	away  bool
}

func newDoor() *door {
	d := &door{kube: reviewed(), now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}
	d.kube.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return d.away, nil, errors.New("etcd is away")
	})
	d.guard = &Reviews{Kube: d.kube, Now: func() time.Time { return d.now }}
	d.Handler = (&Server{Source: scene.Still(scene.Empty()), Guard: d.guard}).Handler()
	return d
}

func (d *door) login(token string) answer {
	r := httptest.NewRequest(http.MethodPost, "http://slinky.example/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return answered(w)
}

func (d *door) with(c *http.Cookie) int {
	return call(d, "GET", "http://slinky.example/api/view", func(r *http.Request) { r.AddCookie(c) }).Code
}

func (d *door) bearer(token string) int {
	return call(d, "GET", "http://slinky.example/api/view", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }).Code
}

// The login beyond the most that there may be ends one session: the one that was idle for longest.
func TestManySessions(t *testing.T) {
	d := newDoor()
	var cookies []*http.Cookie
	for range mostSessions {
		d.now = d.now.Add(time.Second)
		cookies = append(cookies, d.login("admin").cookies[0])
	}
	d.now = d.now.Add(time.Second)
	if code := d.with(cookies[0]); code != http.StatusOK {
		t.Fatalf("the first session: %d", code)
	}
	cookies = append(cookies, d.login("admin").cookies[0])
	for i, c := range cookies {
		want := http.StatusOK
		if i == 1 { // the first one has just been used
			want = http.StatusUnauthorized
		}
		if code := d.with(c); code != want {
			t.Errorf("session %d: %d, want %d", i, code, want)
		}
	}
}

// An API server that gives no answer says nothing about a token, so it ends no session.
func TestServerAway(t *testing.T) {
	d := newDoor()
	c := d.login("admin").cookies[0]
	d.away = true
	for _, step := range []struct {
		later time.Duration
		want  int
	}{{2 * recheck, http.StatusOK}, {unaskedHolds, http.StatusServiceUnavailable}} {
		d.now = d.now.Add(step.later)
		if code := d.with(c); code != step.want {
			t.Errorf("%v later: %d, want %d", step.later, code, step.want)
		}
	}
	if r := d.login("admin"); r.Code != http.StatusOK && r.Code != http.StatusServiceUnavailable {
		t.Errorf("a login while the API server is away: %d", r.Code)
	}
	d.away = false
	d.now = d.now.Add(askAgain)
	if code := d.with(c); code != http.StatusOK {
		t.Errorf("when the API server is back: %d", code)
	}
	d.now = d.now.Add(sessionLasts)
	if code := d.with(c); code != http.StatusUnauthorized {
		t.Errorf("at its end: %d", code)
	}
}

// A token that isn't good any more ends its session within a minute.
func TestWithdrawn(t *testing.T) {
	d := newDoor()
	c := d.login("admin").cookies[0]
	d.kube.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, a.(clienttesting.CreateAction).GetObject(), nil
	})
	d.now = d.now.Add(recheck)
	if code := d.with(c); code != http.StatusUnauthorized {
		t.Errorf("with a token that was withdrawn: %d", code)
	}
}

// A program that brings its token each time costs the API server three calls a minute.
func TestBearerIsAskedOnce(t *testing.T) {
	d := newDoor()
	d.kube.ClearActions()
	for range 50 {
		d.now = d.now.Add(time.Second)
		if code := d.bearer("admin"); code != http.StatusOK {
			t.Fatalf("a good token: %d", code)
		}
	}
	if n := len(d.kube.Actions()); n != 3 {
		t.Errorf("%d calls for 50 requests, want 3", n)
	}
	for i := range 2 * mostAnswers {
		if code := d.bearer("wrong" + strings.Repeat("x", i%7) + time.Duration(i).String()); code != http.StatusForbidden {
			t.Fatalf("a wrong token: %d", code)
		}
	}
	if n := len(d.guard.answers); n > mostAnswers {
		t.Errorf("%d answers are kept", n)
	}
}
