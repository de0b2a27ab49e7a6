package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervisor runs the programs of a container. The first that ends takes the others with it, and its code is the container's.
type supervisor struct {
	signals <-chan os.Signal
	log     io.Writer
	grace   time.Duration    // between SIGTERM and SIGKILL once the container ends by itself
	pause   time.Duration    // before a program beside the container's own is started again, for the first time
	notify  *notifySocket    // nil if no program uses it
	tick    <-chan time.Time // when to look at files whose change programs are told
	vital   string           // the oom_score_adj of vital programs, and of this process beside them
	given   []byte           // the oom_score_adj of all others
	config  *configuration   // nil if nobody keeps the one that works

	handover     *handover     // nil for a slurmctld that is alone
	registration registration  // for programs that register a node
	ready        chan struct{} // closed when the program that notifies is ready for the first time
}

type ended struct {
	pid    int
	status syscall.WaitStatus
}

// run starts the programs and returns the container's exit code when all of them have ended.
func (s *supervisor) run(programs []process) (int, error) {
	// Programs may fork and leave; whoever loses its parent comes to us.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("become the parent of orphans: %w", err)
	}
	alive := map[int]process{}
	var err error
	if s.given, err = os.ReadFile(oomScore); err != nil {
		return 0, err
	}
	var extra []string
	if s.config != nil {
		extra = s.config.begin()
	}
	for _, p := range programs {
		s.setScore(p.vital)
		p.env = append(p.env, extra...)
		pid, err := s.start(p)
		if err != nil {
			signalAll(alive, syscall.SIGKILL)
			return 0, fmt.Errorf("start %s: %w", p.name, err)
		}
		alive[pid] = p
	}
	// The container ends with this process, so jobs must go before it.
	vital := slices.ContainsFunc(programs, func(p process) bool { return p.vital })
	s.setScore(vital)
	ends := make(chan ended)
	go reap(ends)
	code := s.loop(alive, ends, s.watch(programs), newRestarts(s.pause, len(programs), vital))
	s.handover.ended()
	return code, nil
}

// watch returns a channel that has something for each time that the program with a node should register it again.
func (s *supervisor) watch(programs []process) <-chan struct{} {
	s.ready = make(chan struct{})
	lost := make(chan struct{})
	for _, p := range programs {
		if p.node != "" {
			go s.registration.watch(p.node, s.ready, lost)
		}
	}
	return lost
}

// register makes programs register their nodes again.
func (s *supervisor) register(alive map[int]process) {
	for pid, p := range alive {
		if p.node != "" {
			fmt.Fprintf(s.log, "entrypoint: slurmctld doesn't know node %s: %s registers it again, and its jobs' steps go on\n", p.node, p.name)
			_ = syscall.Kill(pid, syscall.SIGHUP)
		}
	}
}

const oomScore = "/proc/self/oom_score_adj"

// setScore says how willingly the kernel takes this process, and what it starts from now on,
// when memory runs out. Only a container with CAP_SYS_RESOURCE can ask for less than it was
// given; another one goes on as it is.
func (s *supervisor) setScore(vital bool) {
	score := s.given
	if vital {
		score = []byte(s.vital)
	}
	_ = os.WriteFile(oomScore, score, 0)
}

func (s *supervisor) loop(alive map[int]process, ends <-chan ended, lost <-chan struct{}, again *restarts) int {
	var (
		code     int
		decided  bool // code is final
		stopping bool
		killAt   <-chan time.Time
		mainPIDs <-chan int
	)
	if s.notify != nil {
		mainPIDs = s.notify.mainPIDs
	}
	seen := map[string]string{}
	reload(alive, seen)
	for len(alive) > 0 {
		select {
		case now := <-s.tick:
			stopping = s.look(now, alive, seen, stopping || decided) || stopping
		case sig := <-s.signals:
			if sig == syscall.SIGTERM || sig == syscall.SIGINT {
				stopping, sig = true, syscall.SIGTERM
			}
			signalAll(alive, sig.(syscall.Signal))
		case <-lost:
			if !stopping && !decided {
				s.register(alive)
			}
		case pid := <-mainPIDs:
			s.follow(alive, pid)
		case e := <-ends:
			if s.notify != nil {
				s.notify.flush(func(pid int) { s.follow(alive, pid) })
			}
			p, ours := alive[e.pid]
			if !ours {
				continue
			}
			delete(alive, e.pid)
			if p.aside {
				if !decided && !stopping {
					fmt.Fprintf(s.log, "entrypoint: %s ended (%s); it is started again in %s\n", p.name, describe(e.status), again.later(p))
				}
				continue
			}
			if !decided {
				decided, code = true, exitCode(e.status, stopping)
				if !stopping {
					fmt.Fprintf(s.log, "entrypoint: %s ended (%s)\n", p.name, describe(e.status))
					code = max(code, 1) // a daemon that leaves unasked is a failure, whatever it says itself
					s.config.ended(e.status)
				}
				signalAll(alive, syscall.SIGTERM)
				killAt = time.After(s.grace)
			}
		case p := <-again.due:
			if !decided && !stopping {
				s.startAgain(p, alive, again)
			}
		case <-killAt:
			signalAll(alive, syscall.SIGKILL)
		}
	}
	return code
}

// look tells programs about changed files, and reports whether the container stops because it should start with others.
func (s *supervisor) look(now time.Time, alive map[int]process, seen map[string]string, ending bool) (stop bool) {
	if !ending && (s.config.look(now) || s.handover.look()) {
		signalAll(alive, syscall.SIGTERM)
		return true
	}
	for _, pid := range reload(alive, seen) {
		fmt.Fprintf(s.log, "entrypoint: %s changed: %s reads it again\n", alive[pid].reload, alive[pid].name)
		_ = syscall.Kill(pid, syscall.SIGHUP)
	}
	return false
}

// reload returns the programs whose file has another content than before. A file that can't be
// read, as while it is being replaced, is looked at again later.
func reload(alive map[int]process, seen map[string]string) []int {
	var changed []int
	for pid, p := range alive {
		if p.reload == "" {
			continue
		}
		content, err := os.ReadFile(p.reload)
		if err != nil {
			continue
		}
		if old, known := seen[p.name]; known && old != string(content) {
			changed = append(changed, pid)
		}
		seen[p.name] = string(content)
	}
	return changed
}

// follow notes that a program is ready, maybe as another process than before.
func (s *supervisor) follow(alive map[int]process, pid int) {
	s.config.ready(time.Now())
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
	for old, p := range alive {
		if !p.notify || old == pid {
			continue
		}
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
			continue
		}
		delete(alive, old)
		alive[pid] = p
		fmt.Fprintf(s.log, "entrypoint: %s goes on as process %d\n", p.name, pid)
		return
	}
}

func (s *supervisor) start(p process) (int, error) {
	path, err := exec.LookPath(p.args[0])
	if err != nil {
		return 0, err
	}
	added := p.env
	if p.notify {
		added = append(added, "NOTIFY_SOCKET="+s.notify.path)
	}
	attr := &syscall.ProcAttr{Dir: p.dir, Env: mergeEnv(os.Environ(), added), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{}}
	if p.id != 0 && os.Getuid() == 0 {
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(p.id), Gid: uint32(p.id)}
	}
	return syscall.ForkExec(path, p.args, attr)
}

// mergeEnv replaces variables instead of repeating them: which of two counts depends on the program that reads them.
func mergeEnv(env, added []string) []string {
	for _, a := range added {
		name, _, _ := strings.Cut(a, "=")
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	}
	return append(env, added...)
}

// reap waits for every child, ours and inherited, until there is none.
func reap(ends chan<- ended) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == nil:
			ends <- ended{pid, status}
		case !errors.Is(err, syscall.EINTR):
			return
		}
	}
}

func signalAll(alive map[int]process, sig syscall.Signal) {
	for pid := range alive {
		_ = syscall.Kill(pid, sig)
	}
}

// exitCode is what a shell would say, but a program that dies of the signal that stopped the container has done as it was asked.
// That signal is SIGTERM, or the SIGUSR1 by which slurmdbd wakes its own threads to end, and of which it dies now and then.
func exitCode(status syscall.WaitStatus, stopping bool) int {
	switch {
	case status.Signaled() && stopping && (status.Signal() == syscall.SIGTERM || status.Signal() == syscall.SIGUSR1):
		return 0
	case status.Signaled():
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal " + status.Signal().String()
	}
	return fmt.Sprintf("code %d", status.ExitStatus())
}
