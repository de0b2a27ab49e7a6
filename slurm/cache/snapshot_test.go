package cache

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// saved returns a file with a view of two jobs and a node.
func saved(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "view")
	f := newFake()
	f.put(1, "a", slurm.JobRunning)
	f.put(2, "b", slurm.JobPending)
	f.nodes["x1"] = slurm.Node{Name: "x1", States: slurm.StatesOf(slurm.NodeIdle), Features: []string{"ext"}}
	c, _ := start(t, f, Options{Key: func(j slurm.Job) string { return "key-" + j.SLUID }})
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSaveAndLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := saved(t)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("file %v, %v, want one that only its owner reads", info.Mode(), err)
		}
		time.Sleep(time.Hour)

		f := newFake()
		f.down = &slurm.Error{Kind: slurm.ErrUnavailable}
		c := New(f, Options{Key: func(j slurm.Job) string { return "key-" + j.SLUID }})
		if err := c.Load(path); err != nil {
			t.Fatal(err)
		}
		check(t, "synced", c.Synced(), false)
		check(t, "age", c.Age(), time.Hour)
		j, ok := c.Job(1)
		check(t, "job", ok && j.SLUID == "a" && j.External(), true)
		a, ok := c.Allocation(1)
		check(t, "allocation", ok && len(a.Nodes[0].Cores) == 2, true)
		check(t, "jobs by key", len(c.JobsWithKey("key-b")), 1)
		check(t, "nodes by state", len(c.NodesInState(slurm.NodeIdle)), 1)
		if err := c.Load(path); err == nil {
			t.Error("a cache in use was loaded over")
		}
	})
}

func TestLoadedViewIsComparedWithSlurm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := saved(t)
		f := newFake()
		f.put(1, "new", slurm.JobRunning) // the same id and state, but another job
		f.down = &slurm.Error{Kind: slurm.ErrUnavailable}
		c := New(f, Options{})
		if err := c.Load(path); err != nil {
			t.Fatal(err)
		}
		l := &log{}
		defer c.Subscribe(l.handle)()
		go c.Run(t.Context())
		synctest.Wait()
		l.take(false)
		time.Sleep(time.Minute)
		check(t, "events while Slurm is away", len(l.take(false)), 0)
		check(t, "synced while Slurm is away", c.Synced(), false)

		f.set(func() { f.down = nil })
		time.Sleep(time.Minute)
		check(t, "events", l.take(true), []string{"- > 1/new RUNNING", "1/a RUNNING > -", "2/b PENDING > -", "x1 IDLE > -"})
		check(t, "synced", c.Synced(), true)
	})
}

func TestLoadRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole, err := os.ReadFile(saved(t))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(whole), "\n")
		for name, text := range map[string]string{
			"nothing":         "",
			"garbage":         "\x00\xff",
			"cut off":         string(whole[:len(whole)-20]),
			"lines missing":   strings.Join(lines[:2], ""),
			"another version": strings.Replace(string(whole), `"Version":1`, `"Version":2`, 1),
			"a job twice":     lines[0] + lines[1] + lines[1] + lines[3],
			"a job for node":  lines[0] + lines[1] + lines[2] + lines[1],
		} {
			path := filepath.Join(t.TempDir(), "view")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c := New(newFake(), Options{})
			if err := c.Load(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: error %v, want one that names the file", name, err)
			}
			check(t, name+": jobs and nodes", len(c.Jobs())+len(c.Nodes()), 0)
		}
		if err := New(newFake(), Options{}).Save(filepath.Join(t.TempDir(), "none", "view")); err == nil {
			t.Error("saved into a folder that isn't there")
		}
	})
}

func TestFailedSaveKeepsTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "view")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake()
	c := New(f, Options{})
	// A year that JSON's times don't have.
	c.jobsRead = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := c.Save(path); err == nil {
		t.Error("no error")
	}
	text, err := os.ReadFile(path)
	check(t, "content", string(text), "before")
	files, _ := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("%v, and %d files, want one", err, len(files))
	}
}
