package conf

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

func minimal() SlurmConf {
	return SlurmConf{
		ClusterName:       "slurm_slurm",
		Controllers:       []ControllerHost{{Name: "slurm-controller-0", Address: "slurm-controller-0.slurm-controller-internal.slurm"}},
		ControllerPort:    6817,
		ControllerAddress: "slurm-controller.slurm",
		Auth:              Auth{JwtKeyFile: "/etc/slurm/jwt.key"},
	}
}

func TestGolden(t *testing.T) {
	full := minimal()
	full.Controllers = append(full.Controllers, ControllerHost{Name: "slurm-controller-1", Address: "slurm-controller-1.slurm-controller-internal.slurm"})
	full.Auth.JwksFile = "/etc/slurm/jwks.json"
	full.Accounting = &AccountingHost{Host: "slurm-accounting", Port: 6819}
	full.Metrics = true
	full.Contain = true
	full.Prolog = []string{"20-b.sh", "10-a.sh"}
	full.EpilogSlurmctld = []string{"done.sh"}
	full.NodeSets = []NodeSet{{Name: "cpu", Partition: true, PartitionOptions: `State=UP  Default=YES AllowAccounts="a b"`}, {Name: "gpu"}}
	full.Extra = "MaxNodeCount=4096\nPrologFlags=Alloc\nSlurmctldParameters=Idle_On_Node_Suspend,enable_configless, \\\n\nauthaltparameters=max_token_lifespan=300,jwt_key=/elsewhere, # comment\n"

	external := minimal()
	external.External = true
	external.Controllers = []ControllerHost{{Name: "head.example.com"}}

	files := map[string]interface{ Text() (string, error) }{
		"slurm-minimal.conf":  minimal(),
		"slurm-full.conf":     full,
		"slurm-external.conf": external,
		"cgroup.conf":         CgroupConf{Plugin: "cgroup/v2", IgnoreSystemd: true},
		"slurmdbd.conf": SlurmdbdConf{
			Host: "slurm-accounting-0", Port: 6819, Auth: Auth{JwtKeyFile: "/etc/slurm/jwt.key"},
			StorageHost: "mariadb", StoragePort: 3306, StorageDatabase: "slurm_acct_db", StorageUser: "slurm",
			StoragePassword: `p#a\s s`, Extra: "CommitDelay=1\nAuthInfo=socket=/run/x",
		},
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			got, err := file.Text()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, got)
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestRefused(t *testing.T) {
	cases := map[string]struct {
		change func(*SlurmConf)
		want   string
	}{
		"newline in partition": {
			func(c *SlurmConf) {
				c.NodeSets = []NodeSet{{Name: "x", Partition: true, PartitionOptions: "MaxTime=1\nSlurmUser=root"}}
			},
			"partition options of NodeSet x: has a line break",
		},
		"carriage return in partition": {
			func(c *SlurmConf) {
				c.NodeSets = []NodeSet{{Name: "x", Partition: true, PartitionOptions: "MaxTime=1\rSlurmUser=root"}}
			},
			"line break",
		},
		"line separator in partition": {
			func(c *SlurmConf) {
				c.NodeSets = []NodeSet{{Name: "x", Partition: true, PartitionOptions: "MaxTime=1\u2028SlurmUser=root"}}
			},
			"line break",
		},
		"other partition": {
			func(c *SlurmConf) {
				c.NodeSets = []NodeSet{{Name: "x", Partition: true, PartitionOptions: "partitionname=y"}}
			},
			"PartitionName can't be set",
		},
		"node set name with a key": {
			func(c *SlurmConf) { c.NodeSets = []NodeSet{{Name: "x Feature=y"}} },
			"blank or a comma",
		},
		"cluster name with newline": {
			func(c *SlurmConf) { c.ClusterName = "a\nSlurmUser=root" },
			"ClusterName",
		},
		"extra ends with a backslash": {
			func(c *SlurmConf) { c.Extra = "DebugFlags=a\\" },
			"extraConf: the last line ends with a backslash",
		},
		"control character in extra": {
			func(c *SlurmConf) { c.Extra = "a=b\nc=d\x00" },
			"extraConf, line 2",
		},
		"quote in value": {
			func(c *SlurmConf) { c.ClusterName = `a" SlurmUser="root` },
			"double quote",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := minimal()
			tc.change(&c)
			text, err := c.Text()
			if err == nil {
				t.Fatalf("accepted:\n%s", text)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q, want it to contain %q", err, tc.want)
			}
		})
	}
}

func TestPasswordIsNotInErrors(t *testing.T) {
	_, err := SlurmdbdConf{Host: "h", Port: 1, Auth: Auth{JwtKeyFile: "k"}, StoragePort: 1, StoragePassword: "secret\n"}.Text()
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got error %v", err)
	}
}

func TestUnion(t *testing.T) {
	cases := map[string]struct{ ours, theirs, want string }{
		"trailing comma":      {"jwt_key=/k", "max_token_lifespan=300,", "jwt_key=/k,max_token_lifespan=300"},
		"same option":         {"enable_configless", "enable_configless,", "enable_configless"},
		"sub-key ours":        {"jwt_key=/k", "JWT_KEY=/x", "jwt_key=/k"},
		"case of their value": {"a", "Path=/Upper", "a,path=/Upper"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := union(tc.ours, tc.theirs); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLastValues(t *testing.T) {
	got := lastValues("A=1 b=\"x y\"\n# A=2\nC=3,\\\n4 \\# no\nA=5#6\n")
	want := map[string]string{"a": "5", "b": "x y", "c": "3,4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzValue checks that no value can change the number of lines, or begin another key.
func FuzzValue(f *testing.F) {
	for _, s := range []string{"a", "a b", "a\nb=c", "a\\", "a#b", `"`, "a\u2028b", "x\r", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		var d Document
		d.Line(Pair{"Key", value}, Pair{"Last", "1"})
		text, err := d.Text()
		if err != nil {
			return
		}
		if n := strings.Count(text, "\n"); n != 1 {
			t.Fatalf("%q became %d lines: %q", value, n, text)
		}
		words, err := splitWords(withoutComment(strings.TrimSuffix(text, "\n")))
		if err != nil || len(words) != 2 || !strings.HasPrefix(words[0], "Key=") || words[1] != "Last=1" {
			t.Fatalf("%q became words %q, %v", value, words, err)
		}
	})
}

// FuzzVerbatim checks that a user's lines end where they end.
func FuzzVerbatim(f *testing.F) {
	for _, s := range []string{"A=b", "A=b\\", "A=b\\\\", "A=b\n\\\n", "# x \\", "\x0b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, extra string) {
		var d Document
		d.Verbatim("extra", extra)
		d.Set("After", "1")
		text, err := d.Text()
		if err != nil {
			return
		}
		lines := logicalLines(strings.TrimSuffix(text, "\n"))
		if last := lines[len(lines)-2]; last != "After=1" && lines[len(lines)-1] != "After=1" {
			t.Fatalf("%q swallowed the line after it: %q", extra, lines)
		}
	})
}

func FuzzParsePairs(f *testing.F) {
	for _, s := range []string{"A=b", `A="b c" D=e`, "A", "=", `A="`, "A=b\nC=d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pairs, err := ParsePairs(text)
		if err != nil {
			return
		}
		out, err := FormatPairs(pairs)
		if err != nil {
			t.Fatalf("%q parsed to %q, which can't be written: %v", text, pairs, err)
		}
		if strings.Contains(out, "\n") {
			t.Fatalf("%q became more than a line: %q", text, out)
		}
	})
}
