package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// counters are small programs that say how many CPUs they find, to be run in containers.
type counters struct {
	// files are what they need, packed; commands run them there.
	files    []byte
	commands map[string]string
}

// countersDir is where they are in a container.
const countersDir = "/tmp/counts"

// buildCounters builds what the machine of the test can build: a compiler that isn't there is told of and left out.
// It may be called while the box does something else; what it returns waits for it.
func buildCounters(t *testing.T) func() counters {
	var c counters
	dir, done := t.TempDir(), make(chan struct{})
	t.Cleanup(func() { <-done }) // of a test that has ended early
	go func() {
		defer close(done)
		// Debian's own two are in each container.
		c = counters{commands: map[string]string{
			"nproc": "echo nproc $(nproc)", "getconf": "echo getconf $(getconf _NPROCESSORS_ONLN)",
			"cpuinfo": "echo /proc/cpuinfo $(grep -c ^processor /proc/cpuinfo)",
		}}
		for name, build := range map[string]func(string) (string, error){"C++": buildCpp, "Go": buildGo, "Java": buildJava, "OpenBLAS": buildOpenBLAS, "Python": findPython} {
			own := filepath.Join(dir, name)
			command, err := build(own)
			if err != nil {
				t.Logf("how %s counts CPUs isn't shown: %v", name, err)
				_ = os.RemoveAll(own)
				continue
			}
			c.commands[name] = fmt.Sprintf("cd %s/%s && %s", countersDir, name, command)
		}
		c.files = pack(t, dir)
	}()
	return func() counters {
		<-done
		return c
	}
}

func runIn(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w: %s", name, err, failed.Stderr)
	}
	return string(out), err
}

func buildCpp(dir string) (string, error) {
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		_, err = runIn("testdata/counts", "g++", "-O1", "-static", "-fopenmp", "-o", filepath.Join(dir, "counts"), "counts.cc")
	}
	return "./counts", err
}

func buildGo(dir string) (string, error) {
	_, err := runIn("testdata/counts/gocount", "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "counts"), ".")
	return "./counts", err
}

// buildJava makes a Java that has nothing but its base.
func buildJava(dir string) (string, error) {
	_, err := runIn(".", "jlink", "--add-modules", "java.base", "--strip-debug", "--no-header-files", "--no-man-pages", "--output", dir)
	if err == nil {
		_, err = runIn("testdata/counts", "javac", "-d", dir, "Counts.java")
	}
	return "bin/java -XX:TieredStopAtLevel=1 -cp . Counts", err
}

// python prints where it is, and the files that it has read to get so far.
const python = `
import os, sys
print(os.path.realpath(sys.executable))
print(os.path.dirname(os.__file__))
for m in list(sys.modules.values()):
    if getattr(m, "__file__", None): print(m.__file__)`

// findPython takes the machine's own Python along, with the few modules that it needs.
func findPython(dir string) (string, error) {
	out, err := runIn(".", "python3", "-S", "-E", "-c", python)
	if err != nil {
		return "", err
	}
	lines := strings.Fields(out)
	lib := filepath.Base(lines[1])
	if err := copyFile(filepath.Join(dir, "bin", "python3"), lines[0]); err != nil {
		return "", err
	}
	for _, file := range lines[2:] {
		rel, err := filepath.Rel(lines[1], file)
		if err != nil {
			return "", err
		}
		if err := copyFile(filepath.Join(dir, "lib", lib, rel), file); err != nil {
			return "", err
		}
	}
	if err := copyLibraries(filepath.Join(dir, "so"), lines[0]); err != nil {
		return "", err
	}
	return `LD_LIBRARY_PATH=$PWD/so PYTHONHOME=$PWD PYTHONDONTWRITEBYTECODE=1 bin/python3 -S -c 'import os; print("os.cpu_count", os.cpu_count()); ` +
		`print("os.process_cpu_count", os.process_cpu_count() if hasattr(os, "process_cpu_count") else len(os.sched_getaffinity(0)))'`, nil
}

// copyLibraries takes the libraries of a program along, but for those of glibc, which belong to the container's.
func copyLibraries(to, program string) error {
	out, err := runIn(".", "ldd", program)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.Contains("libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 libutil.so.1 librt.so.1", f[0]) {
			continue
		}
		if err := copyFile(filepath.Join(to, f[0]), f[2]); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}
	return err
}

// pack makes a tar archive of a folder. Links are followed.
func pack(t *testing.T, dir string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: rel, Mode: 0o755, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Errorf("pack the programs that count CPUs: %v", err)
	}
	return out.Bytes()
}

// counts runs all programs in a container and returns what each has found. With the container's environment they are told by variables;
// without it they count, which comes first.
func (c cpus) counts(name string, p counters, environment bool) map[string]int {
	c.t.Helper()
	files, script := string(p.files), "mkdir -p "+countersDir+" && tar -x -C "+countersDir+"\n"
	if environment { // They are there.
		files, script = "", ""
	}
	for _, name := range slices.Sorted(maps.Keys(p.commands)) {
		script += "(" + p.commands[name] + ")\n"
	}
	command := []string{"kubectl", "exec", "-i", "-n", c.namespace, name, "--", "env"}
	if !environment {
		command = append(command, "-i", "PATH=/usr/bin:/bin")
	}
	out := c.must(files, append(command, "sh", "-e", "-c", script)...)
	found := map[string]int{}
	for line := range strings.Lines(out) {
		what, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, err := strconv.Atoi(n)
		if err != nil {
			c.t.Fatalf("a program in %s prints %q", name, line)
		}
		found[what] = number
	}
	return found
}

// each expects that every way to count finds the same number, but for those of the configured CPUs:
// they are the machine's, since memory is sized by them.
func (c cpus) each(name string, found map[string]int, want int) {
	c.t.Helper()
	for what, n := range found {
		if n != want && what != "configured" {
			c.t.Errorf("in %s %s finds %d CPUs, want %d", name, what, n, want)
		}
	}
	c.t.Logf("programs in %s find: %v", name, found)
}
