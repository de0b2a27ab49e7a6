package workload

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/slurm"
)

// Comment is what a job of the bridge carries in its admin comment. The key
// "pods" is shared with the published bridge; the other one is ours.
type Comment struct {
	// Pods are "namespace/name", in rank order.
	Pods []string `json:"pods"`
	// Mark is nil in a job that the published bridge made.
	Mark *Mark `json:"slinky.slurm.net/v1,omitempty"`
	// End is how the pods ended, from when they had until the job is forgotten.
	End *Outcome `json:"slinky.slurm.net/end,omitempty"`
}

// Mark identifies the workload of a job for ever. Names alone don't: a pod that
// was made again has the name of the old one.
type Mark struct {
	// Cluster identifies the Kubernetes cluster: several may share a Slurm cluster.
	Cluster string `json:"cluster"`
	// Workload is the UID of the pod or PodGroup.
	Workload types.UID `json:"workload"`
	// Asked stands for what the owners of the workload said when the job was made. A job of an earlier version has none.
	Asked string `json:"asked,omitempty"`
	// Pods are the members' UIDs, in the order of Comment.Pods. Pod i runs on the
	// job's node i, unless there are Slots.
	Pods []types.UID `json:"podUIDs"`
	// Slots is set where pods may share nodes.
	Slots *Slots `json:"slots,omitempty"`
}

// Encode returns the admin comment's text.
func (c Comment) Encode() string {
	text, err := json.Marshal(c)
	if err != nil {
		// Strings only: json.Marshal has nothing to refuse.
		panic(err)
	}
	return string(text)
}

// ParseComment reads a job's admin comment. It returns false for a job that isn't the bridge's.
func ParseComment(job slurm.Job) (Comment, bool) {
	var c Comment
	if !strings.HasPrefix(job.AdminComment, "{") || !slices.Contains(job.Flags, slurm.FlagExternalJob) {
		return c, false
	}
	if err := json.Unmarshal([]byte(job.AdminComment), &c); err != nil || len(c.Pods) == 0 {
		return c, false
	}
	if c.Mark != nil && len(c.Mark.Pods) != len(c.Pods) {
		return c, false
	}
	if c.Mark != nil && c.Mark.Slots != nil && !c.Mark.Slots.valid(c.Mark.Pods) {
		return c, false
	}
	return c, true
}

// Owned returns the mark of a job that the bridge of this Kubernetes cluster made.
func Owned(job slurm.Job, cluster string) (Mark, bool) {
	c, ok := ParseComment(job)
	if !ok || c.Mark == nil || c.Mark.Cluster != cluster {
		return Mark{}, false
	}
	return *c.Mark, true
}

// RefusedAtOnce tells whether a job's record is what slurmctld keeps for a while
// of an allocation that it couldn't give at once. It never was a job.
func RefusedAtOnce(job slurm.Job) bool {
	return job.States.Has(slurm.JobFailed) && job.Nodes == "" && job.EndTime.Equal(job.SubmitTime)
}
