package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const job = "slurmjob.slinky.slurm.net/"

// annotations of a job from pairs of suffix and value.
func asks(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[job+pairs[i]] = pairs[i+1]
	}
	return out
}

// namespace has annotations from pairs of rule and value, as "allowed/account".
func namespace(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		kind, suffix, _ := strings.Cut(pairs[i], "/")
		out["slurmjob-"+kind+".slinky.slurm.net/"+suffix] = pairs[i+1]
	}
	return out
}

// TestRules has each rule, followed and broken, in an open and in a restricted bridge.
func TestRules(t *testing.T) {
	everything := namespace("allowed/user-id", "alice,bob", "allowed/group-id", "staff", "allowed/account", "physics, chemistry",
		"allowed/partition", "short,long", "allowed/qos", "normal,high", "allowed/reservation", "lesson", "allowed/licenses", "matlab:2,fluent@db",
		"allowed/wckey", "a", "allowed/priority", "100", "allowed/timelimit", "60")
	where := func(suffix string) string {
		return " (annotation slurmjob-allowed.slinky.slurm.net/" + suffix + " of Namespace team)"
	}
	for name, c := range map[string]struct {
		restricted bool
		rules      map[string]string
		asks       map[string]string
		deadline   int64
		want       string
	}{
		"nothing is ruled, and all is open":    {rules: nil, asks: asks("user-id", "root", "account", "any", "priority", "4000000", "timelimit", "0", "reservation", "r")},
		"nothing is ruled, and all is closed":  {restricted: true, asks: asks("user-id", "root"), want: `annotation slurmjob.slinky.slurm.net/user-id is "root": the bridge's policy is Restricted and no rule of namespace team allows it; an administrator can, by annotation slurmjob-allowed.slinky.slurm.net/user-id of the Namespace`},
		"closed: group":                        {restricted: true, asks: asks("group-id", "wheel"), want: "Restricted"},
		"closed: account":                      {restricted: true, asks: asks("account", "a"), want: "Restricted"},
		"closed: qos":                          {restricted: true, asks: asks("qos", "a"), want: "Restricted"},
		"closed: reservation":                  {restricted: true, asks: asks("reservation", "a"), want: "Restricted"},
		"closed: priority":                     {restricted: true, asks: asks("priority", "1"), want: "Restricted"},
		"closed: licences":                     {restricted: true, asks: asks("licenses", "a"), want: "Restricted"},
		"closed: wckey":                        {restricted: true, asks: asks("wckey", "a"), want: "Restricted"},
		"closed: another partition":            {restricted: true, asks: asks("partition", "gpu"), want: "Restricted"},
		"closed: the bridge's partition":       {restricted: true, asks: asks("partition", "slurm-bridge")},
		"closed: what has no rule":             {restricted: true, asks: asks("constraints", "a&b", "job-name", "n", "exclusive", "false", "timelimit", "0")},
		"closed: the administrator's default":  {restricted: true, rules: namespace("default/qos", "normal"), asks: asks("qos", "normal")},
		"what is allowed":                      {restricted: true, rules: everything, asks: asks("user-id", "bob", "group-id", "staff", "account", "chemistry", "partition", "long,short", "qos", "high", "reservation", "lesson", "licenses", "matlab:2,fluent@db:9", "wckey", "a", "priority", "100", "timelimit", "60")},
		"user":                                 {rules: everything, asks: asks("user-id", "root"), want: `annotation slurmjob.slinky.slurm.net/user-id is "root": jobs of namespace team may only have alice, bob` + where("user-id")},
		"user by number":                       {rules: everything, asks: asks("user-id", "0"), want: "may only have alice, bob"},
		"user with a space":                    {rules: everything, asks: asks("user-id", " alice"), want: "may only have alice, bob"},
		"two users":                            {rules: everything, asks: asks("user-id", "alice,bob"), want: "may only have alice, bob"},
		"group":                                {rules: everything, asks: asks("group-id", "wheel"), want: "may only have staff"},
		"account":                              {rules: everything, asks: asks("account", "biology"), want: "may only have physics, chemistry" + where("account")},
		"account in other letters":             {rules: everything, asks: asks("account", "PHYSICS"), want: "may only have physics, chemistry"},
		"one partition of two":                 {rules: everything, asks: asks("partition", "short,secret"), want: "may only have short, long"},
		"qos":                                  {rules: everything, asks: asks("qos", "top"), want: "may only have normal, high"},
		"reservation":                          {rules: everything, asks: asks("reservation", "lesson,maintenance"), want: "may only have lesson"},
		"more licences":                        {rules: everything, asks: asks("licenses", "matlab:3"), want: "jobs may have 2 of licence matlab at most" + where("licenses")},
		"more licences in two terms":           {rules: everything, asks: asks("licenses", "matlab:2,matlab"), want: "2 of licence matlab at most"},
		"another licence":                      {rules: everything, asks: asks("licenses", "matlab|ansys"), want: "is not a licence"},
		"another licence, plainly":             {rules: everything, asks: asks("licenses", "ansys"), want: "may only have the licences matlab:2,fluent@db"},
		"wckey":                                {rules: everything, asks: asks("wckey", "b"), want: "may only have a"},
		"priority":                             {rules: everything, asks: asks("priority", "101"), want: "annotation slurmjob.slinky.slurm.net/priority is 101, more than the 100 of namespace team" + where("priority")},
		"time limit":                           {rules: everything, asks: asks("timelimit", "61"), want: "annotation slurmjob.slinky.slurm.net/timelimit is 61, and namespace team has 60 minutes at most" + where("timelimit")},
		"no time limit":                        {rules: everything, asks: asks("timelimit", "0"), want: "60 minutes at most"},
		"a long deadline":                      {rules: everything, deadline: 3601, want: "activeDeadlineSeconds asks for 61 minutes"},
		"a deadline":                           {rules: everything, deadline: 3600},
		"an empty list":                        {rules: namespace("allowed/reservation", ""), asks: asks("reservation", "r"), want: "jobs of namespace team may not set it"},
		"any value":                            {restricted: true, rules: namespace("allowed/account", "*", "allowed/priority", "*", "allowed/timelimit", "*"), asks: asks("account", "a", "priority", "9", "timelimit", "0")},
		"a ruled user's group":                 {rules: namespace("allowed/user-id", "alice"), asks: asks("group-id", "wheel"), want: "has a rule for user-id and none for group-id"},
		"a rule that is none: all stops":       {rules: namespace("allowed/user", "alice"), want: `no job of namespace team may be sent to Slurm until an administrator mends its rules: annotation slurmjob-allowed.slinky.slurm.net/user of Namespace team: there is no rule allowed for "user"`},
		"a limit that is none: all stops":      {rules: namespace("allowed/timelimit", "1h"), want: `"1h" is neither a whole number nor *`},
		"a time limit of nothing: all stops":   {rules: namespace("allowed/timelimit", "0"), want: "0 minutes is no time limit"},
		"a default that is none: all stops":    {rules: namespace("default/timelimit", "soon"), want: `"soon" is not a whole number of minutes`},
		"licences that are none: all stops":    {rules: namespace("allowed/licenses", "matlab:x"), want: "number of licences"},
		"a default for what can't have one":    {rules: namespace("default/job-name", "x"), want: `there is no rule default for "job-name"`},
		"a default is allowed beside the list": {rules: namespace("allowed/qos", "high", "default/qos", "normal"), asks: asks("qos", "normal")},
	} {
		t.Run(name, func(t *testing.T) {
			r := For(Settings{Restricted: c.restricted, Partition: "slurm-bridge"}, "team", c.rules, nil)
			got := ""
			if err := r.Check(c.asks, c.deadline); err != nil {
				got = err.Error()
			}
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestDefaults: what a job gets that doesn't ask is the default, or else the first that is
// allowed, and it is never more than the rules allow.
func TestDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		rules, asks, want map[string]string
	}{
		"no rule":                       {nil, asks("account", "a"), asks("account", "a")},
		"the first of a list":           {namespace("allowed/user-id", "alice,bob", "allowed/qos", "normal,high"), nil, asks("user-id", "alice", "qos", "normal")},
		"a default":                     {namespace("allowed/account", "a,b", "default/account", "b", "default/exclusive", "false"), nil, asks("account", "b", "exclusive", "false")},
		"what is asked stays":           {namespace("allowed/account", "a,b"), asks("account", "b"), asks("account", "b")},
		"an empty value doesn't ask":    {namespace("allowed/user-id", "alice"), asks("user-id", " "), asks("user-id", "alice")},
		"the longest time":              {namespace("allowed/timelimit", "60"), nil, asks("timelimit", "60")},
		"a shorter time":                {namespace("allowed/timelimit", "60", "default/timelimit", "5"), nil, asks("timelimit", "5")},
		"the bridge's partition":        {namespace("allowed/partition", "gpu,slurm-bridge"), nil, nil},
		"another partition":             {namespace("allowed/partition", "gpu"), nil, asks("partition", "gpu")},
		"nothing that must be asked":    {namespace("allowed/reservation", "r", "allowed/licenses", "l", "allowed/priority", "5"), nil, nil},
		"any value":                     {namespace("allowed/account", "*"), nil, nil},
		"rules that are none: nothing":  {namespace("allowed/acount", "a", "default/qos", "q"), nil, nil},
		"a deadline makes no time less": {namespace("default/timelimit", "5"), asks("timelimit", "0"), asks("timelimit", "0")},
	} {
		t.Run(name, func(t *testing.T) {
			r := For(Settings{Partition: "slurm-bridge"}, "team", c.rules, nil)
			if d := cmp.Diff(c.want, r.Complete(c.asks)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestBook: the administrator's ConfigMap counts more than the Namespace, and its entry for
// all counts least.
func TestBook(t *testing.T) {
	allowed := func(suffix, value string) Entry { return Entry{Allowed: map[string]string{suffix: value}} }
	book := &Book{Name: "ConfigMap slinky/rules", Entries: map[string]Entry{
		DefaultEntry: {Allowed: map[string]string{"user-id": "nobody", "account": "guests", "qos": "low"}},
		"team":       allowed("user-id", "alice"),
	}, Errors: map[string]string{"broken": "not valid YAML"}}
	r := For(Settings{}, "team", namespace("allowed/user-id", "root", "allowed/account", "physics"), book)
	if d := cmp.Diff(asks("user-id", "alice", "account", "physics", "qos", "low"), r.Complete(nil)); d != "" {
		t.Error(d)
	}
	err := r.Check(asks("user-id", "root", "account", "guests", "qos", "high"), 0)
	for _, want := range []string{"key team of ConfigMap slinky/rules", "account of Namespace team", "key _default of ConfigMap slinky/rules"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if err := For(Settings{}, "broken", nil, book).Check(nil, 0); err == nil || !strings.Contains(err.Error(), "key broken of ConfigMap slinky/rules: not valid YAML") {
		t.Errorf("a broken entry: %v", err)
	}
	if err := For(Settings{}, "other", nil, book).Check(nil, 0); err != nil {
		t.Errorf("a broken entry of another namespace: %v", err)
	}
	if err := For(Settings{}, "team", nil, &Book{Name: "ConfigMap slinky/rules", Missing: true}).Check(nil, 0); err == nil || !strings.Contains(err.Error(), "doesn't exist") {
		t.Errorf("a missing book: %v", err)
	}
}
