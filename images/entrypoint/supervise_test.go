package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The supervisor waits for every child of its process, so the tests run it in a process of its own: this test binary, in a role
// that the environment names.
func TestMain(m *testing.M) {
	switch os.Getenv("ENTRYPOINT_TEST") {
	case "supervise":
		superviseForTest()
	case "daemon":
		daemonForTest()
	case "successor":
		successorForTest()
	case "container":
		containerForTest()
	}
	os.Exit(m.Run())
}

// superviseForTest runs each argument as a shell script, beside the others if it begins with "beside "; "notify" is the daemon that
// re-executes itself.
func superviseForTest() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	s := supervisor{signals: signals, log: os.Stderr, grace: 50 * time.Millisecond, pause: time.Millisecond, vital: "700"}
	var programs []process
	for _, script := range os.Args[1:] {
		if script != "notify" {
			text, aside := strings.CutPrefix(script, "beside ")
			programs = append(programs, process{name: script, args: []string{"sh", "-c", text}, aside: aside, vital: strings.Contains(script, "vital")})
			continue
		}
		var err error
		if s.notify, err = listenNotify("/does/not/exist", os.TempDir()); err != nil {
			panic(err)
		}
		defer s.notify.close()
		programs = append(programs, process{name: "notify", args: []string{os.Args[0]}, env: []string{"ENTRYPOINT_TEST=daemon"}, notify: true})
	}
	code, err := s.run(programs)
	if err != nil {
		panic(err)
	}
	os.Exit(code)
}

// daemonForTest does what slurmctld does to reconfigure: it starts its successor, announces it and ends.
func daemonForTest() {
	next := exec.Command(os.Args[0])
	next.Env = append(os.Environ(), "ENTRYPOINT_TEST=successor")
	next.Stdout = os.Stdout
	if err := next.Start(); err != nil {
		panic(err)
	}
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		panic(err)
	}
	if _, err := io.WriteString(conn, "READY=1\nMAINPID="+strconv.Itoa(next.Process.Pid)); err != nil {
		panic(err)
	}
	os.Exit(0)
}

func successorForTest() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	os.Stdout.WriteString("ready\n")
	<-signals
	os.Exit(7)
}

func supervised(t *testing.T, scripts ...string) (*exec.Cmd, *bufio.Reader, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0], scripts...)
	cmd.Env = append(os.Environ(), "ENTRYPOINT_TEST=supervise")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, bufio.NewReader(stdout), &stderr
}

func code(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return 0
}

// S181: a daemon that crashes ends its container, with a code that isn't 0.
func TestContainerEndsWithItsDaemon(t *testing.T) {
	for name, c := range map[string]struct {
		scripts []string
		want    int
		log     string
	}{
		"code":                       {[]string{"exit 3"}, 3, "exit 3 ended (code 3)"},
		"leaving unasked is failure": {[]string{"exit 0"}, 1, "ended (code 0)"},
		"signal":                     {[]string{"kill -SEGV $$"}, 139, "segmentation fault"},
		"others are stopped":         {[]string{"exec sleep 1000", "exit 4"}, 4, "exit 4 ended"},
		"others are killed":          {[]string{"trap '' TERM; exec sleep 1000", "exit 5"}, 5, "exit 5 ended"},
		"an orphan is no daemon":     {[]string{"(exec sh -c 'sleep 0.01; exit 9' &) ; sleep 0.1; exit 6"}, 6, "(code 6)"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, _, stderr := supervised(t, c.scripts...)
			if got := code(t, cmd); got != c.want || !strings.Contains(stderr.String(), c.log) {
				t.Errorf("code %d, want %d; log %q, want %q", got, c.want, stderr, c.log)
			}
		})
	}
}

// S181: SIGTERM reaches the daemon, whose end is the container's.
func TestTermStopsTheContainer(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   int
	}{
		"clean end":      {"trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done", 0},
		"default death":  {"echo ready; exec sleep 1000", 0},
		"its own signal": {"trap 'kill -USR1 $$' TERM; echo ready; while :; do sleep 0.05; done", 0},
		"failure":        {"trap 'exit 2' TERM; echo ready; while :; do sleep 0.05; done", 2},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, stdout, stderr := supervised(t, c.script)
			if line, err := stdout.ReadString('\n'); line != "ready\n" {
				t.Fatalf("program says %q, %v", line, err)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if got := code(t, cmd); got != c.want || stderr.Len() != 0 {
				t.Errorf("code %d, want %d; log %q", got, c.want, stderr)
			}
		})
	}
}

// S181: SIGHUP reaches the daemon, and what it leaves behind is no zombie.
func TestHangupReachesTheDaemon(t *testing.T) {
	cmd, stdout, stderr := supervised(t, "trap 'echo reloaded' HUP; (sh -c 'exit 3' &); echo ready; while :; do sleep 0.05; done")
	for i, want := range []string{"ready\n", "reloaded\n"} {
		if line, err := stdout.ReadString('\n'); line != want {
			t.Fatalf("program says %q, %v, want %q; log %q", line, err, want, stderr)
		}
		sig := []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM}[i]
		if sig == syscall.SIGTERM {
			noZombies(t, cmd.Process.Pid)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if got := code(t, cmd); got != 0 {
		t.Errorf("code %d, log %q", got, stderr)
	}
}

// noZombies waits until no child of a process waits to be reaped.
func noZombies(t *testing.T, parent int) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		dead := 0
		stats, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			t.Fatal(err)
		}
		for _, stat := range stats {
			text, err := os.ReadFile(stat)
			if _, fields, ok := strings.Cut(string(text), ") "); err == nil && ok && strings.HasPrefix(fields, "Z "+strconv.Itoa(parent)+" ") {
				dead++
			}
		}
		if dead == 0 {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%d zombies", dead)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// awaitScore waits until a process has the score: the supervisor takes its own after it has started the programs.
func awaitScore(t *testing.T, pid int, want string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		own, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/oom_score_adj")
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(own)) == want {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("the supervisor has %q, want %s", own, want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Raising the score needs no privilege, so the test asks for more where a container asks for less.
func TestVitalProgramsAndTheSupervisorAreTakenLast(t *testing.T) {
	given, err := os.ReadFile(oomScore)
	if err != nil {
		t.Fatal(err)
	}
	const show = "cat /proc/self/oom_score_adj; exec sleep 1000"
	for script, want := range map[string]string{"# vital\n" + show: "700", show: strings.TrimSpace(string(given))} {
		cmd, stdout, _ := supervised(t, script, "exec sleep 1000")
		if line, err := stdout.ReadString('\n'); strings.TrimSpace(line) != want {
			t.Errorf("%q starts with %q, %v, want %s", script, line, err, want)
		}
		awaitScore(t, cmd.Process.Pid, want)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		code(t, cmd)
	}
}

func TestProgramBesideIsStartedAgain(t *testing.T) {
	given, err := os.ReadFile(oomScore)
	if err != nil {
		t.Fatal(err)
	}
	// What users start by it isn't vital, as the container's own program is.
	cmd, stdout, stderr := supervised(t, "# vital\ntrap 'exit 3' TERM; while :; do sleep 0.05; done", "beside cat /proc/self/oom_score_adj; exit 1")
	for range 3 {
		if line, err := stdout.ReadString('\n'); line != string(given) {
			t.Fatalf("program says %q, %v, want %q", line, err, given)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := code(t, cmd); got != 3 || !strings.Contains(stderr.String(), "it is started again in 2ms") {
		t.Errorf("code %d, want the daemon's 3; log %q", got, stderr)
	}
}

func TestReexecutedDaemonStaysSupervised(t *testing.T) {
	cmd, stdout, stderr := supervised(t, "notify")
	if line, err := stdout.ReadString('\n'); line != "ready\n" {
		t.Fatalf("successor says %q, %v; log %s", line, err, stderr)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := code(t, cmd); got != 7 || !strings.Contains(stderr.String(), "notify goes on as process") {
		t.Errorf("code %d, want the successor's 7; log %q", got, stderr)
	}
}

func TestMainPID(t *testing.T) {
	for message, want := range map[string]int{
		"READY=1\nMAINPID=42": 42, "MAINPID=42\nSTATUS=x\n": 42, "READY=1": 0, "MAINPID=": 0, "MAINPID=-3": 0, "": 0, "XMAINPID=4": 0,
	} {
		if got := mainPID(message); got != want {
			t.Errorf("%q: %d, want %d", message, got, want)
		}
	}
}

func TestReloadOnAChangedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	alive := map[int]process{7: {name: "slurmd", reload: file}, 8: {name: "other"}}
	seen := map[string]string{}
	for _, step := range []struct {
		content string
		want    int
	}{{"a", 0}, {"a", 0}, {"b", 1}, {"b", 0}, {"", 0}, {"b", 0}, {"a", 1}} {
		if step.content == "" {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(file, []byte(step.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := reload(alive, seen); len(got) != step.want || (len(got) == 1 && got[0] != 7) {
			t.Errorf("with %q: told %v, want %d", step.content, got, step.want)
		}
	}
}
