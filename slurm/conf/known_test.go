package conf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// unreadable maps lines of slurm.conf to what is said of them; "" for lines that Slurm reads.
func unreadable() map[string]string {
	return map[string]string{
		"KillWait=30":                  "",
		"killwait = 30 # a comment":    "",
		"Licenses+=a:1":                "",
		"KillWait=\\\n30":              "",
		"CryptoType=crypto/munge":      "",
		"PartitionName=p Nodes=ALL":    "",
		"NodeSet=s Feature=s":          "",
		`MailProg="/bin/a b"`:          "",
		"\n\n  \n# only a comment":     "",
		"KillWait=unlimited":           "",
		"KillWait=INFINITE":            "",
		"KillWait=0x10":                "",
		"KillWait=010":                 "",
		`KillWait="5"`:                 "",
		"MaxJobCount=70000":            "",
		"DefMemPerCPU=5000000000":      "",
		"DisableRootJobs=YES":          "",
		"UsePAM=0":                     "",
		"TrackWCKey=down":              "",
		"KillWait=5m":                  `line 3: "KillWait=5m" needs a number from 0 to 65535; slurmctld would not start`,
		"KillWait=-1":                  `line 3: "KillWait=-1" needs a number from 0 to 65535; slurmctld would not start`,
		"KillWait=70000":               `line 3: "KillWait=70000" needs a number from 0 to 65535; slurmctld would not start`,
		"MaxJobCount=5000000000":       `line 3: "MaxJobCount=5000000000" needs a number from 0 to 4294967295; slurmctld would not start`,
		"DisableRootJobs=maybe":        `line 3: "DisableRootJobs=maybe" needs yes or no; slurmctld would not start`,
		"KillWiat=30":                  `line 3: "KillWiat" is no option of Slurm 26.05; did you mean KillWait?; slurmctld would not start`,
		"\nFooBarBaz = 3":              `line 4: "FooBarBaz" is no option of Slurm 26.05; slurmctld would not start`,
		"WordAlone":                    `line 3: "WordAlone" is not of the form Option=Value; slurmctld would not start`,
		"KillWait 30":                  `line 3: "KillWait 30" is not of the form Option=Value; slurmctld would not start`,
		"TaskPlugin=":                  `line 3: "TaskPlugin=" is not of the form Option=Value; slurmctld would not start`,
		"KillWait=30 MinJobAge=4":      `line 3: "MinJobAge=4" follows the value of KillWait: give each option a line of its own, and quote values with blanks; slurmctld would not start`,
		"KillWait=3\nMinJobAgge=\\\n4": `line 5: "MinJobAgge" is no option of Slurm 26.05; did you mean MinJobAge?; slurmctld would not start`,
	}
}

const readable = "ClusterName=c\nSlurmctldHost=localhost\n"

func TestUnreadables(t *testing.T) {
	for text, want := range unreadable() {
		t.Run(text, func(t *testing.T) {
			var got []string
			for _, u := range Unreadables(readable + text) {
				got = append(got, u.Error())
			}
			if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Slurm itself reads what we say it reads, and refuses the rest.
func TestUnreadablesAgainstSlurm(t *testing.T) {
	c := slurmtest.Start(t, slurmtest.Options{})
	for text, want := range unreadable() {
		t.Run(text, func(t *testing.T) {
			// The command reads slurm.conf before it does anything else, and asks no daemon.
			out := c.Run(t, "sh", "-c", `f=$(mktemp); printf %s "$0" >"$f"; SLURM_CONF=$f scontrol show hostnames x 2>&1; rm "$f"`, readable+text+"\n")
			if refused := strings.Contains(out, "Unable to process configuration file"); refused != (want != "") {
				t.Errorf("we say %q, Slurm says:\n%s", want, out)
			}
		})
	}
	t.Run("all known options", func(t *testing.T) {
		// A wrong value is another complaint than an unknown option.
		var all strings.Builder
		for name := range strings.FieldsSeq(knownOptions) {
			name, _, _ = strings.Cut(name, ":")
			all.WriteString(name + "=1\n")
		}
		out := c.Run(t, "sh", "-c", `f=$(mktemp); printf %s "$0" >"$f"; SLURM_CONF=$f scontrol show hostnames x 2>&1; rm "$f"`, all.String())
		if strings.Contains(out, "unrecognized key") {
			t.Errorf("Slurm says:\n%s", out)
		}
	})
}
