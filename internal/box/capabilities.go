package box

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// capabilityNames are the kernel's capabilities by number (capabilities(7)).
func capabilityNames() []string {
	return []string{
		"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
		"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
		"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
		"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
		"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
		"CHECKPOINT_RESTORE",
	}
}

// ownCapabilities are the capabilities that this process may hand on: a machine
// may itself be a container that lacks some.
func ownCapabilities() ([]string, error) {
	var own []string
	for number, name := range capabilityNames() {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(number), 0, 0, 0)
		if err == unix.EINVAL {
			break // The kernel is older than this capability and all after it.
		}
		if err != nil {
			return nil, fmt.Errorf("read own capabilities: %w", err)
		}
		if has == 1 {
			own = append(own, "CAP_"+name)
		}
	}
	return own, nil
}
