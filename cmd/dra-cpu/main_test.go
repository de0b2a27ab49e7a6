package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// What the published chart passes, with a configuration file: flags that are set
// count more than the file, also with the default's value.
// CPU check 62.
func TestFlagsAndFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("groupBy: socket\nreservedCPUs: '0'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"--v=4", "--bind-address=:9090", "--expose-pcie-roots", "--config=" + file, "-group-by=numanode"}, io.Discard, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	if o.config.GroupBy != cpuset.ByNUMANode || o.config.ReservedCPUs != "0" || o.address != ":9090" || !o.pcieRoots || !slices.Equal(o.deprecated, []string{"group-by"}) {
		t.Errorf("got %+v", o)
	}
}

func TestFlagsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("groupby: socket\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args, want string
		usage      bool
	}{
		{"--group-by=rack", "numanode", true},
		{"--cpu-device-mode=both", "individual", true},
		{"--no-such", "no-such", true},
		{"gather", `no command "gather"`, false},
		{"--expose-pcie-roots=maybe", "invalid boolean", true},
		{"--config=" + file, "groupby is spelt groupBy", false},
		{"--config=/none", "no such file", false},
	} {
		_, err := parse([]string{x.args}, io.Discard, os.ReadFile)
		if err == nil || !strings.Contains(err.Error(), x.want) || errors.As(err, new(usageError)) != x.usage {
			t.Errorf("%s: got %v", x.args, err)
		}
	}
}

// CPU check 30.
func TestNodeName(t *testing.T) {
	env := func(name string) func(string) string { return func(string) string { return name } }
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ set, env, want string }{{"a", "b", "a"}, {"", "b", "b"}, {"", "", strings.ToLower(host)}} {
		if got, err := nodeName(x.set, env(x.env)); err != nil || got != x.want {
			t.Errorf("%q, %q: got %q, %v", x.set, x.env, got, err)
		}
	}
}
