package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		args, env, want string
	}{
		{"--cache-freq=10ms", "", "give at least 1s"},
		{"--accounting-freq=10ms", "", "or 0 for never"},
		{"--max-label-values=0", "", "at least 1"},
		{"--external-metrics", "SLURM_JWT", "set POD_NAMESPACE"},
		{"now", "", `argument "now"`},
		{"", "", "set SLURM_JWT_FILE"},
		{"--server=nowhere", "SLURM_JWT", "--server"},
		{"--metrics-bind-address=127.0.0.1:none", "SLURM_JWT", "--metrics-bind-address"},
	} {
		getenv := func(name string) string {
			if name == tc.env {
				return "token"
			}
			return ""
		}
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		err := run(ctx, strings.Fields(tc.args), getenv)
		stop()
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.args, err, tc.want)
		}
	}
}
