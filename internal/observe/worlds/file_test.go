package worlds

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/test/scene"
)

// What is written is read again, byte by byte where planners compare texts, and the plans are the same.
func TestRoundTrip(t *testing.T) {
	f := scene.Rolling()
	f.Operator.NodeSets[0].Spec.ExtraConf = "Weight=2\tFeatures=\"a\u200bb\"\n"
	f.Bridge.Groups.Namespaces = map[string]map[string]string{"llm": {"slurmjob-default.slinky.slurm.net/account": "a\nb"}}
	f.Bridge.Groups.PodGroups.Unreadable = map[string]string{"llm/x": "what it says"}
	f.Unread = view.Parts{{What: view.PartSssd, In: "slurm", Error: "you may not", Forbidden: true}, {What: view.PartSets, Only: "llm", Error: "refused"}}
	var file, again bytes.Buffer
	if err := Write(&file, f); err != nil {
		t.Fatal(err)
	}
	text := bytes.Clone(file.Bytes())
	got, err := Load(&file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b types.UID) bool { return a == b })); diff != "" {
		t.Errorf("written -, read +\n%s", diff)
	}
	if diff := cmp.Diff(view.New(f).Plans(), view.New(got).Plans()); diff != "" {
		t.Errorf("plans of what was written -, of what was read +\n%s", diff)
	}
	if err := Write(&again, got); err != nil || !bytes.Equal(text, again.Bytes()) {
		t.Errorf("it is written in other bytes again (%v)", err)
	}
}

func TestNoSnapshot(t *testing.T) {
	for text, want := range map[string]string{
		`{"Kind":"slinky-snapshot","Version":2}`: "the snapshot has version 2, and this slinky reads 1: use the slinky that wrote it",
		`{"Kind":"other","Version":1}`:           "this is no snapshot: slinky snapshot FILE writes one",
		`hello`:                                  "read the snapshot: invalid character",
		"\x1f\x8bbad":                            "unpack the snapshot: ",
	} {
		if _, err := Load(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Without a salt nothing can be redacted: what only planners need is left out, and that is said.
func TestNoSalt(t *testing.T) {
	var f view.Facts
	Sources{}.planners(t.Context(), Want{Planners: true}, &f, operatorKinds{})
	if f.Bridge != nil || f.Operator != nil || len(f.NotInFile()) != 2 {
		t.Errorf("bridge %v, operator %v, unread %v", f.Bridge, f.Operator, f.NotInFile())
	}
}
