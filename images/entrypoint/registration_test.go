package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyClearAnswersMakeSlurmdRegister(t *testing.T) {
	const k, s, u = known, silent, unknown
	for name, c := range map[string]struct {
		answers []answer
		want    []int // after which of them slurmd registers
	}{
		"a node that is known":                 {[]answer{k, k, k, k}, nil},
		"slurmctld away for long":              {[]answer{k, s, s, s, s, s, s, s}, nil},
		"a single answer of a slurmctld":       {[]answer{k, u, k, u, u, k}, nil},
		"an unsteady slurmctld":                {[]answer{u, u, s, u, u, s, u}, nil},
		"a lost node":                          {[]answer{k, u, u, u, k, k}, []int{3}},
		"a node that was never known":          {[]answer{u, u, u, k}, []int{2}},
		"lost, and lost again":                 {[]answer{u, u, u, k, u, u, u}, []int{2, 6}},
		"a registration that is refused":       {[]answer{u, u, u, u, u, u}, []int{2, 5}},
		"registered while slurmctld goes away": {[]answer{u, u, u, s, s, k}, []int{2}},
	} {
		r := registration{often: time.Minute, soon: time.Second}
		var got []int
		for i, a := range c.answers {
			if r.hear(a) {
				got = append(got, i)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A worker asks seldom, sooner while it isn't sure, and ever more seldom where registering doesn't help.
func TestPauseBetweenQuestions(t *testing.T) {
	r := registration{often: time.Minute, soon: 10 * time.Second}
	within := func(when string, least, most time.Duration) {
		t.Helper()
		if low, high := r.pause(0), r.pause(1); low != least || high != most {
			t.Errorf("%s: the pause is %s to %s, want %s to %s", when, low, high, least, most)
		}
	}
	within("at first", time.Minute, 2*time.Minute)
	r.hear(unknown)
	within("after a first no", 10*time.Second, 20*time.Second)
	r.hear(unknown)
	if !r.hear(unknown) {
		t.Fatal("slurmd doesn't register")
	}
	within("after registering", time.Minute, 2*time.Minute)
	for range 3 {
		r.hear(unknown)
	}
	within("after registering again", 2*time.Minute, 4*time.Minute)
	for range 30 {
		r.hear(unknown)
	}
	within("at last", 32*time.Minute, 64*time.Minute)
	r.hear(known)
	within("once it helped", time.Minute, 2*time.Minute)
}

// The words are scontrol's of Slurm 26.05; a test with the real one shows that they still are.
func TestReadAnswer(t *testing.T) {
	for text, want := range map[string]answer{
		"NodeName=cpu-1 Arch=x86_64 CoresPerSocket=4 State=IDLE+DYNAMIC_NORM\n": known,
		"Node cpu-1 not found\n":                     unknown,
		"warning: something\nNode cpu-1 not found\n": unknown,
		"Node cpu-11 not found\n":                    silent,
		"NodeName=cpu-11 Arch=x86_64\n":              silent,
		"slurm_load_node error: Unable to contact slurm controller (connect failure)\n": silent,
		"scontrol: error: Socket timed out on send/recv operation\n":                    silent,
		"scontrol: fatal: Could not establish a configuration source\n":                 silent,
		"": silent,
	} {
		if got := readAnswer("cpu-1", text); got != want {
			t.Errorf("%q is read as %d, want %d", text, got, want)
		}
	}
}

func TestNodeName(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"static":        {[]string{"-N", "n1"}, ""},
		"named":         {[]string{"-Z", "-N", "n1"}, "n1"},
		"named at once": {[]string{"-Nn1", "-Z"}, "n1"},
	} {
		if got, err := nodeName(c.args); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
	if got, err := nodeName([]string{"-Z"}); err != nil || got == "" {
		t.Errorf("by host name: got %q, %v", got, err)
	}
}
