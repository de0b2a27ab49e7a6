package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// tab is a page in a running Chromium, which a test steers as a person would: by the DevTools
// protocol, over two pipes.
type tab struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	session string
	calls   int
}

// openTab starts a Chromium with one page.
func openTab(t *testing.T, address string) *tab {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, theirsToo, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(ctx, "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir())
	c.ExtraFiles = []*os.File{theirs, theirsToo} // file descriptors 3 and 4
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirs.Close(), theirsToo.Close()
	p := &tab{t: t, to: to, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		_, _ = p.send("Browser.close", nil), to.Close()
		_ = c.Wait()
		cancel()
		_ = from.Close()
	})
	var target struct{ TargetID string }
	p.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	p.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	p.session = session.SessionID
	p.call("Page.enable", nil, nil)
	p.call("Page.navigate", map[string]any{"url": address}, nil)
	p.until("the page is drawn", `document.readyState === 'complete' && typeof picture !== 'undefined' && picture !== null`)
	return p
}

func (p *tab) send(method string, params any) error {
	p.calls++
	if params == nil {
		params = struct{}{}
	}
	text, err := json.Marshal(map[string]any{"id": p.calls, "method": method, "params": params, "sessionId": p.session})
	if err != nil {
		return err
	}
	if p.session == "" {
		text = bytes.Replace(text, []byte(`,"sessionId":""`), nil, 1)
	}
	_, err = p.to.Write(append(text, 0))
	return err
}

// call asks the browser to do something, and waits for its answer.
func (p *tab) call(method string, params, into any) {
	p.t.Helper()
	if err := p.send(method, params); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
	for {
		text, err := p.from.ReadBytes(0)
		if err != nil {
			p.t.Fatalf("%s: %v", method, err)
		}
		var answer struct {
			ID     int
			Error  *struct{ Message string }
			Result json.RawMessage
		}
		if err := json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &answer); err != nil {
			p.t.Fatalf("%s: %v", method, err)
		}
		switch {
		case answer.ID != p.calls: // an event
		case answer.Error != nil:
			p.t.Fatalf("%s: %s", method, answer.Error.Message)
		case into == nil:
			return
		default:
			if err := json.Unmarshal(answer.Result, into); err != nil {
				p.t.Fatalf("%s: %v", method, err)
			}
			return
		}
	}
}

// eval returns what an expression of JavaScript is on the page, as text.
func (p *tab) eval(expression string) string {
	p.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s %s", expression, r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	}
	return fmt.Sprint(r.Result.Value)
}

// until waits until an expression is true.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for p.eval(expression) != "true" {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: %s is not true within a minute; the focus is on %s", what, expression, p.focus())
		}
		p.eval(`new Promise(done => setTimeout(done, 50))`)
	}
}

// focus tells where the keyboard is.
func (p *tab) focus() string {
	p.t.Helper()
	return p.eval(`(e => e.id || e.dataset.target || e.dataset.node || (e.textContent || e.tagName).trim())(document.activeElement)`)
}

// keys are the codes of keys that aren't letters.
var keys = map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}

// press presses a key, as "j" or "Tab".
func (p *tab) press(list ...string) {
	p.t.Helper()
	for _, key := range list {
		down := map[string]any{"type": "keyDown", "key": key, "windowsVirtualKeyCode": keys[key], "code": key}
		switch {
		case key == "Enter":
			down["text"] = "\r"
		case len(key) == 1:
			down["text"], down["windowsVirtualKeyCode"] = key, int(key[0]&^0x20)
		}
		p.call("Input.dispatchKeyEvent", down, nil)
		down["type"] = "keyUp"
		delete(down, "text")
		p.call("Input.dispatchKeyEvent", down, nil)
	}
}
