package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"strings"
	"sync"
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
