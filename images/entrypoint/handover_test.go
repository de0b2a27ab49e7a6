package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const twoControllers = `# comment
ClusterName=c
SlurmctldPort=6900-6903
SlurmctldHost=ctl-0(ctl-0.internal.ns)
SlurmctldHost=ctl-1(ctl-1.internal.ns)
`

func TestControllers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slurm.conf")
	for name, c := range map[string]struct {
		text string
		want []peer
	}{
		"two":      {twoControllers, []peer{{"ctl-0", "ctl-0.internal.ns:6900"}, {"ctl-1", "ctl-1.internal.ns:6900"}}},
		"defaults": {"slurmctldhost = head # here\n", []peer{{"head", "head:6817"}}},
		"none":     {"ClusterName=c\n", nil},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := controllers(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(peer{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// pair returns the handovers of two controllers with one folder, and the first one's log; how tells how each stands.
func pair(t *testing.T, how map[string]standing) (first, second *handover, log *strings.Builder) {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(conf, []byte(twoControllers), 0o600); err != nil {
		t.Fatal(err)
	}
	of := func(host string, log io.Writer) *handover {
		return &handover{dir: filepath.Join(dir, "handover"), conf: conf, host: host, log: log, patience: time.Minute, state: func(address string) standing {
			name, _, _ := strings.Cut(address, ".")
			return how[name]
		}}
	}
	log = &strings.Builder{}
	return of("ctl-0", log), of("ctl-1", io.Discard), log
}

// taken runs take beside the test and returns what it reports.
func taken(h *handover, signals <-chan os.Signal) <-chan bool {
	done := make(chan bool, 1)
	go func() { done <- h.take(signals) }()
	return done
}

func TestFirstControllerWaitsUntilTheOtherHasEnded(t *testing.T) {
	first, second, _ := pair(t, map[string]standing{"ctl-1": inControl})
	done := taken(first, nil)
	until(t, "the one in control is asked", func(context.Context) error {
		if !second.look() {
			return errors.New("it isn't")
		}
		return nil
	})
	if second.look() {
		t.Error("it is told to end twice")
	}
	select {
	case <-done:
		t.Fatal("the first one starts while the other's slurmctld still runs")
	default:
	}
	second.ended()
	if !<-done {
		t.Error("the first one doesn't start")
	}
	again := *second
	again.pending = ""
	if again.look() {
		t.Error("started again, it is told to end by the old question")
	}
}

// Measured: a slurmctld that has just taken control says for a moment that it isn't ready.
func TestOneThatIsUnreadyForAMomentIsInControl(t *testing.T) {
	h, _, _ := pair(t, nil)
	answers := []standing{standby, noAnswer, standby, inControl}
	h.state = func(string) standing {
		a := answers[0]
		answers = answers[1:]
		return a
	}
	if got := h.standing(1, "ctl-1"); got != inControl {
		t.Errorf("it counts as %d", got)
	}
}

func TestMarkOfTheOneInControl(t *testing.T) {
	for name, c := range map[string]struct {
		mark   string
		answer standing
		want   standing
	}{
		"its own":                {"\x00\x00\x00\x00\x6b\x0d\x6a\x93\x00\x00\x00\x00\x00\x00\x00\x01", standby, inControl},
		"its own, but it's away": {"\x00\x00\x00\x00\x6b\x0d\x6a\x93\x00\x00\x00\x00\x00\x00\x00\x01", noAnswer, noAnswer},
		"another's":              {"\x00\x00\x00\x00\x6b\x0d\x6a\x93\x00\x00\x00\x00\x00\x00\x00\x00", standby, standby},
		"none":                   {"", standby, standby},
	} {
		h, _, _ := pair(t, map[string]standing{"ctl-1": c.answer})
		if err := os.WriteFile(filepath.Join(filepath.Dir(h.dir), "heartbeat"), []byte(c.mark), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := h.standing(1, "ctl-1.x"); got != c.want {
			t.Errorf("%s: it counts as %d, want %d", name, got, c.want)
		}
	}
}

func TestNobodyIsAskedInVain(t *testing.T) {
	for name, c := range map[string]struct {
		host string
		how  map[string]standing
	}{
		"the other stands by":        {"ctl-0", map[string]standing{"ctl-1": standby}},
		"the other is away":          {"ctl-0", map[string]standing{}},
		"one that isn't the first":   {"ctl-1", map[string]standing{"ctl-0": inControl}},
		"one that slurm.conf hasn't": {"ctl-2", map[string]standing{"ctl-1": inControl}},
	} {
		h, _, _ := pair(t, c.how)
		h.host = c.host
		h.patience = 0
		if !h.take(nil) {
			t.Errorf("%s: slurmctld doesn't start", name)
		}
		if _, err := os.Stat(h.dir); err == nil {
			t.Errorf("%s: somebody is asked", name)
		}
	}
}

// A question of a moment ago: its slurmctld is a standby by now, so it need not end.
func TestStandbyAnswersAtOnce(t *testing.T) {
	how := map[string]standing{"ctl-1": inControl}
	first, second, _ := pair(t, how)
	done := taken(first, nil)
	second.state = func(string) standing { return standby }
	until(t, "the first one has its answer", func(context.Context) error {
		if second.look() {
			t.Fatal("a standby ends")
		}
		select {
		case ok := <-done:
			if !ok {
				t.Error("the first one doesn't start")
			}
			return nil
		default:
			return errors.New("it waits")
		}
	})
}

// One that hangs may be in control: that it doesn't answer is no proof of the contrary.
func TestSlurmctldWithoutAnswerEndsToo(t *testing.T) {
	first, second, _ := pair(t, nil)
	if err := first.write("ask-ctl-1", "q"); err != nil {
		t.Fatal(err)
	}
	if !second.look() {
		t.Error("it goes on")
	}
}

func TestWithoutAnswerSlurmctldStartsAllTheSame(t *testing.T) {
	first, second, log := pair(t, map[string]standing{"ctl-1": inControl})
	first.patience = 0
	if !first.take(nil) {
		t.Error("slurmctld doesn't start")
	}
	if !strings.Contains(log.String(), "ctl-1 hasn't given control back") {
		t.Errorf("the log is %q", log)
	}
	if second.look() {
		t.Error("the question is still there")
	}
}

func TestContainerThatIsStoppedWhileItWaitsEnds(t *testing.T) {
	first, _, _ := pair(t, map[string]standing{"ctl-1": inControl})
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGHUP
	signals <- syscall.SIGTERM
	if first.take(signals) {
		t.Error("slurmctld starts")
	}
}

func TestHandoverThatCannotWriteDoesNoHarm(t *testing.T) {
	first, _, log := pair(t, map[string]standing{"ctl-1": inControl})
	first.dir = filepath.Join(first.conf, "below-a-file")
	if !first.take(nil) || !strings.Contains(log.String(), "can't be asked") {
		t.Errorf("slurmctld doesn't start, or nobody is told: %q", log)
	}
	var none *handover
	none.ended()
	if none.look() {
		t.Error("a slurmctld that is alone ends")
	}
}
