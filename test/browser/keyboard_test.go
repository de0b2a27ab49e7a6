package browser

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/internal/web"
	"github.com/slinky-hpc/slinky/test/scene"
)

// visit opens the page of some facts in a browser that a test steers.
func visit(t *testing.T, f view.Facts) *tab {
	t.Helper()
	needsChromium(t)
	view.Clean(&f)
	once := web.NewOnce()
	server := httptest.NewServer((&web.Server{Source: scene.Still(f), Guard: once}).Handler())
	t.Cleanup(server.Close)
	return openTab(t, server.URL+"/?token="+once.Token())
}

// The page without a mouse: Tab comes to all that there is in the order of reading, letters and
// arrows move, Enter tells why, and Escape goes back to where one was.
func TestKeyboard(t *testing.T) {
	p := visit(t, scene.Full())
	at := func(what, want string) {
		t.Helper()
		if got := p.focus(); got != want {
			t.Errorf("%s: the focus is on %q, want %q", what, got, want)
		}
	}
	first := p.eval(`document.querySelector('#queue tr').dataset.target`)
	second := p.eval(`document.querySelectorAll('#queue tr')[1].dataset.target`)
	p.press("Tab")
	at("the first Tab", "To the queue")
	p.press("Tab")
	at("the next", "find")
	states := p.eval(`document.querySelectorAll('#states button').length`)
	for p.press("Tab"); p.eval(`document.activeElement.closest('#states') !== null`) == "true"; p.press("Tab") {
	}
	if states == "0" || p.eval(`document.activeElement.closest('.scroll') !== null`) != "true" {
		t.Errorf("behind the %s states the focus is on %q, want the queue", states, p.focus())
	}

	p.press("q")
	at("q", first)
	p.press("j")
	at("j", second)
	p.press("k")
	at("k", first)
	p.press("ArrowDown", "ArrowDown", "ArrowUp")
	at("arrows", second)
	if p.eval(`getComputedStyle(document.activeElement).outlineStyle`) == "none" {
		t.Error("the focus can't be seen")
	}

	p.press("Enter")
	p.until("Enter tells why", `document.getElementById('why').open && document.getElementById('why-text').textContent.length > 20`)
	if p.eval(`document.activeElement.closest('dialog') !== null`) != "true" {
		t.Errorf("with the answer open the focus is on %q", p.focus())
	}
	p.press("j")
	p.until("keys don't reach what is behind", `document.getElementById('why').open`)
	p.press("Escape")
	p.until("Escape closes it", `!document.getElementById('why').open`)
	at("after Escape", second)

	p.press("n")
	node := p.focus()
	if p.eval(`document.activeElement.classList.contains('node')`) != "true" {
		t.Fatalf("n: the focus is on %q, want a node", node)
	}
	p.press("ArrowRight")
	next := p.focus()
	if next == node {
		t.Error("the arrow goes to no other node")
	}
	p.press("Enter")
	p.until("Enter tells of the node", `document.getElementById('why').open && document.getElementById('why-title').textContent.includes(`+"'"+next+"'"+`)`)
	p.press("Escape")
	p.until("Escape closes it", `!document.getElementById('why').open`)
	at("after Escape", next)

	p.press("/")
	at("/", "find")
	p.press("p", "r", "e", "t")
	p.until("find narrows the list", `[...document.querySelectorAll('#queue tr')].every(r => r.textContent.includes('pret')) && document.querySelectorAll('#queue tr').length > 0`)
	p.press("Escape")
	p.until("Escape ends it", `document.getElementById('find').value === '' && document.querySelectorAll('#queue tr').length > 1`)

	// A new picture leaves the focus where it is.
	p.press("q", "j")
	p.eval(`drawQueue()`)
	at("after a new picture", second)
}

// The page follows the browser's setting, and can be read in both.
func TestDarkAndLight(t *testing.T) {
	p := visit(t, scene.Full())
	seen := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		seen[p.eval(`getComputedStyle(document.body).backgroundColor`)] = true
		// The contrast of WCAG between each text and what is behind it; 4.5 is its level AA.
		low := p.eval(`(() => {
			const rgb = c => (c.match(/[\d.]+/g) || []).map(Number), lum = ([r, g, b]) => { const f = x => (x /= 255) <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
			const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
			const bad = new Set();
			for (const e of document.querySelectorAll('body *')) {
				if (!e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
				const a = lum(rgb(getComputedStyle(e).color)), b = lum(behind(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
				if (ratio < 4.5) bad.add(e.tagName + '.' + e.className + ' ' + ratio.toFixed(1) + ' ' + e.textContent.slice(0, 20));
			}
			return [...bad].slice(0, 20).join('\n');
		})()`)
		if low != "" {
			t.Errorf("in %s can't be read well:\n%s", scheme, low)
		}
	}
	if len(seen) != 2 {
		t.Errorf("dark and light have the same background: %v", seen)
	}
}

// Keys do no harm where there is nothing, and are quick where there is much.
func TestKeysOfOtherClusters(t *testing.T) {
	for name, f := range map[string]view.Facts{"empty": scene.Empty(), "broken": scene.Broken(), "very large": scene.Large(5000, 20000)} {
		t.Run(name, func(t *testing.T) {
			p := visit(t, f)
			p.eval(`window.complaints = []; window.addEventListener('error', e => complaints.push(e.message))`)
			p.press("q", "j", "k", "ArrowDown", "n", "ArrowRight", "ArrowLeft", "Enter")
			p.until("Enter tells of a node", `document.getElementById('why').open`)
			p.press("Escape", "/", "x", "Escape", "Enter")
			if got := p.eval(`complaints.join()`); got != "" {
				t.Errorf("the page complains: %s", got)
			}
			if wide := p.eval(`document.documentElement.scrollWidth > innerWidth`); wide == "true" {
				t.Error("the page is wider than the window")
			}
			if took := p.eval(`(() => { const began = performance.now(); draw(); document.body.offsetHeight; return performance.now() - began > 5000; })()`); took == "true" {
				t.Error("to draw the page takes more than five seconds")
			}
			if strings.Contains(p.eval(`document.body.innerText`), "undefined") {
				t.Error("the page says undefined")
			}
		})
	}
}
