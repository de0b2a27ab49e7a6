package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

func recorded(name, id, record string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name),
		Labels: map[string]string{v1beta1.LabelJobID: id}, Annotations: map[string]string{v1beta1.AnnotationJob: record},
	}}
}

// The pods of a job together know the mark that it had.
func TestMarkIsRemembered(t *testing.T) {
	for name, slots := range map[string]*Slots{
		"a node each": nil,
		"a task each": {Task: Need{CPUs: 2, Memory: 1}, Slot: []int{0, 1, 2}, Needs: []Need{{CPUs: 2, Memory: 1}}},
		"packed":      {Task: Need{CPUs: 4, Memory: 2}, Slot: []int{0, 1, 1}, Needs: []Need{{CPUs: 4}, {CPUs: 2, Memory: 1}}, Need: []int{0, 1, 1}},
	} {
		c := Comment{Pods: []string{"ns/a", "ns/b", "ns/c"}, Mark: &Mark{
			Cluster: "k", Workload: "w", Asked: "1-2", Pods: []types.UID{"a", "b", "c"}, Slots: slots,
		}}
		j := slurm.Job{ID: 7, SLUID: "s7", Flags: []string{slurm.FlagExternalJob}, AdminComment: c.Encode()}
		var pods []*corev1.Pod
		for _, uid := range []types.UID{"c", "a", "b"} {
			pods = append(pods, recorded(string(uid), "7", RecordFor(j, *c.Mark, uid)))
		}
		j.AdminComment = "mine"
		got, ok := Remembered(j, pods, "k")
		if d := cmp.Diff(c, got); !ok || d != "" {
			t.Errorf("%s: %v %s", name, ok, d)
		}
		// A member that is gone leaves its place.
		c.Pods[1], c.Mark.Pods[1] = "", ""
		got, ok = Remembered(j, pods[:2], "k")
		if d := cmp.Diff(c, got); !ok || d != "" {
			t.Errorf("%s without a member: %v %s", name, ok, d)
		}
	}
}

// What isn't the very job of a pod is nobody's business.
func TestOthersAreNotRemembered(t *testing.T) {
	ours := slurm.Job{ID: 7, SLUID: "s7", Flags: []string{slurm.FlagExternalJob}}
	mark := Mark{Cluster: "k", Workload: "w", Pods: []types.UID{"a"}}
	record := RecordFor(ours, mark, "a")
	other := Comment{Pods: []string{"ns/x"}, Mark: &Mark{Cluster: "other", Workload: "x", Pods: []types.UID{"x"}}}
	for name, c := range map[string]struct {
		change func(*slurm.Job)
		pod    *corev1.Pod
	}{
		"another job of that id":     {func(j *slurm.Job) { j.SLUID = "s8" }, recorded("a", "7", record)},
		"no external job":            {func(j *slurm.Job) { j.Flags = nil }, recorded("a", "7", record)},
		"another cluster's":          {func(j *slurm.Job) { j.AdminComment = other.Encode() }, recorded("a", "7", record)},
		"a pod that names another":   {nil, recorded("a", "8", record)},
		"a pod without a record":     {nil, recorded("a", "7", "")},
		"a record that is no JSON":   {nil, recorded("a", "7", "{")},
		"a place that isn't there":   {nil, recorded("a", "7", `{"sluid":"s7","place":1,"places":1}`)},
		"too many places":            {nil, recorded("a", "7", `{"sluid":"s7","place":1,"places":100000}`)},
		"slots that fit no such job": {nil, recorded("a", "7", `{"sluid":"s7","place":0,"places":1,"slots":{"slot":[3],"needs":[{}]}}`)},
	} {
		j := ours
		if c.change != nil {
			c.change(&j)
		}
		if got, ok := Remembered(j, []*corev1.Pod{c.pod}, "k"); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if text := RecordFor(ours, mark, "b"); text != "" {
		t.Errorf("a pod outside of the job says %s", text)
	}
}
