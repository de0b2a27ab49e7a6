package robust

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// at is some seconds after the run began.
func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// aPod runs on cores 0 and 1 of node a in job 7.
func aPod(change func(*seenPod)) seenPod {
	p := seenPod{uid: "u1", name: "p1", node: "a", job: "7", cores: []int{0, 1}}
	if change != nil {
		change(&p)
	}
	return p
}

// itsJob is the job of aPod.
func itsJob(change func(*seenJob)) seenJob {
	j := seenJob{id: "7", sluid: "s7", name: "p1", state: "RUNNING", cores: map[string][]int{"a": {0, 1, 2}}, pods: []types.UID{"u1"}}
	if change != nil {
		change(&j)
	}
	return j
}

func native(change func(*seenJob)) seenJob {
	j := seenJob{id: "9", sluid: "s9", name: nativeName, state: "RUNNING", cores: map[string][]int{"a": {3}}}
	if change != nil {
		change(&j)
	}
	return j
}

// during is the same picture each second from one to another.
func during(from, to float64, p picture) []picture {
	var out []picture
	for s := from; s <= to; s++ {
		p.at = at(s)
		out = append(out, p)
	}
	return out
}

func pods(list ...seenPod) []seenPod { return list }
func jobs(list ...seenJob) []seenJob { return list }

// Each rule is broken once by a made-up row of pictures, and kept by its neighbour.
func TestJudge(t *testing.T) {
	well := picture{pods: pods(aPod(nil)), jobs: jobs(itsJob(nil), native(nil))}
	noJob := picture{pods: pods(aPod(nil)), jobs: jobs(native(nil))}
	others := picture{pods: pods(aPod(nil)), jobs: jobs(itsJob(func(j *seenJob) { j.cores = map[string][]int{"a": {4, 5}} }))}
	taken := picture{pods: pods(aPod(nil)), jobs: jobs(itsJob(nil), native(func(j *seenJob) { j.cores["a"] = []int{1} }))}
	kill := span{daemon: "slurmctld", killed: true, from: at(5), to: at(6)}
	freeze := span{daemon: "slurmctld", from: at(5), to: at(6)}
	half := picture{pods: pods(
		aPod(func(p *seenPod) { p.group = "g" }),
		seenPod{uid: "u2", name: "p2", group: "g"},
	), jobs: jobs(itsJob(nil))}
	for name, c := range map[string]struct {
		pictures []picture
		faults   []span
		want     string // a part of the only mistake; none if empty
	}{
		"all is well":                        {pictures: during(0, 100, well)},
		"all is well through a kill":         {pictures: during(0, 100, well), faults: []span{kill}},
		"a core of two pods":                 {pictures: during(0, 0, picture{pods: pods(aPod(nil), aPod(func(p *seenPod) { p.uid, p.name, p.cores = "u2", "p2", []int{1, 2} })), jobs: jobs(itsJob(func(j *seenJob) { j.pods = []types.UID{"u1", "u2"} }))}), want: "core 1 of a is given twice"},
		"a core of a pod that has ended":     {pictures: during(0, 0, picture{pods: pods(aPod(nil), aPod(func(p *seenPod) { p.uid, p.over = "u2", true })), jobs: jobs(itsJob(nil))})},
		"a core of another node":             {pictures: during(0, 0, picture{pods: pods(aPod(nil), aPod(func(p *seenPod) { p.uid, p.node = "u2", "b" })), jobs: jobs(itsJob(func(j *seenJob) { j.cores["b"], j.pods = []int{0, 1}, append(j.pods, "u2") }))})},
		"a pod without cores":                {pictures: during(0, 0, picture{pods: pods(aPod(func(p *seenPod) { p.cores = nil })), jobs: jobs(itsJob(nil))}), want: "runs without a job or without cores"},
		"a pod that names no job":            {pictures: during(0, 0, picture{pods: pods(aPod(func(p *seenPod) { p.job = "" })), blind: true}), faults: []span{{daemon: "slurmctld", from: at(-1)}}, want: "runs without a job or without cores"},
		"a pod that waits":                   {pictures: during(0, 0, picture{pods: pods(seenPod{uid: "u1", name: "p1"})})},
		"a pod without its job":              {pictures: during(0, 0, noJob), want: withoutJob},
		"a pod whose job has ended":          {pictures: during(0, 0, picture{pods: pods(aPod(nil)), jobs: jobs(itsJob(func(j *seenJob) { j.state = "CANCELLED" }))}), want: withoutJob},
		"a pod whose job is on another node": {pictures: during(0, 0, picture{pods: pods(aPod(func(p *seenPod) { p.node = "b" })), jobs: jobs(itsJob(nil))}), want: withoutJob},
		"a pod whose job's id is another's":  {pictures: during(0, 0, picture{pods: pods(aPod(nil)), jobs: jobs(itsJob(func(j *seenJob) { j.pods = []types.UID{"u9"} }))}), want: withoutJob},
		"a lost job that is found again":     {pictures: slices.Concat(during(0, 4, well), during(7, 20, noJob), during(21, 100, well)), faults: []span{kill}},
		"a lost job that stays lost":         {pictures: slices.Concat(during(0, 4, well), during(7, 50, noJob)), faults: []span{kill}, want: "p1, for more than 30s"},
		"a lost job in a long blindness":     {pictures: slices.Concat(during(0, 4, well), during(7, 10, noJob), during(11, 20, picture{blind: true}), during(21, 45, noJob)), faults: []span{kill}, want: "p1, for more than 30s"},
		"no time counts during faults":       {pictures: slices.Concat(during(0, 4, well), during(7, 30, noJob), during(31, 60, noJob), during(61, 100, well)), faults: []span{kill, {daemon: "bridge", from: at(20), to: at(60)}}},
		"nothing is lost by a freeze":        {pictures: slices.Concat(during(0, 4, well), during(7, 7, noJob)), faults: []span{freeze}, want: withoutJob},
		"bound just after a kill":            {pictures: during(7, 7, noJob), faults: []span{kill}},
		"bound long after a kill":            {pictures: slices.Concat(during(7, 9, picture{}), during(10, 10, noJob)), faults: []span{kill}, want: withoutJob},
		"cores that its job doesn't have":    {pictures: during(0, 0, others), want: otherCores},
		"the same after a kill, for a while": {pictures: slices.Concat(during(0, 4, well), during(7, 20, others), during(21, 21, well)), faults: []span{kill}},
		"the same after a kill, for long":    {pictures: slices.Concat(during(0, 4, well), during(7, 50, others)), faults: []span{kill}, want: otherCores},
		"cores of Slurm's own job":           {pictures: during(0, 0, taken), want: ofNative},
		"the same, and it has ended":         {pictures: during(0, 0, picture{pods: pods(aPod(nil)), jobs: jobs(itsJob(nil), native(func(j *seenJob) { j.cores["a"], j.state = []int{1}, "COMPLETED" }))})},
		"a pod with two jobs":                {pictures: during(0, 0, picture{pods: pods(aPod(nil)), jobs: jobs(itsJob(nil), itsJob(func(j *seenJob) { j.id, j.sluid = "8", "s8" }))}), want: "has the jobs 7 and 8 at once"},
		"a pod with a job before":            {pictures: during(0, 0, picture{pods: pods(aPod(nil)), jobs: jobs(itsJob(nil), itsJob(func(j *seenJob) { j.id, j.sluid, j.state = "6", "s6", "FAILED" }))})},
		"a job without its pod":              {pictures: during(0, 40, picture{jobs: jobs(itsJob(nil))}), want: orphan + "s7, for more than 30s"},
		"a waiting job without its pod":      {pictures: during(0, 40, picture{jobs: jobs(itsJob(func(j *seenJob) { j.state = "PENDING" }))}), want: orphan + "s7, for more than 30s"},
		"a job without its pod for a moment": {pictures: during(0, 20, picture{jobs: jobs(itsJob(nil))})},
		"a pod that has just gone":           {pictures: during(0, 40, picture{jobs: jobs(itsJob(nil)), gone: map[types.UID]bool{"u1": true}})},
		"a job that is nobody's":             {pictures: during(0, 0, picture{jobs: jobs(itsJob(func(j *seenJob) { j.pods = nil }))}), want: "job 7 is nobody's"},
		"Slurm's own job is cancelled":       {pictures: during(0, 0, picture{jobs: jobs(native(func(j *seenJob) { j.state = "CANCELLED" }))}), want: "somebody has cancelled"},
		"half a gang for a moment":           {pictures: during(0, 20, half)},
		"half a gang":                        {pictures: during(0, 40, half), want: halfGang + "g, for more than 30s"},
		"half a gang, unseen by Slurm":       {pictures: during(0, 40, picture{pods: half.pods, blind: true}), faults: []span{{daemon: "slurmctld", from: at(-9), to: at(-8)}}, want: "*"},
		"blind during a fault":               {pictures: slices.Concat(during(0, 4, well), during(5, 15, picture{blind: true}), during(16, 20, well)), faults: []span{freeze}},
		"blind for too long after it":        {pictures: slices.Concat(during(0, 4, well), during(5, 27, picture{blind: true})), faults: []span{freeze}, want: "nothing was seen of Slurm"},
		"blind for a moment":                 {pictures: slices.Concat(during(0, 4, well), during(5, 24, picture{blind: true}), during(25, 30, well))},
		"blind while slurmrestd is away":     {pictures: during(5, 26, picture{blind: true}), faults: []span{{daemon: "slurmrestd", killed: true, from: at(4)}}, want: "nothing was seen of Slurm"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newJudge()
			for _, p := range c.pictures {
				g.see(p, slices.DeleteFunc(slices.Clone(c.faults), func(f span) bool { return f.from.After(p.at) }))
			}
			got := slices.Sorted(maps.Keys(g.mistakes))
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("it finds %q", got)
			case c.want == "*":
				if !slices.ContainsFunc(got, func(m string) bool { return strings.HasPrefix(m, halfGang) }) {
					t.Errorf("it finds %q", got)
				}
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
				t.Errorf("it finds %q, want one with %q", got, c.want)
			}
		})
	}
}

func TestSawEnough(t *testing.T) {
	gang := picture{pods: pods(aPod(func(p *seenPod) { p.group = "g" })), jobs: jobs(itsJob(nil), native(nil))}
	for name, c := range map[string]struct {
		pictures []picture
		want     bool
	}{
		"a gang beside a native job": {during(0, 99, gang), true},
		"blind for a quarter":        {slices.Concat(during(0, 29, gang), during(30, 39, picture{blind: true}), during(40, 40, gang)), false},
		"blind for less":             {slices.Concat(during(0, 31, gang), during(32, 39, picture{blind: true}), during(40, 40, gang)), true},
		"no gang":                    {during(0, 99, picture{pods: pods(aPod(nil)), jobs: gang.jobs}), false},
		"no native job":              {during(0, 99, picture{pods: gang.pods, jobs: jobs(itsJob(nil))}), false},
		"native jobs elsewhere":      {during(0, 99, picture{pods: gang.pods, jobs: jobs(itsJob(nil), native(func(j *seenJob) { j.cores = map[string][]int{"b": {0}} }))}), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newJudge()
			for _, p := range c.pictures {
				g.see(p, nil)
			}
			if g.sawEnough() != c.want {
				t.Errorf("saw enough: %t; blind %v", g.sawEnough(), g.blind)
			}
		})
	}
}

// What scontrol of Slurm 26.05 prints, shortened.
func TestReadJobs(t *testing.T) {
	got, err := readJobs(`JobId=1 JobName=x SLUID=s78 UserId=root(0) JobState=RUNNING Reason=None NodeList=e[0-2] JOB_GRES=(null) Nodes=e[0-1] CPU_IDs=0-3,6 Mem=800 GRES= Nodes=e2 CPU_IDs=1 Mem=200 GRES= WorkDir=/tmp AdminComment={"pods":["a/b"],"slinky.slurm.net/v1":{"cluster":"c","podUIDs":["1-2","1-3"]}} Comment=a b OOMKillStep=0

JobId=2 JobName=native SLUID=s79 JobState=COMPLETED NodeList=n1 Nodes=n1 CPU_IDs=0-1 Mem=100 GRES= StdOut=/tmp/slurm-2.out
JobId=3 JobName=y SLUID=s80 JobState=CANCELLED NodeList=(null) AdminComment={"pods":["a/b"],"slinky.slurm.net/v1":{"podUIDs":["1-4"]},"slinky.slurm.net/end":{"failures":["no such file
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []seenJob{
		{id: "1", sluid: "s78", name: "x", state: "RUNNING", cores: map[string][]int{"e0": {0, 1, 2, 3, 6}, "e1": {0, 1, 2, 3, 6}, "e2": {1}}, pods: []types.UID{"1-2", "1-3"}},
		{id: "2", sluid: "s79", name: "native", state: "COMPLETED", cores: map[string][]int{"n1": {0, 1}}},
		{id: "3", sluid: "s80", name: "y", state: "CANCELLED", cores: map[string][]int{}, pods: []types.UID{"1-4"}},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(seenJob{})); d != "" {
		t.Errorf("jobs (-want +got):\n%s", d)
	}
	for _, text := range []string{"slurm_load_jobs error", "JobId=1 SLUID=s JobState=RUNNING Nodes=a CPU_IDs=x"} {
		if got, err := readJobs(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
