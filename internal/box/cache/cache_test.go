package cache

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
)

func TestDirIsMadeOnce(t *testing.T) {
	root := t.TempDir()
	var made atomic.Int32
	start, both := make(chan struct{}), make(chan struct{}, 2)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c := New(root, nil) // a cache of its own, so a lock file of its own, as in another process
			both <- struct{}{}
			path, err := c.Dir(t.Context(), "kind", "key", func(ctx context.Context, dir string) error {
				<-start
				made.Add(1)
				return os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(path, "f")); err != nil {
				t.Errorf("entry is not complete: %v", err)
			}
		})
		<-both
	}
	close(start)
	wg.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("made %d times, want 1", n)
	}
}

func TestFailedMakeLeavesNothing(t *testing.T) {
	root := t.TempDir()
	c := New(root, nil)
	boom := errors.New("boom")
	_, err := c.Dir(t.Context(), "kind", "key", func(ctx context.Context, dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "half"), nil, 0o644); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("error %v, want boom", err)
	}
	wantOnlyLock(t, root)
}

func TestCancelledMakeIsNotAnEntry(t *testing.T) {
	root := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := New(root, nil).File(ctx, "kind", "key", func(ctx context.Context, path string) error {
		cancel()
		return os.WriteFile(path, []byte("half"), 0o644)
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want cancelled", err)
	}
	wantOnlyLock(t, root)
}

func TestWaitIsToldAndCancellable(t *testing.T) {
	root := t.TempDir()
	inside, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		_, err := New(root, nil).File(t.Context(), "kind", "key", func(ctx context.Context, path string) error {
			close(inside)
			<-release
			return os.WriteFile(path, nil, 0o644)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-inside
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	second := New(root, func(kind, key string) { told++; cancel() })
	_, err := second.File(ctx, "kind", "key", func(context.Context, string) error { t.Error("made twice"); return nil })
	if !errors.Is(err, context.Canceled) || told != 1 {
		t.Errorf("error %v, told %d times; want cancelled, 1", err, told)
	}
}

// TestKilledProcess has a process killed while it makes an entry; the next one must not wait for it and must clean up.
func TestKilledProcess(t *testing.T) {
	if root := os.Getenv("CACHE_TEST_ROOT"); root != "" {
		makeForever(root)
	}
	root := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
	child.Env = append(os.Environ(), "CACHE_TEST_ROOT="+root)
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "making\n" {
		t.Fatalf("child says %q, %v", line, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if got := names(t, filepath.Join(root, "kind")); len(got) != 2 {
		t.Fatalf("after the kill: %v, want a lock and a half-made entry", got)
	}
	waited := false
	path, err := New(root, func(string, string) { waited = true }).Dir(t.Context(), "kind", "key", func(ctx context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "f"), []byte("whole"), 0o644)
	})
	if err != nil || waited {
		t.Fatalf("error %v, waited %v", err, waited)
	}
	if b, err := os.ReadFile(filepath.Join(path, "f")); string(b) != "whole" {
		t.Errorf("entry holds %q, %v", b, err)
	}
	if got := strings.Join(names(t, filepath.Join(root, "kind")), " "); got != ".key.lock key" {
		t.Errorf("cache holds %q, want the lock and the entry", got)
	}
}

func makeForever(root string) {
	_, err := New(root, nil).Dir(context.Background(), "kind", "key", func(ctx context.Context, dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte("half"), 0o644); err != nil {
			return err
		}
		os.Stdout.WriteString("making\n")
		select {}
	})
	os.Stdout.WriteString(err.Error() + "\n")
	os.Exit(1)
}

func TestBadNames(t *testing.T) {
	c := New(t.TempDir(), nil)
	for _, key := range []string{"", ".hidden", "../up", "a/b", "a b", "*"} {
		_, err := c.File(t.Context(), "kind", key, func(context.Context, string) error { return nil })
		if err == nil {
			t.Errorf("key %q was taken", key)
		}
	}
}

func TestLockedKeepsItsFolder(t *testing.T) {
	c := New(t.TempDir(), nil)
	for i, want := range []int{0, 1} {
		err := c.Locked(t.Context(), "store", "tool", func(ctx context.Context, dir string) error {
			if got := len(names(t, dir)); got != want {
				t.Errorf("run %d sees %d files, want %d", i, got, want)
			}
			return os.WriteFile(filepath.Join(dir, "f"), nil, 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestKey(t *testing.T) {
	sum := func(k *Key) string {
		t.Helper()
		s, err := k.Sum()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	one := fstest.MapFS{"a": {Data: []byte("1"), Mode: 0o644}, "b": {Data: []byte("2"), Mode: 0o644}}
	moved := fstest.MapFS{"a": {Data: []byte("12"), Mode: 0o644}, "b": {Data: []byte(""), Mode: 0o644}}
	executable := fstest.MapFS{"a": {Data: []byte("1"), Mode: 0o755}, "b": {Data: []byte("2"), Mode: 0o644}}
	seen := map[string]string{}
	for name, k := range map[string]*Key{
		"nothing":    NewKey(),
		"ab c":       NewKey("ab", "c"),
		"a bc":       NewKey("a", "bc"),
		"file":       NewKey().File(file),
		"fs":         NewKey().FS(one),
		"moved":      NewKey().FS(moved),
		"executable": NewKey().FS(executable),
	} {
		s := sum(k)
		if other, ok := seen[s]; ok {
			t.Errorf("%s and %s have the same key", name, other)
		}
		seen[s] = name
	}
	if first, second := sum(NewKey("x").FS(one)), sum(NewKey("x").FS(one)); first != second {
		t.Error("the same content gave two keys")
	}
	if _, err := NewKey().File(file + ".missing").Strings("x").Sum(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file gave %v", err)
	}
}

func wantOnlyLock(t *testing.T, root string) {
	t.Helper()
	if got := strings.Join(names(t, filepath.Join(root, "kind")), " "); got != ".key.lock" {
		t.Errorf("cache holds %q, want only the lock", got)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
