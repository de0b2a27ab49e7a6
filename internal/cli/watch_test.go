package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/internal/cli/table"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/test/scene"
)

// watchedLook is one look of a test: what it brings, after how long.
type watchedLook struct {
	facts view.Facts
	lasts time.Duration
	err   error
}

// watchLooks gives looks one after the other, and ends the watching after the last.
func watchLooks(stop func(), list []watchedLook, draw func(m *view.Model) picture) func(context.Context) (picture, error) {
	return func(ctx context.Context) (picture, error) {
		if len(list) == 0 {
			stop()
			<-ctx.Done()
			return picture{}, ctx.Err()
		}
		began, l := time.Now(), list[0]
		list = list[1:]
		<-time.After(l.lasts)
		if l.err != nil {
			return picture{}, l.err
		}
		f := l.facts
		f.Kubernetes.Read, f.Slurm.Read, f.Taken = began, began, time.Now()
		m := view.New(f)
		p := draw(m)
		p.model = m
		return p, nil
	}
}

func drawTop(m *view.Model) picture {
	owners := m.Top()
	return picture{value: owners, list: true, people: func() string { return topText(owners, table.Style{}) }, names: each(owners, func(o view.Owner) string { return o.Name })}
}

func drawStatus(m *view.Model) picture {
	status := m.Status()
	return picture{value: status, people: func() string { return statusText(m, status, table.Style{}) }, names: each(status.Problems, func(p view.Problem) string { return p.Where })}
}

// fourLooks are a full cluster, one whose Slurm is away, a look that fails, and an empty cluster.
func fourLooks() []watchedLook {
	return []watchedLook{{facts: scene.Full(), lasts: 300 * time.Millisecond}, {facts: scene.Broken(), lasts: 9100 * time.Millisecond}, {err: errors.New("Box \"slinky\": stopped")}, {facts: scene.Empty()}}
}

// inScene runs a test at the time of the scenes.
func inScene(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(scene.Now))
		test(t)
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

func streamed(t *testing.T, format string, draw func(m *view.Model) picture) (out, complaints string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var printed, complained bytes.Buffer
	s := &stream{o: output{format}, out: &printed, complaints: &complained}
	v := &viewer{every: 2 * time.Second, look: watchLooks(stop, fourLooks(), draw), show: s.show}
	if err := v.run(ctx); err != nil {
		t.Errorf("the end of watching is an error: %v", err)
	}
	return printed.String(), complained.String()
}

// TestWatchInPipe: tables follow each other, and what couldn't be looked at is complained of.
func TestWatchInPipe(t *testing.T) {
	inScene(t, func(t *testing.T) {
		out, complaints := streamed(t, "table", drawTop)
		golden(t, "watch-top.txt", out+"\nCOMPLAINTS\n"+complaints)
	})
}

// TestWatchForPrograms: a document a look, but for looks that would show half a list as a whole one.
func TestWatchForPrograms(t *testing.T) {
	for _, tc := range []struct {
		name string
		draw func(m *view.Model) picture
		want int
	}{{"top", drawTop, 2}, {"status", drawStatus, 3}} {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(t *testing.T) {
				asJSON, complaints := streamed(t, "json", tc.draw)
				lines := strings.Split(strings.TrimSuffix(asJSON, "\n"), "\n")
				asYAML, _ := streamed(t, "yaml", tc.draw)
				documents := strings.Split(asYAML, "---\n")[1:]
				if len(lines) != tc.want || len(documents) != tc.want {
					t.Fatalf("%d lines of JSON and %d documents of YAML, want %d:\n%s", len(lines), len(documents), tc.want, asJSON)
				}
				var once any
				if err := json.Unmarshal([]byte(lines[0]), &once); err != nil {
					t.Error(err)
				}
				if strings.Count(complaints, "\n") != 2 || !strings.Contains(complaints, "Slurm couldn't be asked") || !strings.Contains(complaints, "stopped") {
					t.Errorf("the complaints are\n%s", complaints)
				}
			})
		})
	}
}

// TestWatchOnTerminal: the picture is drawn in place, with its age, and nothing is left of it once a look has failed.
func TestWatchOnTerminal(t *testing.T) {
	inScene(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var out bytes.Buffer
		s := &screen{out: &out, size: func() (int, int) { return 120, 8 }, style: table.Style{Colour: true}, zone: time.UTC, every: 2 * time.Second}
		v := &viewer{every: s.every, look: watchLooks(stop, fourLooks(), drawTop), show: s.show, began: s.began, tick: s.draw}
		if err := v.run(ctx); err != nil {
			t.Error(err)
		}
		s.end()
		seen := strings.NewReplacer("\r\n", "\n", enterScreen, "<screen>\n", leaveScreen, "\n<leave>\n", goHome, "\n<home>\n", clearLine, "", clearBelow, "", "\x1b", "␛").Replace(out.String())
		golden(t, "watch-screen.txt", seen)
	})
}

// TestWatchTrouble: what is wrong is wholly to be read in a narrow window, and steers no terminal.
func TestWatchTrouble(t *testing.T) {
	var out bytes.Buffer
	width := 30
	s := &screen{out: &out, size: func() (int, int) { return width, 20 }, zone: time.UTC, every: time.Second}
	trouble := errors.New("node \x1b[2Jgpu-1\nis gone: slinky nodes lists them")
	if err := s.show(picture{}, trouble); err != nil {
		t.Fatal(err)
	}
	want := []string{"node ·[2Jgpu-1 is gone: slinky", "nodes lists them"}
	if diff := cmp.Diff(want, s.frame[1:]); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	width = 0 // not known
	s.draw()
	if want := []string{strings.Join(want, " ")}; !cmp.Equal(want, s.frame[1:]) {
		t.Errorf("without a width it is %q", s.frame[1:])
	}
	var complaints bytes.Buffer
	if err := (&stream{out: &out, complaints: &complaints}).show(picture{}, trouble); err != nil || control.MatchString(complaints.String()) || strings.Count(complaints.String(), "\n") != 1 {
		t.Errorf("it complains %q (%v)", complaints.String(), err)
	}
}

// TestWatchLoad: a look begins when the one before has ended and the interval is over, however long it took.
func TestWatchLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 59*time.Second)
		defer stop()
		looks, together := 0, 0
		v := &viewer{every: 2 * time.Second, show: func(picture, error) error { return nil }, look: func(context.Context) (picture, error) {
			looks++
			if together++; together > 1 {
				t.Error("two looks at the same time")
			}
			<-time.After(3 * time.Second)
			together--
			return picture{}, nil
		}}
		if err := v.run(ctx); err != nil {
			t.Error(err)
		}
		if looks != 12 {
			t.Errorf("%d looks in a minute, want one each 5 s", looks)
		}
		<-time.After(5 * time.Second) // the last look ends by itself
	})
}

// TestWatchFailsAtOnce: what is wrong at the first look is the command's error, and a reader that is gone is one, too.
func TestWatchFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := errors.New("no such cluster")
		v := &viewer{every: time.Second, look: func(context.Context) (picture, error) { return picture{}, wrong }}
		if err := v.run(t.Context()); !errors.Is(err, wrong) {
			t.Errorf("it ends with %v", err)
		}
		v = &viewer{every: time.Second, look: func(context.Context) (picture, error) { return picture{}, nil }, show: func(picture, error) error { return io.ErrClosedPipe }}
		if err := v.run(t.Context()); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// lines stops a command once it has printed so many.
type lines struct {
	bytes.Buffer
	left int
	stop func()
}

func (l *lines) Write(b []byte) (int, error) {
	if l.left -= bytes.Count(b, []byte("\n")); l.left <= 0 {
		l.stop()
	}
	return l.Buffer.Write(b)
}

// emptyCluster is an API server that has nothing.
func emptyCluster(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/version" {
		_, _ = io.WriteString(w, `{"gitVersion":"v1.37.0"}`)
		return
	}
	dir, resource := path.Split(r.URL.Path)
	kinds := map[string]string{"nodes": "Node", "pods": "Pod", "configmaps": "ConfigMap", "controllers": "Controller", "nodesets": "NodeSet", "restapis": "RestApi"}
	version := strings.Trim(strings.TrimPrefix(strings.TrimPrefix(dir, "/apis/"), "/api/"), "/")
	fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"metadata":{},"items":[]}`, kinds[resource], version)
}

// TestWatchNode: one node is watched, also while it goes and comes back, of which is told.
func TestWatchNode(t *testing.T) {
	var looks atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes" || looks.Add(1) == 2 {
			emptyCluster(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"n1"},"spec":{"unschedulable":true}}]}`)
	}))
	t.Cleanup(api.Close)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	out := &lines{left: 2, stop: stop}
	var complaints bytes.Buffer
	root := New("slinky", []string{"HOME=" + t.TempDir()})
	root.SetOut(out)
	root.SetErr(&complaints)
	root.SetArgs([]string{"nodes", "n1", "-w", "--interval", "1s", "-o", "json", "--kubeconfig", kubeconfigOf(t, api.URL)})
	if err := root.ExecuteContext(ctx); err != nil {
		t.Errorf("it ends with %v", err)
	}
	for text := range strings.Lines(out.String()) {
		var node struct{ Name string }
		if err := json.Unmarshal([]byte(text), &node); err != nil || node.Name != "n1" {
			t.Errorf("a look shows %v in %s", err, text)
		}
	}
	if strings.Count(out.String(), "\n") != 2 || strings.Count(complaints.String(), "\n") != 1 || !strings.Contains(complaints.String(), "n1") {
		t.Errorf("it shows\n%sand complains\n%s", out.String(), complaints.String())
	}
}

// TestWatchIsStopped: Ctrl-Z gives the terminal back as it was, and the picture is drawn anew when it goes on.
func TestWatchIsStopped(t *testing.T) {
	inScene(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var out bytes.Buffer
		s := &screen{out: &out, size: func() (int, int) { return 120, 8 }, zone: time.UTC, every: 2 * time.Second}
		stops := make(chan os.Signal, 1)
		stopped := 0
		v := &viewer{every: s.every, look: watchLooks(end, fourLooks(), drawTop), tick: s.draw, stops: stops}
		v.stop = func() {
			before := out.Len()
			s.aside(func() {
				stopped++
				if got := out.String()[before:]; got != leaveScreen {
					t.Errorf("while it is stopped the terminal has been told %q", got)
				}
			})
			if got := out.String()[before+len(leaveScreen):]; !strings.HasPrefix(got, enterScreen+goHome+"Every 2s") {
				t.Errorf("when it goes on the terminal is told %q", got)
			}
		}
		v.show = func(p picture, failed error) error {
			err := s.show(p, failed)
			if stopped == 0 {
				stops <- syscall.SIGTSTP
			}
			return err
		}
		if err := v.run(ctx); err != nil || stopped != 1 {
			t.Errorf("it was stopped %d times and ended with %v", stopped, err)
		}
	})
	// Before anything is shown there is nothing to give back.
	var out bytes.Buffer
	(&screen{out: &out}).aside(func() {})
	if out.Len() > 0 {
		t.Errorf("a terminal that has its picture still is told %q", out.String())
	}
}

// kubeconfigOf is a kubeconfig of an API server.
func kubeconfigOf(t *testing.T, address string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"a","clusters":[{"name":"a","cluster":{"server":"`+address+
		`"}}],"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],"users":[{"name":"a","user":{}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// TestWatchCommands: each command goes on until it is interrupted, and that is no failure.
func TestWatchCommands(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(emptyCluster))
	t.Cleanup(api.Close)
	config := kubeconfigOf(t, api.URL)
	home := []string{"HOME=" + t.TempDir()}
	for _, command := range []string{"status", "queue", "nodes", "top"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			out := &lines{left: 2, stop: stop}
			var complaints bytes.Buffer
			root := New("slinky", home)
			root.SetOut(out)
			root.SetErr(&complaints)
			root.SetArgs([]string{command, "-w", "--interval", "1s", "-o", "json", "--kubeconfig", config})
			if err := root.ExecuteContext(ctx); err != nil || strings.Count(out.String(), "\n") != 2 {
				t.Errorf("it ends with %v, after\n%s%s", err, out.String(), complaints.String())
			}
			if command != "status" && out.String() != "[]\n[]\n" {
				t.Errorf("an empty list is\n%s", out.String())
			}
		})
	}
	for _, argv := range [][]string{{"queue", "-w", "--interval", "100ms"}, {"queue", "--interval", "5s"}, {"status", "-w", "--check"}} {
		if _, complaint, code := run(t, home, append([]string{"slinky"}, argv...)...); code != ExitUsage {
			t.Errorf("%v ends with %d: %s", argv, code, complaint)
		}
	}
	if _, complaint, code := run(t, home, "slinky", "replay", snapshotOf(t, scene.Empty()), "status", "--watch"); code != ExitUsage {
		t.Errorf("a snapshot is watched: %d, %s", code, complaint)
	}
	if out, _, _ := run(t, nil, "slinky", "__complete", "queue", "--interval", ""); !strings.Contains(out, "5s") {
		t.Errorf("it completes\n%s", out)
	}
}
