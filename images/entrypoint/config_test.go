package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const exited1 = syscall.WaitStatus(1 << 8)

// controller is a slurmctld with its folders, which tests start again and again.
type controller struct {
	t                *testing.T
	live, store, run string
	log              strings.Builder
}

func newController(t *testing.T) *controller {
	dir := t.TempDir()
	c := &controller{t: t, live: filepath.Join(dir, "etc"), store: filepath.Join(dir, "state", "slinky-config"), run: filepath.Join(dir, "run")}
	for _, d := range []string{c.live, c.run} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c.write("slurm.conf", "good")
	c.write("slurm.key", "secret 1")
	return c
}

func (c *controller) write(name, content string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.live, name), []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// newPod loses what lasts as long as a pod.
func (c *controller) newPod() {
	c.t.Helper()
	if err := os.RemoveAll(c.run); err != nil {
		c.t.Fatal(err)
	}
	if err := os.MkdirAll(c.run, 0o700); err != nil {
		c.t.Fatal(err)
	}
}

// start returns what slurmctld reads: the content of slurm.conf.
func (c *controller) start() (*configuration, string) {
	c.t.Helper()
	c.log.Reset()
	started := &configuration{live: c.live, store: c.store, run: c.run, log: &c.log}
	path := filepath.Join(c.live, daemonConf)
	if env := started.begin(); len(env) > 0 {
		path = strings.TrimPrefix(env[0], "SLURM_CONF=")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}
	return started, string(content)
}

func (c *controller) works(started *configuration) {
	now := time.Now()
	started.ready(now)
	started.look(now.Add(settled))
}

func (c *controller) wantLog(text string) {
	c.t.Helper()
	if !strings.Contains(c.log.String(), text) || text == "" && c.log.Len() > 0 {
		c.t.Errorf("log is %q, want %q", c.log.String(), text)
	}
}

func TestRefusedConfigurationIsReplacedByTheLastThatWorked(t *testing.T) {
	c := newController(t)
	c.write("gone.conf", "of the good one")
	first, _ := c.start()
	c.works(first)
	c.wantLog("")

	c.newPod()
	c.write("slurm.conf", "bad")
	c.write("topology.yaml", "bad, too")
	if err := os.Remove(filepath.Join(c.live, "gone.conf")); err != nil {
		t.Fatal(err)
	}
	c.write("slurm.key", "secret 2")
	tried, content := c.start()
	if content != "bad" {
		t.Fatalf("a new pod starts with %q, want what it is given", content)
	}
	tried.ended(exited1)
	c.wantLog("it goes on with the configuration of 2")

	second, content := c.start()
	if content != "good" {
		t.Fatalf("the second start reads %q, want the last good one", content)
	}
	dir := filepath.Join(c.run, "last-config")
	if key, err := os.ReadFile(filepath.Join(dir, "slurm.key")); err != nil || string(key) != "secret 2" {
		t.Errorf("slurm.key is %q, %v, want the one that counts now", key, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "topology.yaml")); !os.IsNotExist(err) {
		t.Errorf("a file of the refused configuration is there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "gone.conf")); err != nil {
		t.Errorf("a file of the good configuration is missing: %v", err)
	}
	c.works(second)
	second.ended(exited1)
	c.wantLog("it goes on with the configuration of 2")
	if _, content := c.start(); content != "good" {
		t.Errorf("after a crash it reads %q", content)
	}

	// Kubernetes brings the corrected files into the running pod.
	third, _ := c.start()
	if third.look(time.Now()) {
		t.Error("it is started again although nothing has changed")
	}
	c.write("slurm.conf", "better")
	if !third.look(time.Now()) {
		t.Error("it isn't started again with the corrected configuration")
	}
	if _, content := c.start(); content != "better" {
		t.Errorf("it reads %q, want the corrected configuration", content)
	}
}

func TestKeysAreNotCopied(t *testing.T) {
	c := newController(t)
	for _, name := range []string{"jwt.key", "slurm.jwks", "jwks.json"} {
		c.write(name, "secret")
	}
	started, _ := c.start()
	c.works(started)
	files, err := readFiles(filepath.Join(c.store, "good"))
	if err != nil || len(files) != 1 || string(files[daemonConf].content) != "good" {
		t.Errorf("the copy is %v, %v", files, err)
	}
	err = filepath.WalkDir(c.store, func(path string, d os.DirEntry, err error) error {
		if err == nil && isKey(d.Name()) {
			t.Errorf("%s is a key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWhatCountsAsAConfigurationThatWorks(t *testing.T) {
	for name, tc := range map[string]struct {
		live func(c *controller, started *configuration)
		want string
	}{
		"never ready":         {func(_ *controller, s *configuration) { s.look(time.Now().Add(time.Hour)) }, "bad"},
		"ready for a moment":  {func(_ *controller, s *configuration) { s.ready(time.Now()); s.look(time.Now()) }, "bad"},
		"changed since":       {func(c *controller, s *configuration) { c.write("slurm.conf", "unread"); c.works(s) }, "bad"},
		"ready for long":      {func(c *controller, s *configuration) { c.works(s) }, "good"},
		"read again at once":  {func(c *controller, s *configuration) { s.ready(time.Now()); c.write("slurm.conf", "newer"); c.works(s) }, "newer"},
		"read again in place": {func(c *controller, s *configuration) { c.works(s); c.write("slurm.conf", "newer"); c.works(s) }, "newer"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newController(t)
			started, _ := c.start()
			tc.live(c, started)
			c.newPod()
			c.write("slurm.conf", "bad")
			failed, _ := c.start()
			failed.ended(exited1)
			if _, content := c.start(); content != tc.want {
				t.Errorf("after a failure it reads %q, want %q; log %q", content, tc.want, c.log.String())
			}
		})
	}
}

func TestFailuresThatAreNoFaultOfTheConfiguration(t *testing.T) {
	c := newController(t)
	started, _ := c.start()
	c.works(started)
	started.ended(exited1) // it has worked with what it has
	c.wantLog("")

	c.newPod()
	c.write("slurm.conf", "other")
	killed, _ := c.start()
	killed.ended(syscall.WaitStatus(syscall.SIGKILL))
	c.wantLog("")
	if _, content := c.start(); content != "other" {
		t.Errorf("after it was killed it reads %q", content)
	}

	// Where the copy fails, too, something else is wrong: both are tried in turn.
	for _, want := range []string{"other", "good", "other", "good"} {
		again, content := c.start()
		if content != want {
			t.Errorf("it reads %q, want %q", content, want)
		}
		again.ended(exited1)
	}

	c.newPod()
	if _, content := c.start(); content != "other" {
		t.Errorf("a new pod reads %q, want what it is given", content)
	}
}

func TestAFolderThatCannotBeWrittenDoesNoHarm(t *testing.T) {
	c := newController(t)
	if err := os.MkdirAll(filepath.Dir(c.store), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.store, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	started, _ := c.start()
	c.works(started)
	c.wantLog("can't be kept")
	c.write("slurm.conf", "bad")
	started, _ = c.start()
	started.ended(exited1)
	if _, content := c.start(); content != "bad" {
		t.Errorf("it reads %q", content)
	}
}
