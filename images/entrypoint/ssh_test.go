package main

import (
	"slices"
	"strings"
	"testing"
)

func TestWorkerSshPlan(t *testing.T) {
	with := func(values map[string]string, present ...string) start {
		t.Helper()
		got, err := plan("slurmd", nil, surroundings{getenv: env(values), exists: func(p string) bool { return slices.Contains(present, p) }})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := with(nil, sshdProgram, sssdProgram); got.pam != "" || len(got.before) > 0 {
		t.Errorf("without a configuration sshd is prepared: %+v", got)
	}
	got := with(nil, sshdProgram, sshdConfig, sssdProgram, sssdConfig)
	if want := "account required pam_slurm_adopt.so action_adopt_failure=deny action_generic_failure=deny"; got.pam != want {
		t.Errorf("PAM rule %q, want %q", got.pam, want)
	}
	if len(got.before) != 1 || got.processes[0].aside || !got.processes[1].aside || !got.processes[2].aside {
		t.Errorf("slurmd alone is what the container stands and falls with, and host keys are made: %+v", got)
	}
	got = with(map[string]string{"PAM_SLURM_ADOPT_OPTIONS": "action_no_jobs=ignore"}, sshdProgram, sshdConfig, "/etc/ssh/ssh_host_ed25519_key")
	if want := "account required pam_slurm_adopt.so action_no_jobs=ignore"; got.pam != want || len(got.before) > 0 {
		t.Errorf("PAM rule %q, want %q; host keys made: %v", got.pam, want, got.before)
	}
}

func TestPamRule(t *testing.T) {
	const rule = "account required pam_slurm_adopt.so action_adopt_failure=deny"
	const debian = "@include common-auth\naccount    required     pam_nologin.so\n# account required pam_slurm_adopt.so\n@include common-account\n@include common-session\n"
	got, err := withPamRule(debian, rule)
	want := strings.Replace(debian, "@include common-account", rule+"\n@include common-account", 1)
	if err != nil || got != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
	if again, err := withPamRule(got, rule); err != nil || again != got {
		t.Errorf("a second start: %v\n%s", err, again)
	}
	if _, err := withPamRule("auth required pam_permit.so\n", rule); err == nil {
		t.Error("a rule without a place was taken")
	}
}
