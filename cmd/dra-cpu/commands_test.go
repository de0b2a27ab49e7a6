package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/internal/dracpu"
	"github.com/slinky-hpc/slinky/internal/dracpu/report"
)

func TestCommand(t *testing.T) {
	for line, want := range map[string]string{
		"/dracpu":                             "",
		"/dracpu --v=4":                       "",
		"/dracpu gatherinfo --stdout":         "gatherinfo --stdout",
		"/dracpu introspect metrics":          "introspect metrics",
		"/dracpu-gatherinfo --output-dir /x":  "gatherinfo --output-dir /x",
		"bin/dracpu-gatherinfo":               "gatherinfo",
		"/dracpu --config=/c.yaml gatherinfo": "", // refused when the flags are read
	} {
		name, args := command(strings.Fields(line))
		if got := strings.TrimSpace(name + " " + strings.Join(args, " ")); name != "" && got != want || name == "" && want != "" {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// Help names all ways to call the program.
func TestUsage(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-h"}, &out, node{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"dracpu [flags]", "dracpu gatherinfo", "dracpu introspect metrics", "dracpu-gatherinfo", "-reserved-cpus"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q:\n%s", want, out.String())
		}
	}
}

// CPU check 47.
func TestIntrospectMetrics(t *testing.T) {
	var out bytes.Buffer
	if err := introspect(t.Context(), []string{"metrics"}, &out, node{}); err != nil {
		t.Fatal(err)
	}
	var metrics []dracpu.Metric
	if err := json.Unmarshal(out.Bytes(), &metrics); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range metrics {
		got[m.Name] = m.Type + " " + strings.Join(m.Labels, ",")
	}
	for name, want := range map[string]string{ // the published ones
		"dra_cpu_allocated_cpus": "gauge ", "dra_cpu_available_cpus": "gauge ", "dra_cpu_reserved_cpus": "gauge ", "dra_cpu_resource_claims_active": "gauge ",
		"dra_cpu_prepare_claims_total": "counter result", "dra_cpu_unprepare_claims_total": "counter result",
		"dra_cpu_prepare_claim_duration_seconds": "histogram ", "dra_cpu_claim_allocated_cpus": "histogram ", "dra_cpu_nri_hook_duration_seconds": "histogram hook",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, args := range [][]string{nil, {"slices"}, {"metrics", "all"}} {
		if err := introspect(t.Context(), args, io.Discard, node{}); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// machine is a root with a /proc in which the driver runs, and a /sys of two CPUs.
func machine(t *testing.T, line ...string) string {
	t.Helper()
	dir := t.TempDir()
	process := filepath.Join(dir, "proc", "4321")
	files := map[string]string{
		"proc/4321/comm": "dracpu\n", "proc/4321/cmdline": strings.Join(line, "\x00") + "\x00",
		"proc/17/comm": "dracpu\n", "proc/17/cmdline": "/dracpu\x00gatherinfo\x00--stdout\x00", // somebody else's report
		"proc/18/comm": "containerd\n", "proc/sys/kernel/osrelease": "6.1.0\n",
		"root/etc/dracpu/config.yaml": "groupBy: socket\n", "sys/devices/system/cpu/online": "0-1\n",
	}
	for id := range 2 {
		at := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", id)
		files[at+"topology/physical_package_id"], files[at+"topology/core_id"], files[at+"topology/core_cpus_list"] = "0\n", "0\n", "0-1\n"
		files[at+"node0/cpulist"] = "0-1\n"
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"root", "cwd"} {
		if err := os.Symlink(filepath.Join(dir, "root"), filepath.Join(process, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A driver that doesn't answer: the report has the flags and files of its process, and
// says what is missing.
func TestGatherInfo(t *testing.T) {
	dir := machine(t, "/dracpu", "--v=4", "--config=/etc/dracpu/config.yaml", "--reserved-cpus=1")
	n := node{root: dir, getenv: func(string) string { return "" }, now: time.Unix(1e9, 0)}
	var out bytes.Buffer
	if err := gatherInfo(t.Context(), []string{"--stdout"}, &out, io.Discard, n); err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(out.String(), "---\n")
	var r report.Report
	if err := yaml.UnmarshalStrict([]byte(text), &r); err != nil || !ok {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	if r.DriverConfig.GroupBy != "socket" || r.DriverConfig.ReservedCPUs != "1" || r.LayoutVersion != "v1" || r.ToolVersion.GoVersion == "" || r.Versions.Kernel != "6.1.0" {
		t.Errorf("got %+v", r)
	}
	if top := r.CPUDetails.Topology; top.NumCPUs != 2 || top.NumCores != 1 || top.NumNUMANodes != 1 || r.CPUDetails.CPUs[0].Sibling != 1 {
		t.Errorf("got %+v", r.CPUDetails)
	}
	missing := strings.Join(r.Missing, "\n")
	for _, want := range []string{"what the driver knows: ", "on disk: no checkpoint", "the API: "} {
		if !strings.Contains(missing, want) {
			t.Errorf("it doesn't say that it lacks %q:\n%s", want, missing)
		}
	}
}

// The file is new, in the folder that was named, and its owner's alone.
func TestGatherInfoFile(t *testing.T) {
	n := node{root: machine(t, "/dracpu"), getenv: func(string) string { return "" }, now: time.Unix(1e9, 0)}
	dir := t.TempDir()
	var messages bytes.Buffer
	if err := gatherInfo(t.Context(), []string{"--output-dir", dir}, io.Discard, &messages, n); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, fmt.Sprintf("dracpu-gatherinfo-20010909-014640-%d.yaml", os.Getpid()))
	info, err := os.Stat(want)
	if err != nil || info.Mode() != 0o600 || !strings.Contains(messages.String(), want) {
		t.Errorf("%v, %v, and it says %q", info, err, messages.String())
	}
	if err := gatherInfo(t.Context(), []string{"--output-dir", dir}, io.Discard, io.Discard, n); err == nil {
		t.Error("a file that was there is written over")
	}
}

func TestGatherInfoRefuses(t *testing.T) {
	empty := t.TempDir()
	if err := os.Mkdir(filepath.Join(empty, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--stdout --output-dir /tmp": "exclude each other",
		"all":                        "takes no arguments",
		"--all":                      "not defined",
		"--stdout":                   "no process named dracpu",
	} {
		err := gatherInfo(t.Context(), strings.Fields(args), io.Discard, io.Discard, node{root: empty})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", args, err)
		}
	}
	if _, err := parse([]string{"--v=2", "gatherinfo"}, io.Discard, os.ReadFile); err == nil || !strings.Contains(err.Error(), "root flags cannot be combined with subcommands") {
		t.Errorf("flags before a subcommand: %v", err)
	}
	if !slices.Contains(subcommands(), "introspect") {
		t.Error("introspect is no subcommand")
	}
}
