package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestHelpShowsTheBridgesFlags(t *testing.T) {
	cmd := newCommand(func(string) string { return "" })
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--bridge-config", "--slurm-jwt-key-file", "--slurm-user", "--submit-workers", "--secure-port"} {
		if !strings.Contains(out.String(), flag+" ") {
			t.Errorf("the help lacks %s", flag)
		}
	}
}

// These are the published chart's arguments: one that isn't taken keeps the pod from starting.
func TestPublishedFlags(t *testing.T) {
	out, err := program(t, "--config=/etc/kubernetes/scheduler-config.yaml",
		"--feature-gates=DRAExtendedResource=true,DynamicResourceAllocation=true,SchedulerPopFromBackoffQ=false", "--v=4", "--version").Output()
	if err != nil || !strings.HasPrefix(string(out), "Kubernetes v") {
		t.Errorf("the answer is %q, %v", out, err)
	}
}
