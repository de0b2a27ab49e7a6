package workload

import (
	"encoding/json"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// Record is what a pod says of the job that covers it: enough to know the job by, where
// somebody has overwritten the mark in its admin comment before everybody had read it.
type Record struct {
	// SLUID is the job's for ever. Job, its id, may be another job's later; a pod with a node has it as a label, which counts.
	SLUID    string    `json:"sluid"`
	Job      uint32    `json:"job,omitempty"`
	Workload types.UID `json:"workload"`
	Asked    string    `json:"asked,omitempty"`
	// Place is the pod's number among the Places of the job's mark.
	Place  int `json:"place"`
	Places int `json:"places"`
	// Slots are the mark's. They leave Slot out where each pod is a task.
	Slots *Slots `json:"slots,omitempty"`
}

// maxPlaces bounds what is believed of a record.
const maxPlaces = 1 << 16

// RecordFor returns what a pod is to say of its job, "" for a pod that isn't in the mark.
func RecordFor(job slurm.Job, mark Mark, pod types.UID) string {
	place := slices.Index(mark.Pods, pod)
	if place < 0 || job.SLUID == "" {
		return ""
	}
	r := Record{SLUID: job.SLUID, Job: job.ID, Workload: mark.Workload, Asked: mark.Asked, Place: place, Places: len(mark.Pods)}
	if mark.Slots != nil {
		s := *mark.Slots
		if slices.Equal(s.Slot, eachOne(len(mark.Pods))) {
			s.Slot = nil
		}
		r.Slots = &s
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // numbers and strings only
	}
	return string(text)
}

func eachOne(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// RecordOf returns what a pod says of its job, and the job's id; false for a pod that says nothing.
func RecordOf(pod *corev1.Pod) (r Record, id uint32, ok bool) {
	text := pod.Annotations[v1beta1.AnnotationJob]
	if text == "" || json.Unmarshal([]byte(text), &r) != nil {
		return Record{}, 0, false
	}
	if label, placed := pod.Labels[v1beta1.LabelJobID]; placed {
		n, err := strconv.ParseUint(label, 10, 32)
		if err != nil {
			return Record{}, 0, false
		}
		r.Job = uint32(n)
	}
	ok = r.SLUID != "" && r.Job != 0 && r.Places <= maxPlaces && r.Place >= 0 && r.Place < r.Places
	return r, r.Job, ok
}

// Remembered returns the comment that a job had, by what its pods say of it. It returns
// false for a job that none of them says to be its own, and for one that bears a mark:
// whoever wrote that knows better.
func Remembered(job slurm.Job, pods []*corev1.Pod, cluster string) (Comment, bool) {
	if c, ok := ParseComment(job); !job.External() || ok && c.Mark != nil {
		return Comment{}, false
	}
	var c Comment
	var first Record
	for _, pod := range pods {
		r, id, ok := RecordOf(pod)
		if !ok || id != job.ID || r.SLUID != job.SLUID {
			continue
		}
		if c.Mark == nil {
			first = r
			c.Pods = make([]string, r.Places)
			c.Mark = &Mark{Cluster: cluster, Workload: r.Workload, Asked: r.Asked, Pods: make([]types.UID, r.Places), Slots: r.Slots}
			if s := c.Mark.Slots; s != nil && s.Slot == nil {
				s.Slot = eachOne(r.Places)
			}
		}
		if r.Places == first.Places && r.Workload == first.Workload {
			c.Pods[r.Place], c.Mark.Pods[r.Place] = pod.Namespace+"/"+pod.Name, pod.UID
		}
	}
	if c.Mark == nil || c.Mark.Slots != nil && !c.Mark.Slots.valid(c.Mark.Pods) {
		return Comment{}, false
	}
	return c, true
}
