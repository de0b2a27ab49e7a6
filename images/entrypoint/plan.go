package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The users that Slurm daemons run as, fixed in the images.
const (
	slurmID = 401
	mysqlID = 999
)

// process is one program that the container stands and falls with.
type process struct {
	name string
	args []string
	env  []string // added to the container's environment
	dir  string
	id   int // user and group to run as; 0 is the container's own
	// notify means that the program tells by systemd's protocol which process carries on after it has re-executed itself, so
	// that a reconfiguration that fails leaves the old process at work.
	notify bool
	// vital means that the kernel, short of memory, shall take others before this one.
	vital bool
	// aside means that the container doesn't fall with the program, which is started again instead.
	aside bool
	// reload is a file that the program reads again on SIGHUP, which it gets when the file changes.
	reload string
	// node is the dynamic node that the program registers when it starts, and on SIGHUP.
	node string
}

// beside is p as one that the container doesn't fall with.
func (p process) beside() process {
	p.aside = true
	return p
}

// keyRing holds the keys of auth/slurm where there may be several.
const keyRing = "/etc/slurm/slurm.jwks"

// folder must exist before the programs start. Its owner is set only if the container runs as root.
type folder struct {
	path string
	id   int
}

// surroundings is what plans depend on beside the arguments.
type surroundings struct {
	getenv  func(string) string
	exists  func(path string) bool
	machine machine
}

// start is what a container does.
type start struct {
	folders   []folder
	stale     []string   // files of an earlier run that must go
	pam       string     // rule for sshd's accounts
	before    [][]string // commands that run to their end first
	processes []process
	keep      string // where the last configuration that worked is kept; empty for nowhere
	handover  string // where slurmctld's containers pass control; empty where there is one only
}

type planner func(args []string, s surroundings) (start, error)

func planners() map[string]planner {
	return map[string]planner{
		"slurmctld": planSlurmctld, "slurmd": planSlurmd, "slurmdbd": planSlurmdbd, "slurmrestd": planSlurmrestd,
		"sackd": planSackd, "login": planLogin, "mariadb": planMariadb,
	}
}

// plan decides what the container for a role does. args are the container's arguments.
func plan(role string, args []string, s surroundings) (start, error) {
	p, ok := planners()[role]
	if !ok {
		return start{}, fmt.Errorf("%q is not a role; there are %s", role, strings.Join(slices.Sorted(maps.Keys(planners())), ", "))
	}
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = expandWord(a, s.getenv)
	}
	return p(words, s)
}

func options(s surroundings, variable string, args []string) []string {
	return append(splitWords(s.getenv(variable), s.getenv), args...)
}

func planSlurmctld(args []string, s surroundings) (start, error) {
	args = options(s, "SLURMCTLD_OPTIONS", args)
	return start{
		folders:   []folder{{"/run/slurmctld", slurmID}},
		processes: []process{{name: "slurmctld", args: append([]string{"slurmctld", "--systemd"}, args...), notify: true}},
		keep:      s.getenv("SLINKY_LAST_CONFIG"),
		handover:  s.getenv("SLINKY_HANDOVER"),
	}, nil
}

func planSlurmd(args []string, s surroundings) (start, error) {
	args, err := slurmdArgs(options(s, "SLURMD_OPTIONS", args), s.getenv, s.machine)
	if err != nil {
		return start{}, err
	}
	node, err := nodeName(args)
	if err != nil {
		return start{}, err
	}
	out := start{
		folders: []folder{{"/run/slurm", 0}, {"/var/spool/slurmd", 0}},
		processes: []process{{
			name: "slurmd", args: append([]string{"slurmd", "--systemd"}, args...), notify: true, vital: true, reload: keyRing, node: node,
		}},
	}
	addWorkerSsh(&out, s)
	return out, nil
}

func planSlurmdbd(args []string, s surroundings) (start, error) {
	args = options(s, "SLURMDBD_OPTIONS", args)
	return start{
		folders:   []folder{{"/run/slurmdbd", slurmID}},
		processes: []process{{name: "slurmdbd", args: append([]string{"slurmdbd", "-D"}, args...)}},
	}, nil
}

func planSlurmrestd(args []string, s surroundings) (start, error) {
	args = options(s, "SLURMRESTD_OPTIONS", args)
	return start{processes: []process{{name: "slurmrestd", args: append([]string{"slurmrestd"}, args...)}}}, nil
}

func planSackd(args []string, s surroundings) (start, error) {
	return start{folders: []folder{{"/run/slurm", slurmID}}, processes: []process{sackd(args, s)}}, nil
}

func sackd(args []string, s surroundings) process {
	args = options(s, "SACKD_OPTIONS", args)
	return process{name: "sackd", args: append([]string{"sackd", "-D"}, args...), dir: "/run/slurm", id: slurmID}
}

// planLogin starts sssd only where it is installed and configured.
func planLogin(args []string, s surroundings) (start, error) {
	out := start{folders: []folder{{"/run/slurm", slurmID}}, processes: []process{sackd(nil, s), sshd(args, s)}}
	addSshd(&out, s)
	if usesSssd(s) {
		out.stale = []string{sssdPid}
		out.processes = append(out.processes, sssd(s))
	}
	return out, nil
}
