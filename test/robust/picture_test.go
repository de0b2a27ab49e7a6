package robust

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// picture is what somebody saw who looked at both sides at one time.
type picture struct {
	at time.Time
	// pods were there both before and after Slurm was asked, so that what they are
	// holds of the time between. gone are those that were there at one of both times.
	pods []seenPod
	gone map[types.UID]bool
	// blind: Slurm gave no answer, and jobs says nothing.
	blind bool
	jobs  []seenJob
}

// seenPod is what is to be judged of a pod.
type seenPod struct {
	uid         types.UID
	name, group string
	node, job   string
	// cores is nil where the pod doesn't say which it has.
	cores []int
	// over: its containers have ended. leaving: it is to end.
	over, leaving bool
}

// live: its containers run, or may.
func (p seenPod) live() bool { return p.node != "" && !p.over }

func (p seenPod) String() string {
	return fmt.Sprintf("pod %s (job %s, cores %s of %s)", p.name, p.job, tres.FormatIndexes(p.cores), p.node)
}

func podOf(p *corev1.Pod) (seenPod, error) {
	out := seenPod{
		uid: p.UID, name: p.Name, group: p.Labels[labelGroup], node: p.Spec.NodeName, job: p.Labels[v1beta1.LabelJobID],
		over: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed, leaving: p.DeletionTimestamp != nil,
	}
	text := p.Annotations[v1beta1.AnnotationCores]
	if text == "" {
		return out, nil
	}
	var err error
	if out.cores, err = tres.ParseIndexes(text); err != nil {
		return out, fmt.Errorf("pod %s has the cores %q: %w", p.Name, text, err)
	}
	return out, nil
}

// seenJob is what is to be judged of a job.
type seenJob struct {
	// id may be given again by a slurmctld that was killed; sluid is for ever.
	id, sluid, name, state string
	// cores are those of each node.
	cores map[string][]int
	// pods are those that the job is for; none of a job that isn't the bridge's.
	pods []types.UID
}

func (j seenJob) runs() bool { return j.state == "RUNNING" }
func (j seenJob) waits() bool {
	return j.state == "PENDING" || j.state == "CONFIGURING"
}

// readJobs reads what "scontrol --oneliner --details show jobs" prints.
func readJobs(text string) ([]seenJob, error) {
	var out []seenJob
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line == "No jobs in the system" {
			continue
		}
		j, err := readJob(line)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", line, err)
		}
		out = append(out, j)
	}
	return out, nil
}

func readJob(line string) (seenJob, error) {
	j := seenJob{cores: map[string][]int{}}
	var nodes []string
	for field := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(field, "=")
		var err error
		switch key {
		case "JobId":
			j.id = value
		case "SLUID":
			j.sluid = value
		case "JobName":
			j.name = value
		case "JobState":
			j.state = value
		case "Nodes":
			nodes, err = hostlist.Expand(value)
		case "CPU_IDs": // of the nodes before it; these nodes have a thread on each core
			var cores []int
			cores, err = tres.ParseIndexes(value)
			for _, n := range nodes {
				j.cores[n] = cores
			}
		case "AdminComment":
			j.pods, err = podsOf(value)
		}
		if err != nil {
			return j, err
		}
	}
	if j.id == "" || j.sluid == "" || j.state == "" {
		return j, fmt.Errorf("it is no job")
	}
	return j, nil
}

// podsOf reads the bridge's mark in an admin comment.
func podsOf(comment string) ([]types.UID, error) {
	var c struct {
		Mark struct {
			Pods []types.UID `json:"podUIDs"`
		} `json:"slinky.slurm.net/v1"`
	}
	// A failure or an eviction that it tells has blanks, which end the field: the mark stands before it.
	text, _, ended := strings.Cut(comment, `,"slinky.slurm.net/end":`)
	if ended {
		text += "}"
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("the admin comment: %w", err)
	}
	return c.Mark.Pods, nil
}
