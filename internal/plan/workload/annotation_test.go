package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
)

func TestParseAnnotations(t *testing.T) {
	p := "slurmjob.slinky.slurm.net/"
	for name, c := range map[string]struct {
		in   map[string]string
		want Settings
	}{
		"none":      {},
		"unrelated": {in: map[string]string{"example.com/account": "a"}},
		"texts": {
			in: map[string]string{
				p + "account": "acme", p + "constraints": "a&b", p + "gres": "gpu:2", p + "group-id": "100", p + "job-name": "train",
				p + "licenses": "m:1", p + "partition": "long", p + "qos": "high", p + "reservation": "r1", p + "user-id": "alice", p + "wckey": "w",
			},
			want: Settings{
				Account: "acme", Constraints: "a&b", GRES: "gpu:2", GroupID: "100", JobName: "train", Licenses: "m:1",
				Partition: "long", QOS: "high", Reservation: "r1", UserID: "alice", WCKey: "w",
			},
		},
		"numbers": {
			in: map[string]string{
				p + "cpu-per-task": "1500m", p + "max-nodes": "4", p + "min-nodes": "2", p + "mem-per-node": "1500Ki",
				p + "priority": "0", p + "timelimit": "60",
			},
			want: Settings{
				CPUPerTask: 2, MaxNodes: 4, MinNodes: 2, MemPerNode: slurm.NumberOf(2),
				Priority: slurm.NumberOf(0), TimeLimit: slurm.NumberOf(60),
			},
		},
		"no time limit":          {in: map[string]string{p + "timelimit": "0"}, want: Settings{TimeLimit: slurm.Infinite()}},
		"little memory is some":  {in: map[string]string{p + "mem-per-node": "1"}, want: Settings{MemPerNode: slurm.NumberOf(1)}},
		"shared":                 {in: map[string]string{p + "exclusive": " FALSE "}, want: Settings{Shared: new(true)}},
		"exclusive":              {in: map[string]string{p + "exclusive": "no"}, want: Settings{Shared: new(false)}},
		"unknown is ignored":     {in: map[string]string{p + "colour": "red"}, want: Settings{Ignored: []string{p + "colour"}}},
		"the old prefix as well": {in: map[string]string{"slinky.slurm.net/timelimit": "5"}, want: Settings{Ignored: []string{"slinky.slurm.net/timelimit"}}},
		"but not our other ones": {in: map[string]string{"slinky.slurm.net/slurm-node": "n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseAnnotations(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseAnnotationsRefuses(t *testing.T) {
	p := "slurmjob.slinky.slurm.net/"
	for name, c := range map[string]struct {
		in   map[string]string
		want string
	}{
		"time limit in words": {map[string]string{p + "timelimit": "soon"},
			`annotation slurmjob.slinky.slurm.net/timelimit: "soon" is not a whole number of minutes up to 2147483647`},
		"time limit with hours": {map[string]string{p + "timelimit": "1-00:00:00"},
			`annotation slurmjob.slinky.slurm.net/timelimit: "1-00:00:00" is not a whole number of minutes up to 2147483647`},
		"negative": {map[string]string{p + "priority": "-1"},
			`annotation slurmjob.slinky.slurm.net/priority: "-1" is not a whole number of 0 or more up to 2147483647`},
		"too large": {map[string]string{p + "max-nodes": "99999999999"},
			`annotation slurmjob.slinky.slurm.net/max-nodes: "99999999999" is not a whole number of 1 or more up to 2147483647`},
		"no nodes":  {map[string]string{p + "min-nodes": "0"}, `annotation slurmjob.slinky.slurm.net/min-nodes: "0" is not a whole number of 1 or more`},
		"no memory": {map[string]string{p + "mem-per-node": "0"}, `annotation slurmjob.slinky.slurm.net/mem-per-node: "0" is not more than 0`},
		"memory in words": {map[string]string{p + "mem-per-node": "much"},
			`annotation slurmjob.slinky.slurm.net/mem-per-node: "much" is not a quantity of memory such as 512Mi or 4Gi`},
		"no CPUs":    {map[string]string{p + "cpu-per-task": "0"}, `annotation slurmjob.slinky.slurm.net/cpu-per-task: "0" is not between 1 and 65533 CPUs`},
		"line break": {map[string]string{p + "account": "a\nb"}, `annotation slurmjob.slinky.slurm.net/account: the value holds a line break`},
		"contradiction": {map[string]string{p + "min-nodes": "3", p + "max-nodes": "2"},
			`annotation slurmjob.slinky.slurm.net/min-nodes is 3, more than the 2 of slurmjob.slinky.slurm.net/max-nodes`},
		"two at once": {map[string]string{p + "min-nodes": "x", p + "timelimit": "y"},
			"annotation slurmjob.slinky.slurm.net/min-nodes: \"x\" is not a whole number of 1 or more up to 2147483647\n" +
				"annotation slurmjob.slinky.slurm.net/timelimit: \"y\" is not a whole number of minutes up to 2147483647"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseAnnotations(c.in)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func FuzzParseAnnotations(f *testing.F) {
	f.Add("timelimit", "5")
	f.Add("mem-per-node", "9999999999999999999Ei")
	f.Add("cpu-per-task", "-1e400")
	f.Fuzz(func(t *testing.T, suffix, value string) {
		s, err := ParseAnnotations(map[string]string{"slurmjob.slinky.slurm.net/" + suffix: value})
		if n, ok := s.MemPerNode.Get(); err == nil && ok && n == 0 {
			t.Errorf("%s %q means all of a node's memory to Slurm", suffix, value)
		}
	})
}
