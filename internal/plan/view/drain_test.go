package view

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

func TestDrainAndUndrain(t *testing.T) {
	drained := func(f *Facts, at int, reason string) {
		f.Slurm.Nodes[at].States = slurm.StatesOf(append(f.Slurm.Nodes[at].States, slurm.NodeDrain)...)
		f.Slurm.Nodes[at].Reason, f.Slurm.Nodes[at].ReasonUser = reason, "root"
	}
	cordoned := func(f *Facts, at int, by string) {
		f.Kubernetes.Nodes[at].Spec.Unschedulable = true
		if by != "" {
			f.Kubernetes.Nodes[at].Annotations = map[string]string{v1beta1.AnnotationDrainedBy: by, v1beta1.AnnotationNodeCordonReason: "fan"}
		}
	}
	cases := map[string]struct {
		make   func(f *Facts)
		node   string
		undo   bool
		reason string
		want   []string
		notes  []string
		err    string
	}{
		"an external node": {node: "k1", reason: "fan", want: []string{
			`Slurm node k1: drained, with the reason "slinky: fan (bob)"`, "Kubernetes node k1: cordoned"}},
		"a Kubernetes node takes its worker along": {node: "k3", reason: "fan", want: []string{
			`Slurm node w-0: drained, with the reason "slinky: fan (bob)"`, "Kubernetes node k3: cordoned"}},
		"a worker alone":         {node: "w-0", reason: "fan", want: []string{`Slurm node w-0: drained, with the reason "slinky: fan (bob)"`}},
		"a node of Slurm alone":  {node: "metal", reason: "fan", want: []string{`Slurm node metal: drained, with the reason "slinky: fan (bob)"`}},
		"again changes nothing":  {node: "k1", reason: "fan", make: func(f *Facts) { drained(f, 0, "slinky: fan (bob)"); cordoned(f, 0, "bob") }},
		"another reason":         {node: "metal", reason: "disk", make: func(f *Facts) { drained(f, 3, "slinky: fan (bob)") }, want: []string{`Slurm node metal: drained, with the reason "slinky: disk (bob)"`}},
		"control characters":     {node: "metal", reason: "a\n\x1b[31mb", want: []string{`Slurm node metal: drained, with the reason "slinky: a ·[31mb (bob)"`}},
		"no reason":              {node: "k1", reason: " ", err: "say why with --reason"},
		"no such node":           {node: "nope", reason: "fan", err: "neither Kubernetes nor Slurm has a node"},
		"others' drains stay":    {node: "k1", reason: "fan", make: func(f *Facts) { drained(f, 0, "bad disk"); cordoned(f, 0, "") }, notes: []string{"Slurm node k1 stays as it is", "Kubernetes node k1 stays as it is: somebody else"}},
		"the bridge's stays too": {node: "k1", reason: "fan", make: func(f *Facts) { drained(f, 0, "slurm-bridge: its kubelet is not ready") }, want: []string{"Kubernetes node k1: cordoned"}, notes: []string{"Slurm node k1 stays"}},

		"undrain what drain did":                      {undo: true, node: "k1", make: func(f *Facts) { drained(f, 0, "slinky: fan (ann)"); cordoned(f, 0, "ann") }, want: []string{"Slurm node k1: the drain is lifted", "Kubernetes node k1: uncordoned"}},
		"undrain never lifts another's":               {undo: true, node: "k1", make: func(f *Facts) { drained(f, 0, "bad disk"); cordoned(f, 0, "") }, notes: []string{"as slinky didn't do it: drained in Slurm by root: bad disk", "stays cordoned"}},
		"undrain leaves it to the bridge":             {undo: true, node: "k1", make: func(f *Facts) { drained(f, 0, "slurm-bridge: it is cordoned in Kubernetes"); cordoned(f, 0, "ann") }, want: []string{"Kubernetes node k1: uncordoned"}, notes: []string{"the bridge lifts that itself"}},
		"undrain of a node that is drained by nobody": {undo: true, node: "k1"},
		"a reason that only looks like ours":          {undo: true, node: "metal", make: func(f *Facts) { drained(f, 3, "not slinky: x") }, notes: []string{"as slinky didn't do it"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := world()
			if tc.make != nil {
				tc.make(&f)
			}
			plan, err := New(f).Drain(tc.node, tc.reason, "bob")
			if tc.undo {
				plan, err = New(f).Undrain(tc.node)
			}
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("the error is %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range plan.Steps() {
				got = append(got, s.Text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("want -, got +\n%s", diff)
			}
			if len(plan.Notes) != len(tc.notes) {
				t.Fatalf("notes are %q", plan.Notes)
			}
			for i, n := range tc.notes {
				if !strings.Contains(plan.Notes[i], n) {
					t.Errorf("note %q has no %q", plan.Notes[i], n)
				}
			}
		})
	}
}

func TestWhyNodeTellsWhoLiftsIt(t *testing.T) {
	for reason, want := range map[string]string{
		"slinky: fan (ann)":                          "lift it with: slinky undrain k1",
		"slurm-bridge: it is cordoned in Kubernetes": "the bridge lifts its drain",
		"slurm-operator: pod x is to be removed":     "the operator lifts its drain",
		"bad disk":                                   "ask root, who drained it; to lift it in their place: scontrol update nodename=k1 state=undrain",
	} {
		f := world()
		n := &f.Slurm.Nodes[0]
		n.States, n.Reason, n.ReasonUser = slurm.StatesOf("IDLE", "DRAIN", "EXTERNAL"), reason, "root"
		m := New(f)
		found, err := m.Find("ml", "node/k1")
		if err != nil {
			t.Fatal(err)
		}
		if a := m.WhyNode(*found.Node); len(a.Do) != 1 || !strings.Contains(a.Do[0], want) || !strings.Contains(a.Summary, "takes no new work") {
			t.Errorf("%q: %s %q", reason, a.Summary, a.Do)
		}
	}
}
