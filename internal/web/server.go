// Package web is the page that "slinky web" serves: both worlds in one view, to look at alone.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

//go:embed page
var page embed.FS

// Source returns both worlds as they were last seen.
type Source interface{ Facts() view.Facts }

// Guard decides who may look. It answers itself where somebody may not.
type Guard interface {
	Allow(w http.ResponseWriter, r *http.Request) bool
}

// Server serves the page.
type Server struct {
	Source Source
	Guard  Guard

	mu    sync.Mutex
	made  time.Time
	model *view.Model
	text  []byte
	tag   string
}

// fresh is how long one picture is shown to all who ask: the work doesn't grow with them.
const fresh = time.Second

// linesShown bounds the queue that a page gets; it says how many there are more.
const linesShown = 2000

// Picture is what the page shows.
type Picture struct {
	view.Status
	Items []view.Item `json:"items"`
	// More is how many lines of the queue are left out.
	More  int          `json:"more"`
	Nodes []view.Node  `json:"nodes"`
	Top   []view.Owner `json:"top"`
}

// Make makes a picture of a model.
func Make(m *view.Model) Picture {
	p := Picture{Status: m.Status(), Items: m.Queue(false), Nodes: m.Nodes(), Top: m.Top()}
	if len(p.Items) > linesShown {
		p.Items, p.More = p.Items[:linesShown], len(p.Items)-linesShown
	}
	return p
}

// Handler returns the whole page.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, file := range map[string]string{"GET /{$}": "index.html", "GET /app.js": "app.js", "GET /draw.js": "draw.js", "GET /style.css": "style.css"} {
		mux.HandleFunc(path, s.static(file))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /api/view", s.view)
	mux.HandleFunc("GET /api/why", s.why)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harden(w.Header())
		if r.URL.Path == "/healthz" || s.Guard.Allow(w, r) {
			mux.ServeHTTP(w, r)
		}
	})
}

// harden lets the page run nothing and reach nothing but itself.
func harden(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func (s *Server) static(name string) http.HandlerFunc {
	kinds := map[string]string{"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
	return func(w http.ResponseWriter, _ *http.Request) {
		text, err := page.ReadFile("page/" + name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", kinds[name[strings.LastIndexByte(name, '.')+1:]])
		_, _ = w.Write(text)
	}
}

// picture returns the model and its picture as compressed JSON, made anew once a second at most.
func (s *Server) picture() (*view.Model, []byte, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.model != nil && time.Since(s.made) < fresh {
		return s.model, s.text, s.tag, nil
	}
	m := view.New(s.Source.Facts())
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(Make(m)); err != nil {
		return nil, nil, "", fmt.Errorf("write the picture: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, nil, "", fmt.Errorf("write the picture: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	s.made, s.model, s.text, s.tag = time.Now(), m, b.Bytes(), `"`+hex.EncodeToString(sum[:8])+`"`
	return s.model, s.text, s.tag, nil
}

func (s *Server) view(w http.ResponseWriter, r *http.Request) {
	_, text, tag, err := s.picture()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("ETag", tag)
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Encoding", "gzip") // every browser takes it
	_, _ = w.Write(text)
}

// explained is the answer to why something stands as it does.
type explained struct {
	Text string `json:"text"`
}

func (s *Server) why(w http.ResponseWriter, r *http.Request) {
	m, _, _, err := s.picture()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	found, err := m.Find("", r.URL.Query().Get("target"))
	w.Header().Set("Content-Type", "application/json")
	var e explained
	switch {
	case err != nil:
		w.WriteHeader(http.StatusNotFound)
		e.Text = view.Text(err.Error())
	case found.Node != nil:
		a := m.WhyNode(*found.Node)
		e.Text = a.Summary
		for _, do := range a.Do {
			e.Text += "\n- " + do
		}
	default:
		a := explain.Why(found.Facts)
		view.Clean(&a)
		e.Text = a.Text()
	}
	_ = json.NewEncoder(w).Encode(e) // the reader may have gone
}
