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
