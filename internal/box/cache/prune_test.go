package cache

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var day = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// left makes an entry as a process has left it that asked for it last at a time.
func left(t *testing.T, root, key string, used time.Time) string {
	t.Helper()
	c := New(root, nil)
	path := entryOf(t, c, key)
	end(c)
	setUsed(t, path, used)
	return path
}

func entryOf(t *testing.T, c *Cache, key string) string {
	t.Helper()
	path, err := c.Dir(t.Context(), "kind", key, func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "f"), nil, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// end does what the kernel does when a process ends.
func end(c *Cache) {
	for _, lock := range c.leases {
		_ = unix.Close(lock)
	}
}

func setUsed(t *testing.T, path string, used time.Time) {
	t.Helper()
	for _, file := range []string{path, filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock")} {
		if err := os.Chtimes(file, used, used); err != nil {
			t.Fatal(err)
		}
	}
}

// entries are what is in the cache, but for locks.
func entries(t *testing.T, root string) string {
	t.Helper()
	var out []string
	for _, name := range names(t, filepath.Join(root, "kind")) {
		if !strings.HasSuffix(name, ".lock") {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

func TestPrune(t *testing.T) {
	cases := map[string]struct {
		keys string // in the order of their use, a day apart
		rule Rule
		want string
	}{
		"the newest are kept":       {keys: "a b c d", rule: Rule{Keep: 2, Since: day.AddDate(1, 0, 0)}, want: "c d"},
		"of each name":              {keys: "x-1 y-z-1 x-2 x-3 y-z-2", rule: Rule{Keep: 1, Since: day.AddDate(1, 0, 0)}, want: "x-3 y-z-2"},
		"fewer than are kept":       {keys: "x-1 y-1", rule: Rule{Keep: 2, Since: day.AddDate(1, 0, 0)}, want: "x-1 y-1"},
		"all that was used lately":  {keys: "a b c d", rule: Rule{Keep: 1, Since: day.AddDate(0, 0, 1)}, want: "c d"},
		"what a box uses":           {keys: "a b c", rule: Rule{Keep: 1, Since: day.AddDate(1, 0, 0), Used: func(p string) bool { return filepath.Base(p) == "a" }}, want: "a c"},
		"none, where none is to be": {keys: "a b", rule: Rule{Since: day.AddDate(1, 0, 0)}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for i, key := range strings.Fields(c.keys) {
				left(t, root, key, day.AddDate(0, 0, i))
			}
			if err := New(root, nil).Prune(t.Context(), "kind", c.rule); err != nil {
				t.Fatal(err)
			}
			if got := entries(t, root); got != c.want {
				t.Errorf("left are %q, want %q", got, c.want)
			}
		})
	}
	if err := New(t.TempDir(), nil).Prune(t.Context(), "no such kind", Rule{}); err != nil {
		t.Error(err)
	}
}

// anything lets Prune remove all that nobody uses.
func anything() Rule { return Rule{Since: time.Now().Add(time.Hour)} }

// TestPruneByLastUse: what is asked for again counts as new, though it was made long ago.
func TestPruneByLastUse(t *testing.T) {
	root := t.TempDir()
	for i, key := range []string{"a", "b", "c"} {
		left(t, root, key, day.AddDate(0, 0, i))
	}
	again := New(root, nil)
	entryOf(t, again, "a")
	end(again)
	if err := New(root, nil).Prune(t.Context(), "kind", Rule{Keep: 1, Since: day.AddDate(1, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, root); got != "a" {
		t.Errorf("left are %q, want the one that was used last", got)
	}
}

// TestPruneLeavesWhatAProcessHas: an entry stays for as long as a process lives that was given it, whether
// it made the entry or found it, and goes when that one is killed.
func TestPruneLeavesWhatAProcessHas(t *testing.T) {
	if root := os.Getenv("CACHE_TEST_PRUNE"); root != "" {
		c := New(root, nil)
		entryOf(t, c, "made")
		entryOf(t, c, "found")
		fmt.Println("has")
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or its parent has ended
		return
	}
	root := t.TempDir()
	left(t, root, "found", day)
	left(t, root, "unused", day)
	child := exec.Command(os.Args[0], "-test.run=^TestPruneLeavesWhatAProcessHas$")
	child.Env = append(os.Environ(), "CACHE_TEST_PRUNE="+root)
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() { _, _ = child.Process.Kill(), child.Wait() })
	defer kill()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "has\n" {
		t.Fatalf("child says %q, %v", line, err)
	}
	c := New(root, nil)
	entryOf(t, c, "own")
	for _, want := range []string{"found made own", "own"} {
		if err := c.Prune(t.Context(), "kind", anything()); err != nil {
			t.Fatal(err)
		}
		if got := entries(t, root); got != want {
			t.Errorf("left are %q, want %q", got, want)
		}
		kill()
	}
}

// TestPruneBeside has many ask for few entries while others prune all that they can: who is given an entry
// has all of it until the end.
func TestPruneBeside(t *testing.T) {
	root := t.TempDir()
	stop := make(chan struct{})
	var pruners, askers sync.WaitGroup
	for range 2 {
		pruners.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := New(root, nil).Prune(t.Context(), "kind", anything()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 4 {
		askers.Go(func() {
			for n := range 15 {
				c := New(root, nil)
				path, err := c.Dir(t.Context(), "kind", fmt.Sprint("key-", (i+n)%2), func(_ context.Context, dir string) error {
					return os.WriteFile(filepath.Join(dir, "f"), nil, 0o644)
				})
				if err != nil {
					t.Error(err)
					return
				}
				for range 20 {
					if _, err := os.Stat(filepath.Join(path, "f")); err != nil {
						t.Errorf("an entry that is in use isn't whole: %v", err)
						return
					}
				}
				end(c)
			}
		})
	}
	askers.Wait()
	close(stop)
	pruners.Wait()
	if err := New(root, nil).Prune(t.Context(), "kind", anything()); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, root); got != "" {
		t.Errorf("left are %q, want none", got)
	}
}

// TestPruneEndsWhatWasCutOff: a killed process has moved an entry aside and not removed it.
func TestPruneEndsWhatWasCutOff(t *testing.T) {
	root := t.TempDir()
	path := left(t, root, "a", day)
	if err := os.Rename(path, filepath.Join(filepath.Dir(path), gonePrefix+"a-1")); err != nil {
		t.Fatal(err)
	}
	if err := New(root, nil).Prune(t.Context(), "kind", Rule{Keep: 9}); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, root); got != "" {
		t.Errorf("left are %q, want none", got)
	}
}

// TestRemovedByHand: who has removed an entry gets it made again by the process that had it.
func TestRemovedByHand(t *testing.T) {
	c := New(t.TempDir(), func(kind, key string) { t.Errorf("waits for %s %s", kind, key) })
	if err := os.RemoveAll(entryOf(t, c, "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(entryOf(t, c, "a"), "f")); err != nil {
		t.Error(err)
	}
}
