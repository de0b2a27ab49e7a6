package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
)

// lockRetry is how long to wait before the next try when another apt reads package lists; apt waits by itself only for dpkg's lock.
const lockRetry = 2 * time.Second

// Missing returns which of the packages are not installed on this machine.
func Missing(ctx context.Context, names ...string) ([]string, error) {
	args := append([]string{"dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n"}, names...)
	text, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	// dpkg-query ends with 1 when it doesn't know one of the names, and tells about the others all the same.
	if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		return nil, fmt.Errorf("ask dpkg which packages are installed: %w", err)
	}
	return missing(string(text), names), nil
}

func missing(status string, names []string) []string {
	installed := map[string]bool{}
	for line := range strings.Lines(status) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), " installed"); ok {
			installed[name] = true
		}
	}
	var out []string
	for _, n := range names {
		if !installed[n] {
			out = append(out, n)
		}
	}
	return out
}

// EnsureHostPackages installs those of the packages that this machine lacks, and nothing else: no recommended packages, no
// upgrades. It writes apt's output to out, and waits while another package manager works.
func EnsureHostPackages(ctx context.Context, out io.Writer, names ...string) error {
	lacking, err := Missing(ctx, names...)
	if err != nil || len(lacking) == 0 {
		return err
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("this machine lacks %s: install it with apt-get, or run this as root", strings.Join(lacking, ", "))
	}
	// Third-party sources that can't be reached make update fail though Debian's own lists are fine, so only the install decides.
	updateErr := aptGet(ctx, out, "update")
	args := append([]string{"install", "--yes", "--no-install-recommends"}, lacking...)
	if err := aptGet(ctx, out, args...); err != nil {
		return fmt.Errorf("install %s: %w", strings.Join(lacking, ", "), errors.Join(updateErr, err))
	}
	return nil
}

func aptGet(ctx context.Context, out io.Writer, args ...string) error {
	full := append([]string{"apt-get", "-o", "DPkg::Lock::Timeout=900", "-o", "Dpkg::Use-Pty=0", "-o", "Dpkg::Options::=--force-confold"}, args...)
	env := append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	for told := false; ; told = true {
		// Not contained: a service that a package starts must outlive apt. On cancellation apt gets SIGTERM and stops in order.
		err := hostcmd.Run(ctx, hostcmd.Cmd{Args: full, Env: env, Out: out})
		if err == nil || !strings.Contains(err.Error(), "Could not get lock") {
			return err
		}
		if !told {
			fmt.Fprintln(out, "waiting for another package manager to finish")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another package manager: %w", context.Cause(ctx))
		case <-time.After(lockRetry):
		}
	}
}
