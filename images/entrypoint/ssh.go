package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Files of sshd and sssd that decide whether they run.
const (
	sshdProgram = "/usr/sbin/sshd"
	sshdConfig  = "/etc/ssh/sshd_config"
	sssdProgram = "/usr/sbin/sssd"
	sssdConfig  = "/etc/sssd/sssd.conf"

	pamSshd     = "/etc/pam.d/sshd"
	pamAccounts = "@include common-account"

	// sssdPid is what a killed sssd leaves, and keeps the next one from starting.
	sssdPid = "/run/sssd.pid"
)

func sshd(args []string, s surroundings) process {
	return process{name: "sshd", args: append([]string{sshdProgram, "-D", "-e"}, options(s, "SSHD_OPTIONS", args)...)}
}

func sssd(s surroundings) process {
	return process{name: "sssd", args: append([]string{sssdProgram, "-i", "--logger=stderr"}, options(s, "SSSD_OPTIONS", nil)...)}
}

// usesSssd tells whether sssd is installed and configured.
func usesSssd(s surroundings) bool { return s.exists(sssdProgram) && s.exists(sssdConfig) }

// addSshd prepares out for an ssh server. Host keys are made where there are none: beside given ones they would be keys that
// change with each container.
func addSshd(out *start, s surroundings) {
	out.folders = append(out.folders, folder{"/run/sshd", 0})
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		if s.exists("/etc/ssh/ssh_host_" + kind + "_key") {
			return
		}
	}
	out.before = append(out.before, []string{"ssh-keygen", "-A"})
}

// addWorkerSsh lets users of running jobs in by ssh. A worker is there for its jobs, so they outlive sshd and sssd.
func addWorkerSsh(out *start, s surroundings) {
	if usesSssd(s) {
		out.stale = append(out.stale, sssdPid)
		out.processes = append(out.processes, sssd(s).beside())
	}
	if !s.exists(sshdProgram) || !s.exists(sshdConfig) {
		return
	}
	addSshd(out, s)
	out.pam = "account required pam_slurm_adopt.so " + cmp.Or(s.getenv("PAM_SLURM_ADOPT_OPTIONS"), "action_adopt_failure=deny action_generic_failure=deny")
	out.processes = append(out.processes, sshd(nil, s).beside())
}

// writePam puts a rule before those about accounts into sshd's PAM service, where none is there for its module yet.
func writePam(path, rule string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the PAM rules of sshd: %w", err)
	}
	changed, err := withPamRule(string(text), rule)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if changed == string(text) {
		return nil
	}
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
		return fmt.Errorf("write the PAM rules of sshd: %w", err)
	}
	return nil
}

func withPamRule(text, rule string) (string, error) {
	module := strings.Fields(rule)[2]
	var out strings.Builder
	placed := false
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 0 && !strings.HasPrefix(fields[0], "#") && strings.Contains(line, module) {
			return text, nil
		}
		if !placed && strings.TrimSpace(line) == pamAccounts {
			out.WriteString(rule + "\n")
			placed = true
		}
		out.WriteString(line)
	}
	if !placed {
		return "", errors.New("there is no line \"" + pamAccounts + "\", before which " + module + " belongs")
	}
	return out.String(), nil
}

// remove deletes what an earlier run has left.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	return nil
}
