package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Blocker is a job that another one waits for.
type Blocker struct {
	Job  uint32 `json:"job"`
	Name string `json:"name,omitempty"`
	User string `json:"user,omitempty"`
	// Pods are those of a job of a bridge, as "namespace/name".
	Pods []string `json:"pods,omitempty"`
	// Nodes that it holds; empty for one that waits itself.
	Nodes string `json:"nodes,omitempty"`
	// Until is when it ends at the latest; zero if never, or if it waits.
	Until time.Time `json:"until,omitzero"`
}

// How a job's blockers hold it up.
const (
	// BlockedByTurn: they wait too, and are before it.
	BlockedByTurn = "ahead"
	// BlockedByNodes: they hold nodes that it could use.
	BlockedByNodes = "nodes"
	// BlockedByLimit: they count against a limit that it waits for.
	BlockedByLimit = "limit"
)

// Block is what holds a job up.
type Block struct {
	// How is one of the words above, "" where no job blocks it.
	How string `json:"how,omitempty"`
	// Jobs are the first of them, and Count is how many there are.
	Jobs  []Blocker `json:"jobs,omitempty"`
	Count int       `json:"count,omitempty"`
	Limit *Limit    `json:"limit,omitempty"`
	// Unusable are nodes of its partition that take no job now, and Nodes how many the partition has.
	Unusable []string `json:"unusableNodes,omitempty"`
	Nodes    int      `json:"partitionNodes,omitempty"`
}

// blockersTold bounds the jobs that a sentence names.
const blockersTold = 2

// Blocking returns what holds up a job that waits, with at most n jobs.
func Blocking(j slurm.Job, q *Queue, n int) Block {
	var b Block
	var jobs []*slurm.Job
	limit := limitOf(j)
	switch word := firstWord(j.Reason); {
	case word == "Priority":
		b.How = BlockedByTurn
		jobs, b.Count = q.ahead(j, n)
	case word == "Resources", word == "ReqNodeNotAvail", word == "NodeDown":
		b.How = BlockedByNodes
		jobs, b.Count = q.holders(j, n)
		b.Unusable, b.Nodes = q.unusable(j)
	case limit != nil && !limit.never:
		b.How, b.Limit = BlockedByLimit, limit
		var cpus uint64
		jobs, b.Count, cpus = q.sharing(limit.same(j), n)
		switch limit.tres {
		case "cpu":
			limit.Used = fmt.Sprint(cpus)
		case "":
			if strings.HasPrefix(limit.What, "running jobs") {
				limit.Used = fmt.Sprint(b.Count)
			}
		}
	default:
		b.Limit = limit
	}
	for _, r := range jobs {
		b.Jobs = append(b.Jobs, blocker(r))
	}
	if b.Count == 0 && b.Limit == nil && len(b.Unusable) == 0 {
		b.How = ""
	}
	return b
}

func blocker(j *slurm.Job) Blocker {
	b := Blocker{Job: j.ID, Name: j.Name, User: j.User, Nodes: j.Nodes}
	if j.Nodes != "" {
		b.Until = until(*j)
	}
	if c, ok := workload.ParseComment(*j); ok {
		b.Pods = c.Pods
	}
	return b
}

// clause is what blocks, as the end of a sentence: jobs by their numbers alone.
func clause(b Block) string {
	var parts []string
	for _, j := range b.Jobs {
		part := fmt.Sprintf("job %d", j.Job)
		if b.How == BlockedByNodes {
			part += " has " + j.Nodes
		}
		if !j.Until.IsZero() {
			part += " until " + j.Until.UTC().Truncate(time.Minute).Format(time.RFC3339)
		}
		parts = append(parts, part)
	}
	if more := b.Count - len(b.Jobs); more > 0 && len(parts) > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	s := ""
	if len(parts) > 0 {
		lead := map[string]string{BlockedByTurn: "; before it: ", BlockedByNodes: "; ", BlockedByLimit: "; counted there: "}[b.How]
		s = lead + and(parts)
	}
	if len(b.Unusable) > 0 {
		s += fmt.Sprintf("; %d of its partition's %d nodes take no jobs", len(b.Unusable), b.Nodes)
	}
	return s
}

func and(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}
