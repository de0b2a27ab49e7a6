package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestExpandWord(t *testing.T) {
	getenv := env(map[string]string{"TOPO": "default:rack-1", "WORDS": "a b", "EMPTY": ""})
	for in, want := range map[string]string{
		"--conf-server":                   "--conf-server",
		"Features=a CPUs=2":               "Features=a CPUs=2",
		"'Features=a CPUs=2'":             "Features=a CPUs=2",
		`'Features=a Topology='"$TOPO"''`: "Features=a Topology=default:rack-1",
		`'$TOPO'`:                         "$TOPO",
		`${TOPO}s`:                        "default:rack-1s",
		`"${WORDS}"`:                      "a b",
		`x=$EMPTY`:                        "x=",
		`x=$UNSET.`:                       "x=.",
		`cost=5$`:                         "cost=5$",
		`${broken`:                        "${broken",
		`$(rm -rf /)`:                     "$(rm -rf /)",
		"`id`":                            "`id`",
		`a\ b`:                            "a b",
		`"a\"b\n"`:                        `a"b\n`,
		`it's`:                            `it's`,
		`Gres=gpu:a100:2(S:0-1)`:          `Gres=gpu:a100:2(S:0-1)`,
		`*`:                               `*`,
		``:                                ``,
		`''`:                              ``,
	} {
		if got := expandWord(in, getenv); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestSplitWords(t *testing.T) {
	getenv := env(map[string]string{"HOST": "ctl"})
	for in, want := range map[string][]string{
		"":                             nil,
		"  ":                           nil,
		"--conf-server $HOST:6817  -v": {"--conf-server", "ctl:6817", "-v"},
		`-a 'one two' "" b`:            {"-a", "one two", "", "b"},
		`it's open`:                    {"it's", "open"},
	} {
		if diff := cmp.Diff(want, splitWords(in, getenv)); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}

func FuzzSplitWords(f *testing.F) {
	f.Add(`a 'b c' "$d"`)
	f.Add(`${x`)
	f.Fuzz(func(t *testing.T, text string) {
		quoted := "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
		if got := expandWord(quoted, env(nil)); got != text {
			t.Errorf("%q, quoted for a shell, came back as %q", text, got)
		}
		splitWords(text, env(nil))
	})
}

func TestSlurmdArgs(t *testing.T) {
	const line = "NodeName=x CPUs=16 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=64000\nUpTime=0-00:28:16\n"
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"static node":                          {[]string{"-N", "n1"}, map[string]string{"POD_CPUS": "4"}, "-N n1"},
		"nothing to add":                       {[]string{"-Z"}, nil, "-Z"},
		"limits":                               {[]string{"-Z", "--conf", "Features=a"}, map[string]string{"POD_CPUS": "4", "POD_MEMORY": "16000"}, "-Z --conf|Features=a MemSpecLimit=48000 CoreSpecCount=6"},
		"no conf yet":                          {[]string{"-Z"}, map[string]string{"POD_MEMORY": "16000"}, "-Z --conf|MemSpecLimit=48000"},
		"odd cpus round up":                    {[]string{"-Z"}, map[string]string{"POD_CPUS": "3"}, "-Z --conf|CoreSpecCount=6"},
		"one cpu of two threads leaves a core": {[]string{"-Z"}, map[string]string{"POD_CPUS": "1"}, "-Z --conf|CoreSpecCount=7"},
		"limits beyond the machine":            {[]string{"-Z"}, map[string]string{"POD_CPUS": "64", "POD_MEMORY": "128000"}, "-Z"},
		"zero is no limit":                     {[]string{"-Z"}, map[string]string{"POD_CPUS": "0", "POD_MEMORY": "0"}, "-Z"},
		"reserved for slurmd":                  {[]string{"-Z"}, map[string]string{"POD_MEMORY": "16000", "POD_MEMORY_RESERVED": "500"}, "-Z --conf|MemSpecLimit=48500"},
		"limits, weight and empty topology":    {[]string{"-Z", "--conf", "Features=a Topology= Weight=5"}, map[string]string{"POD_CPUS": "4"}, "-Z --conf|Features=a Weight=5 CoreSpecCount=6"},
		"user's size counts":                   {[]string{"-Z", "--conf=RealMemory=32000"}, map[string]string{"POD_MEMORY": "16000"}, "-Z --conf|RealMemory=32000 MemSpecLimit=16000"},
		"user's choice stays":                  {[]string{"-Z", "--conf", "corespeccount=1"}, map[string]string{"POD_CPUS": "4"}, "-Z --conf|corespeccount=1"},
		"topology":                             {[]string{"-Z"}, map[string]string{"POD_TOPOLOGY": "default:rack-1"}, "-Z --conf|Topology=default:rack-1"},
		"empty topology is dropped":            {[]string{"-Z", "--conf", "Features=a Topology="}, nil, "-Z --conf|Features=a"},
		"quoted empty topology is dropped":     {[]string{"-Z", "--conf", `Topology="" Features=a`}, nil, "-Z --conf|Features=a"},
		"quotes in conf stay":                  {[]string{"-Z", "--conf", `Reason="a b" Features=a`}, nil, `-Z --conf|Reason="a b" Features=a`},
		"two confs are one":                    {[]string{"--conf", "A=1", "-Z", "--conf", "B=2"}, nil, "-Z --conf|A=1 B=2"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			got, err := slurmdArgs(c.args, env(c.env), machine{func() (string, error) { asked++; return line, nil }, sixteen("0-15"), nil})
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(strings.Join(got, " "), "--conf ", "--conf|")
			if text != c.want || asked > 1 {
				t.Errorf("got %q, want %q; asked for the hardware %d times", text, c.want, asked)
			}
		})
	}
}

func TestSlurmdArgsErrors(t *testing.T) {
	m := machine{func() (string, error) { return "", errors.New("no such thing") }, sixteen("0-15"), nil}
	for value, want := range map[string]string{"4": "no such thing", "500m": `POD_CPUS is "500m"`, "-1": `POD_CPUS is "-1"`} {
		_, err := slurmdArgs([]string{"-Z"}, env(map[string]string{"POD_CPUS": value}), m)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
}

func TestReservedMemoryLeavesSomething(t *testing.T) {
	_, err := slurmdArgs([]string{"-Z"}, env(map[string]string{"POD_MEMORY": "500", "POD_MEMORY_RESERVED": "500"}), machine{cores: sixteen("0-15")})
	if err == nil || !strings.Contains(err.Error(), "leaves jobs nothing of POD_MEMORY, 500 MiB") {
		t.Errorf("got %v", err)
	}
}

func TestPlan(t *testing.T) {
	commands := func(role string, values map[string]string, present string, args ...string) string {
		t.Helper()
		got, err := plan(role, args, surroundings{getenv: env(values), exists: func(p string) bool { return strings.Contains(present, p) }, machine: machine{cores: sixteen("0-15")}})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, p := range got.processes {
			out = append(out, strings.Join(p.args, "|"))
		}
		return strings.Join(out, "; ")
	}
	for _, c := range []struct{ got, want string }{
		{commands("slurmctld", nil, "", "-vv"), "slurmctld|--systemd|-vv"},
		{commands("slurmctld", map[string]string{"SLURMCTLD_OPTIONS": "-i -v"}, "", "-f", "/x"), "slurmctld|--systemd|-i|-v|-f|/x"},
		{commands("slurmd", nil, "", "-Z", "--conf", "'Features=a b'"), "slurmd|--systemd|-Z|--conf|Features=a"},
		{commands("slurmd", nil, "/usr/sbin/sshd /usr/sbin/sssd"), "slurmd|--systemd"},
		{commands("slurmd", nil, "/usr/sbin/sshd /etc/ssh/sshd_config"), "slurmd|--systemd; /usr/sbin/sshd|-D|-e"},
		{commands("slurmd", map[string]string{"SSHD_OPTIONS": "-p 2222"}, "/usr/sbin/sshd /etc/ssh/sshd_config /usr/sbin/sssd /etc/sssd/sssd.conf"),
			"slurmd|--systemd; /usr/sbin/sssd|-i|--logger=stderr; /usr/sbin/sshd|-D|-e|-p|2222"},
		{commands("slurmdbd", nil, ""), "slurmdbd|-D"},
		{commands("slurmrestd", nil, "", "-s", "openapi/slurmctld", "0.0.0.0:6820"), "slurmrestd|-s|openapi/slurmctld|0.0.0.0:6820"},
		{commands("login", map[string]string{"SACKD_OPTIONS": "--conf-server ctl:6817"}, ""), "sackd|-D|--conf-server|ctl:6817; /usr/sbin/sshd|-D|-e"},
		{commands("login", nil, "/usr/sbin/sssd /etc/sssd/sssd.conf"), "sackd|-D; /usr/sbin/sshd|-D|-e; /usr/sbin/sssd|-i|--logger=stderr"},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
	if _, err := plan("slurm", nil, surroundings{}); err == nil || !strings.Contains(err.Error(), "slurmctld, slurmd,") {
		t.Errorf("an unknown role gave %v", err)
	}
}

func TestBootstrapSQL(t *testing.T) {
	read := func(path string) ([]byte, error) {
		if path == "/secret" {
			return []byte("it's\\\n"), nil
		}
		return []byte("-- " + path), nil
	}
	sql, err := bootstrapSQL(env(map[string]string{
		"MARIADB_DATABASE": "a`b", "MARIADB_USER": "slurm", "MARIADB_PASSWORD_FILE": "/secret",
	}), read)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"create database `a``b`;\n", `create user 'slurm'@'%' identified by 'it\'s\\';` + "\n", "grant all privileges on `a``b`.* to 'slurm'@'%';\n"} {
		if !strings.Contains(string(sql), want) {
			t.Errorf("no %q in\n%s", want, sql)
		}
	}
	if _, err := bootstrapSQL(env(map[string]string{"MARIADB_USER": "slurm"}), read); err == nil {
		t.Error("a user without a password was taken")
	}
}
