package explain

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
)

// class says what a reason of Slurm asks of people.
type class int

const (
	// classTurn: the job waits for its turn, which comes by itself.
	classTurn class = iota
	// classLimit: it waits for a limit, which passes when other jobs end.
	classLimit
	// classEvent: it waits for something that will happen by itself, as its begin time.
	classEvent
	// classPerson: somebody must do something.
	classPerson
)

// Limit is a limit that a job waits for.
type Limit struct {
	// Of is "account", "user" or "QOS", and Name which one; both may be unknown to a reason's word.
	Of   string `json:"of"`
	Name string `json:"name,omitempty"`
	// What is counted, as "CPUs" or "running jobs".
	What string `json:"what"`
	// Value is the limit, where it is known, as "64".
	Value string `json:"value,omitempty"`
	// Used is how much of it running jobs take, where that is known.
	Used string `json:"used,omitempty"`
	// never tells that the job alone is more than the limit allows.
	never bool
	tres  string
	word  string
}

// limitWord takes Slurm's words for limits apart: whose, whether all jobs below
// or each, of what, and of one job, user or account.
var limitWord = regexp.MustCompile(`^(Assoc|QOS)(Grp|Max|Min)` +
	`(Cpu|CPU|Memory|Mem|Node|GRES|Gres|Jobs|Job|SubmitJobs|Submit|WallDuration|Wall|Billing|License|Lic|BurstBuffer|BB|Energy|TRES|Unknown)?` +
	`(RunMinutes|RunMins|Minutes|Mins)?(PerJob|PerNode|PerUser|PerAcct|PerAccount)?Limit$`)

var limitThings = map[string]string{
	"cpu": "CPUs", "mem": "memory", "memory": "memory", "node": "nodes", "gres": "devices", "job": "running jobs", "jobs": "running jobs",
	"submitjobs": "jobs", "submit": "jobs", "wall": "time", "wallduration": "time", "billing": "billing units", "lic": "licenses",
	"license": "licenses", "bb": "burst buffers", "burstbuffer": "burst buffers", "energy": "energy",
}

// limitTRES are the names of what is counted in TRES expressions.
var limitTRES = map[string]string{"CPUs": "cpu", "memory": "mem", "nodes": "node", "billing units": "billing", "energy": "energy"}

// limitOf returns the limit that a job waits for, nil for another reason.
func limitOf(j slurm.Job) *Limit {
	word := firstWord(j.Reason)
	m := limitWord.FindStringSubmatch(word)
	if m == nil {
		return simpleLimit(j, word)
	}
	l := &Limit{Of: "account", Name: j.Account, What: "resources", word: word}
	if what, ok := limitThings[strings.ToLower(m[3])]; ok {
		l.What = what
	}
	if m[1] == "QOS" {
		l.Of, l.Name = "QOS", j.QOS
	}
	if m[4] != "" {
		l.What += " times minutes"
	}
	l.tres = limitTRES[l.What]
	switch {
	case strings.HasSuffix(m[5], "User"):
		l.What += " of one user"
	case strings.HasSuffix(m[5], "Job"), m[2] == "Max" && m[3] == "WallDuration":
		l.What, l.never = l.What+" of one job", true
	case strings.HasSuffix(m[5], "Node"):
		l.What, l.never = l.What+" on one node", true
	case strings.HasSuffix(m[5], "Acct"), strings.HasSuffix(m[5], "Account"):
		l.What += " of one account"
	}
	if m[2] == "Min" {
		l.What, l.never = "the least that a job must ask for: "+l.What, true
	}
	return l
}

// simpleLimit knows the words that aren't made of parts.
func simpleLimit(j slurm.Job, word string) *Limit {
	l := &Limit{Of: "account", Name: j.Account, word: word}
	switch word {
	case "AssociationJobLimit":
		l.What = "running jobs"
	case "AssociationResourceLimit":
		l.What = "resources"
	case "AssociationTimeLimit":
		l.What, l.never = "time", true
	case "QOSJobLimit":
		l.Of, l.Name, l.What = "QOS", j.QOS, "running jobs"
	case "QOSResourceLimit":
		l.Of, l.Name, l.What = "QOS", j.QOS, "resources"
	case "QOSTimeLimit":
		l.Of, l.Name, l.What, l.never = "QOS", j.QOS, "time", true
	case "MaxJobsPerAccount", "MaxCpuPerAccount", "MaxMemPerAccount", "MaxNodePerAccount":
		l.Of, l.Name = "QOS", j.QOS
		thing := strings.TrimSuffix(strings.TrimPrefix(word, "Max"), "PerAccount")
		l.What = limitThings[strings.ToLower(thing)] + " of one account"
		l.tres = limitTRES[limitThings[strings.ToLower(thing)]]
	case "MaxMemPerLimit":
		l.Of, l.Name, l.What, l.never = "partition", j.Partition, "memory", true
	default:
		return nil
	}
	return l
}

// same tells whether a running job counts against the limit that j waits for.
func (l *Limit) same(j slurm.Job) func(*slurm.Job) bool {
	user := strings.HasSuffix(l.What, " of one user")
	account := strings.HasSuffix(l.What, " of one account")
	return func(r *slurm.Job) bool {
		switch {
		case l.Of == "QOS" && r.QOS != j.QOS, l.Of == "account" && r.Account != j.Account:
			return false
		case user:
			return r.UserID == j.UserID
		case account:
			return r.Account == j.Account
		}
		return true
	}
}

func (l *Limit) String() string {
	s := fmt.Sprintf("%s %s", l.Of, l.Name)
	if l.Name == "" {
		s = "its " + l.Of
	}
	verb := "has reached its limit of"
	if l.never {
		verb = "allows less than it asks for:"
	}
	s += " " + verb + " " + l.What
	if l.Value != "" {
		s += " (" + l.Value + ")"
	}
	return s
}

func firstWord(reason string) string {
	first, _, _ := strings.Cut(reason, ",")
	first, _, _ = strings.Cut(first, "(")
	return strings.TrimSpace(first)
}

func classOf(reason string) class {
	word := firstWord(reason)
	switch word {
	case "", "None", "Priority", "Resources", "SchedDefer":
		return classTurn
	case "DependencyNeverSatisfied", "ReservationDeleted", "InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed",
		"PartitionDown", "PartitionInactive", "PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig", "BadConstraints",
		"JobHeldAdmin", "JobHeldUser", "DeadLine":
		return classPerson
	}
	switch l := limitOf(slurm.Job{Reason: word}); {
	case l == nil:
		return classEvent
	case l.never:
		return classPerson
	}
	return classLimit
}

// NeedsPerson tells whether a job that waits for a reason waits for ever unless somebody does something.
func NeedsPerson(reason string) bool { return classOf(reason) == classPerson }

// WaitsForLimit tells whether a reason is about a limit of an account or QOS.
func WaitsForLimit(reason string) bool { return limitOf(slurm.Job{Reason: reason}) != nil }
