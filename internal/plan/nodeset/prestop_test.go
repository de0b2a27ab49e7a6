package nodeset

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The script runs under a real shell, with a scontrol that shows one node and notes what is asked.
func TestCheck48PreStopKeepsOthersReasons(t *testing.T) {
	const ours = "slurm-operator: Pod is terminating"
	for name, c := range map[string]struct{ state, reason, want string }{
		"healthy":               {"IDLE+DYNAMIC_NORM", "", ours},
		"our drain":             {"IDLE+DRAIN+DYNAMIC_NORM", "slurm-operator: scale-in", ours},
		"an administrator's":    {"IDLE+DRAIN+DYNAMIC_NORM", "bad disk", "bad disk"},
		"with signs":            {"MIXED+DRAIN", `it's [sda] "dead" $x`, `it's [sda] "dead" $x`},
		"down":                  {"DOWN", "broken", "broken"},
		"a note":                {"IDLE", "watch this", ours},
		"not responding":        {"DOWN*", "Not responding", ours},
		"refused by slurmctld":  {"IDLE+DRAIN+INVALID_REG", "gres/gpu count reported lower than configured (0 < 2)", ours},
		"refused for its size":  {"IDLE+DRAIN+INVALID_REG", "Low RealMemory (reported:1 < 100.00% of configured:2)", ours},
		"a state in the reason": {"IDLE", "State=DRAIN some day", ours},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			shown := "NodeName=x Arch=x86_64\n   OS=Linux #1 SMP @0\n   State=" + c.state + " ThreadsPerCore=1\n"
			if c.reason != "" {
				shown += "   Reason=" + c.reason + " [root@2026-11-29T21:41:08]\n"
			}
			write(t, filepath.Join(dir, "shown"), shown+"   Comment=c\n", 0o644)
			write(t, filepath.Join(dir, "scontrol"), "#!/bin/sh\nif [ \"$1\" = show ]; then cat \"$DIR/shown\"; else printf '%s\\n' \"$@\" > \"$DIR/asked\"; fi\n", 0o755)
			cmd := exec.Command("sh", "-c", preStop)
			cmd.Env = append(os.Environ(), "DIR="+dir, "PATH="+dir+":"+os.Getenv("PATH"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(string(asked)), "\n")
			if len(lines) != 4 || lines[0] != "update" || lines[2] != "state=down" || lines[3] != "reason="+c.want {
				t.Errorf("asked %q, want the reason %q", lines, c.want)
			}
		})
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
