package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is a running driver. Paths of it are seen through /proc.
type Process struct {
	dir  string
	Args []string // without the program's name
}

// Find looks in a /proc for the driver: a process of that name that isn't one of the subcommands.
func Find(proc string, subcommands []string) (Process, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return Process{}, fmt.Errorf("look for the driver's process: %w", err)
	}
	var denied error
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		if name, err := os.ReadFile(filepath.Join(dir, "comm")); err != nil || strings.TrimSpace(string(name)) != "dracpu" {
			continue
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			denied = err
			continue
		}
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		if len(args) > 1 && slices.Contains(subcommands, args[1]) {
			continue
		}
		return Process{dir, args[1:]}, nil
	}
	return Process{}, errors.Join(fmt.Errorf("there is no process named dracpu in %s: run this in the driver's container, or on its node with HOST_ROOT", proc), denied)
}

// Path is where a file of the process is for us.
func (p Process) Path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Join(p.dir, "root", name)
	}
	return filepath.Join(p.dir, "cwd", name)
}

// ReadFile reads a file of the process.
func (p Process) ReadFile(name string) ([]byte, error) { return os.ReadFile(p.Path(name)) }
