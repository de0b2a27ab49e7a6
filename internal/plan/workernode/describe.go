package workernode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// Mark is what the operator writes to a Slurm node, to tell which pod it is.
type Mark struct {
	Namespace  string `json:"namespace"`
	PodName    string `json:"podName"`
	Node       string `json:"node"`
	NodeSet    string `json:"nodeSetName"`
	NodeSetUID string `json:"nodeSetUID"`
}

// MarkOf reads the mark of a Slurm node; ok is false where there is none.
func MarkOf(n slurm.Node) (m Mark, ok bool) {
	for _, text := range []string{n.Comment, n.Extra} {
		if m, ok = parseMark(text); ok {
			return m, true
		}
	}
	return Mark{}, false
}

func parseMark(text string) (m Mark, ok bool) {
	err := json.Unmarshal([]byte(text), &m)
	return m, err == nil && m.PodName != "" && m.NodeSet != ""
}

// describe tells Slurm what Kubernetes knows, once the worker is up.
func (p *planner) describe() {
	if !p.Known || !p.Registered || !Ready(p.Pod) {
		return
	}
	u := slurm.NodeUpdate{}
	var why []string
	if p.mark(&u) {
		why = append(why, "its pod is "+p.Pod.Namespace+"/"+p.Pod.Name+" on "+p.Pod.Spec.NodeName)
	}
	if p.features(&u) {
		why = append(why, "its features are "+strings.Join(u.Features, ","))
	}
	if len(why) > 0 {
		p.plan.Update = &Update{Action: Describe, Change: u, Why: strings.Join(why, "; ")}
		return
	}
	// Alone in a write of its own: Slurm refuses all of a write that names an unknown switch.
	if want, known := p.topology(); known && !sameTopology(want, p.Slurm.Topology) && (want != "" || p.Pod.Annotations[v1beta1.AnnotationTopology] != "") {
		p.plan.Update = &Update{Action: Describe, Change: slurm.NodeUpdate{Topology: &want}, Why: "its topology is " + want,
			Blame: fmt.Sprintf("annotation %s of Kubernetes node %s is %q, which Slurm refuses for node %s: correct it, or add its switches and blocks to topology.yaml",
				v1beta1.AnnotationTopology, p.Pod.Spec.NodeName, want, p.Name)}
	}
}

// mark writes the comment, or the extra field where somebody else uses the comment.
func (p *planner) mark(u *slurm.NodeUpdate) bool {
	if p.Pod.Spec.NodeName == "" {
		return false
	}
	text, err := json.Marshal(Mark{p.Pod.Namespace, p.Pod.Name, p.Pod.Spec.NodeName, p.NodeSet.Name, string(p.NodeSet.UID)})
	if err != nil {
		return false // strings only: can't be
	}
	want := string(text)
	if p.Slurm.Comment == want || p.Slurm.Extra == want {
		return false
	}
	if _, ours := parseMark(p.Slurm.Comment); ours || p.Slurm.Comment == "" {
		u.Comment = &want
		return true
	}
	if _, ours := parseMark(p.Slurm.Extra); ours || p.Slurm.Extra == "" {
		u.Extra = &want
		return true
	}
	return false
}

// features replaces what the operator has set, and leaves all others.
func (p *planner) features(u *slurm.NodeUpdate) bool {
	if p.Kube == nil {
		return false
	}
	var want []string
	for f := range strings.SplitSeq(p.Kube.Annotations[v1beta1.AnnotationFeatures], ",") {
		if f = strings.TrimSpace(f); validFeature(f) && !slices.Contains(want, v1beta1.FeaturePrefix+f) {
			want = append(want, v1beta1.FeaturePrefix+f)
		}
	}
	slices.Sort(want)
	available, active := withFeatures(p.Slurm.Features, want), withFeatures(p.Slurm.ActiveFeatures, want)
	if slices.Equal(available, p.Slurm.Features) && slices.Equal(active, p.Slurm.ActiveFeatures) || len(available) == 0 {
		return false
	}
	u.Features, u.ActiveFeatures = available, active
	return true
}

// validFeature refuses what would change the meaning of the list that Slurm reads.
func validFeature(f string) bool {
	return f != "" && strings.IndexFunc(f, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`,"'&|*[]()`, r) }) < 0
}

func withFeatures(have, want []string) []string {
	var kept, ours []string
	for _, f := range have {
		if strings.HasPrefix(f, v1beta1.FeaturePrefix) {
			ours = append(ours, f)
		} else {
			kept = append(kept, f)
		}
	}
	if slices.Equal(slices.Sorted(slices.Values(ours)), want) {
		return have
	}
	return append(kept, want...)
}
