// Command entrypoint is the first process of the Slurm images: `entrypoint ROLE [ARGUMENT...]`. It prepares folders, starts the
// role's daemons with the container's arguments, forwards signals, reaps orphans, and ends when a daemon ends, with its code.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// grace is short: by the time it counts, one daemon of the container is dead already.
const grace = 10 * time.Second

// pause is how long a program beside the container's own is left alone before it is started again; each time doubles it.
const pause = time.Second

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: entrypoint ROLE [ARGUMENT...]")
		os.Exit(2)
	}
	code, err := run(os.Args[1], os.Args[2:], registration{often: time.Minute, soon: 10 * time.Second})
	if err != nil {
		fmt.Fprintln(os.Stderr, "entrypoint:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(role string, args []string, r registration) (int, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	todo, err := plan(role, args, surroundings{getenv: os.Getenv, exists: exists, machine: machine{slurmdHardware, machineCores, warn}})
	if err != nil {
		return 0, err
	}
	for _, f := range todo.folders {
		if err := f.make(); err != nil {
			return 0, err
		}
	}
	for _, path := range todo.stale {
		if err := remove(path); err != nil {
			return 0, err
		}
	}
	if todo.pam != "" {
		if err := writePam(pamSshd, todo.pam); err != nil {
			return 0, err
		}
	}
	for _, b := range todo.before {
		cmd := exec.Command(b[0], b[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return 0, fmt.Errorf("%s: %w", b[0], err)
		}
	}
	if role == "mariadb" {
		if err := bootstrapMariadb(os.Getenv); err != nil {
			return 0, err
		}
	}
	s := supervisor{signals: signals, log: os.Stderr, grace: grace, pause: pause, vital: "-1000", tick: time.Tick(time.Second), registration: r}
	if todo.keep != "" {
		s.config = &configuration{live: "/etc/slurm", store: todo.keep, run: "/run/slurmctld", log: os.Stderr}
	}
	if todo.handover != "" {
		if s.handover, err = newHandover(todo.handover); err != nil {
			return 0, err
		}
		if !s.handover.take(signals) {
			return 0, nil
		}
	}
	if slices.ContainsFunc(todo.processes, func(p process) bool { return p.notify }) {
		if s.notify, err = listenNotify(os.TempDir(), "/run/slurmctld", "/run/slurm", "/run"); err != nil {
			return 0, err
		}
		defer s.notify.close()
	}
	return s.run(todo.processes)
}

func (f folder) make() error {
	if err := os.MkdirAll(f.path, 0o755); err != nil {
		return err
	}
	if os.Getuid() != 0 {
		return nil
	}
	return os.Chown(f.path, f.id, f.id)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func warn(text string) { fmt.Fprintln(os.Stderr, "entrypoint:", text) }

// slurmdHardware returns what slurmd finds in this machine, as it would stand in slurm.conf.
func slurmdHardware() (string, error) {
	out, err := exec.Command("slurmd", "-C").Output()
	return string(out), err
}
