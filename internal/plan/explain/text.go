package explain

import (
	"fmt"
	"strings"
	"time"
)

// Text is the answer for people, in lines of plain text.
func (a Answer) Text() string {
	var t table
	if a.Pod != "" {
		line := strings.TrimPrefix(a.Pod, "Pod ")
		if a.Workload != "" {
			line += " of " + a.Workload
		}
		t.add("pod", line)
	}
	if a.Job != nil {
		a.jobText(&t)
	}
	if a.Condition != "" && a.Reason == "" && !strings.HasPrefix(a.Summary, a.Condition) {
		t.add("bridge says", a.Condition)
	}
	t.add("reason", a.Reason)
	if a.Block != nil {
		a.blockText(&t)
	}
	if a.Place > 0 {
		t.add("place", fmt.Sprintf("%d of %d in partition %s", a.Place, a.Of, a.Job.Partition))
	}
	a.timeText(&t)
	if a.Outcome != nil {
		t.add("pods ended", a.Outcome.String())
	}
	s := a.Summary + "\n"
	if rows := t.String(); rows != "" {
		s += "\n" + rows
	}
	var do []string
	for _, d := range a.Do {
		if d != "" {
			do = append(do, "  - "+d+"\n")
		}
	}
	if len(do) > 0 {
		s += "\nWhat to do:\n" + strings.Join(do, "")
	}
	return s
}

func (a Answer) jobText(t *table) {
	j := a.Job
	line := fmt.Sprintf("%d %q, %s", j.ID, j.Name, j.State)
	for _, p := range []struct{ name, value string }{{"user", j.User}, {"account", j.Account}, {"QOS", j.QOS}, {"partition", j.Partition}} {
		if p.value != "" {
			line += ", " + p.name + " " + p.value
		}
	}
	t.add("Slurm job", line)
	if a.Pod == "" && len(j.Pods) > 0 {
		t.add("its pods", brief(j.Pods))
	}
	if j.Asks != "" {
		limit := "without a time limit"
		if j.Limit > 0 {
			limit = "for at most " + Span(time.Duration(j.Limit)*time.Minute)
		}
		t.add("asks for", j.Asks+", "+limit)
	}
	t.add("has", j.Nodes)
}

func (a Answer) blockText(t *table) {
	b := a.Block
	if l := b.Limit; l != nil && (l.Value != "" || l.Used != "") {
		line := l.What
		if l.Value != "" {
			line += ", at most " + l.Value
		}
		if l.Used != "" {
			line += ", " + l.Used + " in use"
		}
		t.add("limit", line)
	}
	label := map[string]string{BlockedByTurn: "before it", BlockedByNodes: "has its nodes", BlockedByLimit: "counts there"}[b.How]
	for _, j := range b.Jobs {
		line := fmt.Sprintf("job %d %q", j.Job, j.Name)
		if j.User != "" {
			line += " of " + j.User
		}
		if len(j.Pods) > 0 {
			line += ", pods " + brief(j.Pods)
		}
		if j.Nodes != "" {
			line += ", on " + j.Nodes
			if j.Until.IsZero() {
				line += ", without an end"
			} else {
				line += ", until " + a.at(j.Until)
			}
		}
		t.add(label, line)
	}
	if more := b.Count - len(b.Jobs); more > 0 && len(b.Jobs) > 0 {
		t.add(label, fmt.Sprintf("and %d more", more))
	}
	if len(b.Unusable) > 0 {
		t.add("no jobs on", fmt.Sprintf("%s, of the %d nodes of the partition", brief(b.Unusable), b.Nodes))
	}
}

func (a Answer) timeText(t *table) {
	if a.Job == nil {
		return
	}
	switch a.State {
	case StateWaiting, StateBlocked:
		if !a.Job.Submitted.IsZero() {
			t.add("waits for", Span(a.now.Sub(a.Job.Submitted)))
		}
		switch {
		case !a.Start.IsZero() && a.State == StateWaiting:
			t.add("start", "expected at "+a.at(a.Start))
		case a.State == StateWaiting && a.open:
			t.add("start", "can't be told: what runs before it has no time limit")
		case a.State == StateWaiting && a.Reason != "":
			t.add("start", "Slurm has not planned it yet")
		}
	default:
		if !a.Start.IsZero() {
			t.add("started", a.at(a.Start))
		}
		label := "ends by"
		if a.State == StateEnded {
			label = "ended"
		}
		if !a.End.IsZero() {
			t.add(label, a.at(a.End))
		}
	}
}

// at is a time, and how far away it is.
func (a Answer) at(when time.Time) string {
	s := when.UTC().Format(time.DateTime) + " UTC"
	if d := when.Sub(a.now); d >= 0 {
		return s + ", in " + Span(d)
	}
	return s + ", " + Span(a.now.Sub(when)) + " ago"
}

// table is lines with a label each; a label that repeats is shown once.
type table struct{ rows [][2]string }

func (t *table) add(label, text string) {
	if text != "" {
		t.rows = append(t.rows, [2]string{label, text})
	}
}

func (t *table) String() string {
	var b strings.Builder
	before := ""
	for _, r := range t.rows {
		label := r[0]
		if label == before {
			label = ""
		}
		before = r[0]
		fmt.Fprintf(&b, "  %-14s %s\n", label, r[1])
	}
	return b.String()
}

// Span is a duration for people: "3 s", "12 min", "5 h 10 min", "2 d 4 h".
func Span(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}
