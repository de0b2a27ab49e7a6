package nodeset

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

func TestCheck56TakeOver(t *testing.T) {
	f := facts(1).withPod("cpu-0", "IDLE")
	f.NodeSet.Spec.Slurmd = raw(`{"image":"slurmd:1","resources":{"limits":{"cpu":"1000m"}}}`)
	// As another version of Kubernetes' types writes it, with a user's labels and a number that means nothing.
	f.Revisions = []appsv1.ControllerRevision{{
		ObjectMeta: metav1.ObjectMeta{Name: "cpu-5d4f8", UID: "r", Labels: map[string]string{v1beta1.LabelRevisionHash: "5d4f8"}}, Revision: 1,
		Data: runtime.RawExtension{Raw: []byte(`{"spec":{"logfile":{"$patch":"replace","name":"","resources":{}},"ordinalPadding":0,"oversubscribeNode":false,` +
			`"slurmd":{"$patch":"replace","image":"slurmd:1","name":"","resources":{"limits":{"cpu":"1"}}},"template":{"$patch":"replace","metadata":{},"spec":{"containers":null,"volumes":[]}}}}`)},
	}}
	f.Pods[0].Labels[v1beta1.LabelRevisionHash] = "5d4f8"
	p := wantSteps(t, f, "update revision cpu-5d4f8: it is what the spec says")
	if p.Status.NodeSetHash != "5d4f8" || p.Status.UpdatedReplicas != 1 {
		t.Errorf("status %+v", p.Status)
	}
	if got := p.Steps[0].Revision; got.Revision != 1 || got.Labels[v1beta1.LabelInstance] != "cpu" {
		t.Errorf("revision %+v", got)
	}
	f.NodeSet.Spec.Slurmd = raw(`{"image":"slurmd:2"}`)
	if p = Make(f); p.Steps[0].Action != CreateRevision || p.Status.UpdatedReplicas != 0 {
		t.Errorf("another image: %v", steps(p))
	}
}

func TestRevisionHistory(t *testing.T) {
	f := facts(1).settled()
	for i := range 4 {
		f.NodeSet.Spec.ExtraConf = fmt.Sprintf("Weight=%d", i)
		f.NodeSet.Spec.RevisionHistoryLimit = 10
		f = f.settled()
	}
	if len(f.Revisions) != 5 || f.Revisions[4].Revision != 5 {
		t.Fatalf("%d revisions, last %d", len(f.Revisions), f.Revisions[len(f.Revisions)-1].Revision)
	}
	f.NodeSet.Spec.ExtraConf = "Weight=1" // back
	p := Make(f)
	if s := p.Steps[0]; s.Action != UpdateRevision || s.Revision.Revision != 6 || s.Revision.Name != f.Revisions[2].Name {
		t.Errorf("a rollback: %v", steps(p))
	}
	f.NodeSet.Spec.RevisionHistoryLimit = 1
	var deleted []string
	for _, s := range Make(f).Steps {
		if s.Action == DeleteRevision {
			deleted = append(deleted, s.Revision.Name)
		}
	}
	if diff := cmp.Diff([]string{f.Revisions[0].Name, f.Revisions[1].Name, f.Revisions[3].Name}, deleted); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
}

func TestRegistrationLimit(t *testing.T) {
	f := facts(10).settled()
	f.NodeSet.Spec.RegistrationLimit = new(int32(3))
	wantSteps(t, f, "create cpu-0: 0 of 10 workers exist", "create cpu-1: 0 of 10 workers exist", "create cpu-2: 0 of 10 workers exist")
	f = f.withPod("cpu-0", "IDLE").withPod("cpu-1")
	wantSteps(t, f, "create cpu-2: 2 of 10 workers exist", "create cpu-3: 2 of 10 workers exist")
}

func TestBurst(t *testing.T) {
	made := 0
	for _, s := range Make(facts(1000)).Steps {
		if s.Action == CreatePod {
			made++
		}
	}
	if made != burst {
		t.Errorf("%d pods in one plan, want %d", made, burst)
	}
}

func TestOrphansAreAdopted(t *testing.T) {
	f := facts(2).withPod("cpu-0", "IDLE").settled()
	f.Orphans, f.Pods = f.Pods, nil
	f.Orphans = append(f.Orphans, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "cpu-x", Labels: map[string]string{
		v1beta1.LabelNodeSetScalingMode: string(v1beta1.ScalingModeStatefulSet)}}})
	wantSteps(t, f, "adopt cpu-0: nobody controls it", "create cpu-1: 0 of 2 workers exist")
}

func TestRecordsOfADeletedNodeSet(t *testing.T) {
	f := daemons("a")
	f.NodeSet.DeletionTimestamp, f.NodeSet.Finalizers = &metav1.Time{Time: f.Now}, []string{v1beta1.FinalizerDrain}
	f.Pods = nil
	mark, err := json.Marshal(workernode.Mark{Namespace: "slurm", PodName: "cpu-x", Node: "a", NodeSet: "cpu", NodeSetUID: "set"})
	if err != nil {
		t.Fatal(err)
	}
	f.Slurm.Nodes["a"] = slurm.Node{Name: "a", Comment: string(mark), Reason: v1beta1.ReasonPodTerminating, States: slurm.StatesOf("DOWN", "DRAIN")}
	if p := wantSteps(t, f, "forget a: its pod is gone"); !slices.Contains(p.Finalizers, v1beta1.FinalizerDrain) {
		t.Error("the NodeSet goes before its records")
	}
	delete(f.Slurm.Nodes, "a")
	if p := wantSteps(t, f); len(p.Finalizers) > 0 {
		t.Errorf("kept by %v", p.Finalizers)
	}
}
