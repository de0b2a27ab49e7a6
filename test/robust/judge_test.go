package robust

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// nativeName is what the jobs of Slurm's own users are called.
	nativeName = "native"
	// mends is how long something may be seen that the bridge has to mend, while nothing
	// is killed or frozen: a lost job is looked for every 5 s and must be refused twice (15 s), after
	// failures a controller pauses for 10 s at most, and a pod takes 2 s to end. The rest is for a slow machine.
	mends = 30 * time.Second
	// forgets is how long after a slurmctld was killed a pod may still be bound by what it
	// had said before: what is known of jobs is read each half second.
	forgets = 2 * time.Second
	// comesBack is how long a slurmctld that is neither killed nor frozen may give no answer: it was
	// just started, or the machine is busy.
	comesBack = 20 * time.Second
)

// span is the time of a fault. to is zero while it lasts.
type span struct {
	daemon   string
	killed   bool
	from, to time.Time
}

func (s span) String() string {
	what := "frozen"
	if s.killed {
		what = "killed"
	}
	return s.daemon + " " + what
}

// judge finds what may not be in a row of pictures. It has no clock: it is told of the times.
type judge struct {
	faults   []span
	mistakes map[string]bool

	last time.Time
	// calm is how long nothing was killed or frozen, up to the last picture.
	calm time.Duration
	// endedAt is what calm was when a fault ended, by its index.
	endedAt map[int]time.Duration
	bound   map[types.UID]binding
	// since is what calm was when something was seen first that must be mended, and worst the longest by kind.
	since map[string]time.Duration
	worst map[string]time.Duration
	// owner is whom each job that was ever seen is for; ended is how Slurm's own jobs were seen last.
	owner map[string]seenJob

	began          time.Time
	blindSince     time.Time
	blind, longest time.Duration
	looks, unseen  int
	// natives counts Slurm's own jobs, shared how often one was seen beside a pod.
	natives, shared int
	seen, gangs     map[string]bool
}

// binding is when a pod was seen on its node first.
type binding struct {
	at   time.Time
	calm time.Duration
}

func newJudge() *judge {
	return &judge{
		mistakes: map[string]bool{}, endedAt: map[int]time.Duration{}, bound: map[types.UID]binding{},
		since: map[string]time.Duration{}, worst: map[string]time.Duration{}, owner: map[string]seenJob{},
		seen: map[string]bool{}, gangs: map[string]bool{},
	}
}

func (g *judge) wrong(format string, args ...any) { g.mistakes[fmt.Sprintf(format, args...)] = true }

// see judges one more picture, with all faults up to its time.
func (g *judge) see(p picture, faults []span) {
	g.faults = faults
	g.pass(p.at)
	g.looks++
	bad := map[string]bool{}
	for _, pod := range p.pods {
		if pod.live() {
			if _, known := g.bound[pod.uid]; !known {
				g.bound[pod.uid] = binding{p.at, g.calm}
			}
			g.seen[pod.name] = true
		}
	}
	g.coresOfPods(p.pods)
	g.wholeGangs(p.pods, bad)
	g.sight(p)
	if p.blind {
		// What is known only from Slurm goes on: nobody has seen it mended.
		for key := range g.since {
			if !strings.HasPrefix(key, halfGang) {
				bad[key] = true
			}
		}
	} else {
		g.podsWithJobs(p, bad)
		g.jobsWithPods(p, bad)
	}
	g.lasting(bad)
}

// pass lets time pass: it is calm if no fault was between the last picture and this one.
func (g *judge) pass(now time.Time) {
	calm := !g.last.IsZero()
	for i, f := range g.faults {
		if (f.to.IsZero() || f.to.After(g.last)) && f.from.Before(now) {
			calm = false
		}
		if !f.to.IsZero() {
			if _, known := g.endedAt[i]; !known {
				g.endedAt[i] = g.calm
			}
		}
	}
	if calm {
		g.calm += now.Sub(g.last)
	}
	g.last = now
}

// coresOfPods: no core is two pods', and each pod that is bound says which it has. That holds at each moment.
func (g *judge) coresOfPods(pods []seenPod) {
	taken := map[string]seenPod{}
	for _, p := range pods {
		if !p.live() {
			continue
		}
		if len(p.cores) == 0 || p.job == "" {
			g.wrong("%s runs without a job or without cores", p)
		}
		for _, c := range p.cores {
			key := fmt.Sprintf("%d of %s", c, p.node)
			if other, is := taken[key]; is {
				g.wrong("core %s is given twice: to %s and %s", key, other, p)
			}
			taken[key] = p
		}
	}
}

const (
	halfGang   = "half a gang runs: "
	withoutJob = "a pod runs without its job: "
	otherCores = "a pod runs on cores that its job doesn't have: "
	ofNative   = "a pod runs on cores of Slurm's own job: "
	orphan     = "a job has no pod any more: "
)

// wholeGangs: while one pod of a gang runs, none waits for a node.
func (g *judge) wholeGangs(pods []seenPod, bad map[string]bool) {
	runs, waits := map[string]bool{}, map[string]bool{}
	for _, p := range pods {
		switch {
		case p.group == "":
		case p.live():
			runs[p.group] = true
		case p.node == "" && !p.leaving:
			waits[p.group] = true
		}
	}
	for group := range runs {
		g.gangs[group] = true
		if waits[group] {
			bad[halfGang+group] = true
		}
	}
}

// sight: Slurm can't be seen while slurmctld is killed or frozen, and for a short time else. What
// happened meanwhile is not known, so it may not be much of the run either: finish looks at that.
func (g *judge) sight(p picture) {
	if g.began.IsZero() {
		g.began = p.at
	}
	if !p.blind {
		if !g.blindSince.IsZero() {
			lasted := p.at.Sub(g.blindSince)
			g.blind += lasted
			g.longest = max(g.longest, lasted)
		}
		g.blindSince = time.Time{}
		return
	}
	g.unseen++
	if g.blindSince.IsZero() {
		g.blindSince = p.at
	}
	since := g.blindSince
	for _, f := range g.faults {
		switch {
		case f.daemon != "slurmctld":
		case f.to.IsZero():
			since = p.at
		case f.to.After(since):
			since = f.to
		}
	}
	if p.at.Sub(since) > comesBack {
		g.wrong("nothing was seen of Slurm from %s on for more than %s", since.Format(time.TimeOnly), comesBack)
	}
}

// sawEnough tells whether what was seen can tell of the run.
func (g *judge) sawEnough() bool {
	return len(g.seen) > 0 && len(g.gangs) > 0 && g.natives > 0 && g.shared > 0 && g.blind < g.last.Sub(g.began)/4
}

// podsWithJobs: each pod that runs has its job on its node, with its cores, and
// nobody else has them. A slurmctld that was killed has forgotten its last jobs: then the bridge has to mend it.
func (g *judge) podsWithJobs(p picture, bad map[string]bool) {
	running := map[string]seenJob{}
	var natives []seenJob
	of := map[types.UID]seenJob{}
	for _, j := range p.jobs {
		if !j.runs() {
			continue
		}
		running[j.id] = j
		if j.name == nativeName {
			natives = append(natives, j)
		}
		for _, uid := range j.pods {
			if other, is := of[uid]; is {
				g.wrong("pod %s has the jobs %s and %s at once", uid, other.id, j.id)
			}
			of[uid] = j
		}
	}
	for _, pod := range p.pods {
		if !pod.live() {
			continue
		}
		j, is := running[pod.job]
		has, here := j.cores[pod.node]
		switch {
		case !is || !here || !slices.Contains(j.pods, pod.uid):
			g.mend(bad, withoutJob, pod)
		case !within(pod.cores, has):
			g.mend(bad, otherCores, pod)
		}
		for _, n := range natives {
			theirs, here := n.cores[pod.node]
			if here {
				g.shared++
			}
			if overlap(pod.cores, theirs) {
				g.mend(bad, ofNative, pod)
			}
		}
	}
}

// mend says that something is wrong with a pod: at once, or if it lasts where slurmctld was killed and may have forgotten.
func (g *judge) mend(bad map[string]bool, kind string, pod seenPod) {
	first := g.bound[pod.uid]
	for i, f := range g.faults {
		if f.daemon != "slurmctld" || !f.killed {
			continue
		}
		ended, is := g.endedAt[i]
		if !is || first.at.Before(f.to) || first.calm-ended < forgets {
			bad[kind+pod.name] = true
			return
		}
	}
	g.wrong("%s%s", kind, pod)
}

// jobsWithPods: a job of the bridge has a pod, and nobody ends Slurm's own jobs.
func (g *judge) jobsWithPods(p picture, bad map[string]bool) {
	there := maps.Clone(p.gone)
	if there == nil {
		there = map[types.UID]bool{}
	}
	for _, pod := range p.pods {
		there[pod.uid] = true
	}
	for _, j := range p.jobs {
		if _, known := g.owner[j.sluid]; !known && j.name == nativeName {
			g.natives++
		}
		g.owner[j.sluid] = j
		switch {
		case j.name == nativeName:
			if j.state == "CANCELLED" {
				g.wrong("somebody has cancelled Slurm's own job %s", j.id)
			}
		case len(j.pods) == 0:
			g.wrong("job %s is nobody's", j.id)
		case (j.runs() || j.waits()) && !slices.ContainsFunc(j.pods, func(uid types.UID) bool { return there[uid] }):
			bad[orphan+j.sluid] = true
		}
	}
}

// lasting tells what was not mended in time. Time counts while nothing is killed or frozen.
func (g *judge) lasting(bad map[string]bool) {
	for key := range g.since {
		if !bad[key] {
			delete(g.since, key)
		}
	}
	for key := range bad {
		first, known := g.since[key]
		if !known {
			first = g.calm
			g.since[key] = first
		}
		lasted := g.calm - first
		kind, _, _ := strings.Cut(key, ":")
		g.worst[kind] = max(g.worst[kind], lasted)
		if lasted > mends {
			g.wrong("%s, for more than %s", key, mends)
		}
	}
}

func within(some, all []int) bool {
	return !slices.ContainsFunc(some, func(c int) bool { return !slices.Contains(all, c) })
}

func overlap(a, b []int) bool {
	return slices.ContainsFunc(a, func(c int) bool { return slices.Contains(b, c) })
}
