package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

func haFacts(backups int32) ControllerFacts {
	f := facts()
	yes := true
	f.Controller.Spec.HA = &v1beta1.ControllerHA{Enabled: true, Backups: &backups}
	f.Controller.Spec.Persistence = &v1beta1.ControllerPersistence{Enabled: &yes, ExistingClaim: "state"}
	f.Claim = &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}}}
	return f
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pods reads "0:old,ready,active 1:new,started": the pods of a StatefulSet with their states.
func pods(live *appsv1.StatefulSet, text string) []corev1.Pod {
	var out []corev1.Pod
	for field := range strings.FieldsSeq(text) {
		index, words, _ := strings.Cut(field, ":")
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: live.Name + "-" + index, Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "new"},
			CreationTimestamp: metav1.NewTime(now.Add(-time.Minute)), OwnerReferences: []metav1.OwnerReference{{UID: live.UID, Controller: ptr(true)}},
		}}
		status := corev1.ContainerStatus{Name: v1beta1.NameSlurmctld, Started: ptr(false)}
		for word := range strings.SplitSeq(words, ",") {
			switch word {
			case "old":
				p.Labels[appsv1.ControllerRevisionHashLabelKey] = "old"
			case "active":
				p.Labels[v1beta1.LabelControllerActive] = "true"
			case "ready":
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				fallthrough
			case "started":
				status.Started, status.State.Running = ptr(true), &corev1.ContainerStateRunning{}
			case "young":
				p.CreationTimestamp = metav1.NewTime(now.Add(-10 * time.Second))
			case "going":
				p.DeletionTimestamp = &metav1.Time{Time: now}
			}
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		out = append(out, p)
	}
	return out
}

// What the pods are becomes what is labelled and which one is replaced.
func TestControl(t *testing.T) {
	cases := map[string]struct {
		backups int32
		pods    string
		want    string
	}{
		"settled":                            {1, "0:ready,active 1:started", "active 0"},
		"check 15: the label moves":          {1, "0:active,started 1:ready", "active 1; label 1=true 0="},
		"nobody is in control":               {1, "0:active,started 1:started", "nobody; label 0="},
		"the active one goes":                {1, "0:ready,active,going 1:started", "nobody"},
		"a standby is replaced first":        {1, "0:ready,active,old 1:started,old", "active 0; replace 1"},
		"the last standby first":             {2, "0:ready,active,old 1:started,old 2:started,old", "active 0; replace 2"},
		"a standby in control":               {1, "0:started,old 1:ready,active,old", "active 1; replace 0"},
		"not while a standby is starting":    {1, "0:ready,active,old 1:", "active 0"},
		"not while a standby is missing":     {1, "0:ready,active,old", "active 0"},
		"not while one is on its way out":    {2, "0:ready,active,old 1:started,old 2:started,going", "active 0"},
		"the active one last":                {1, "0:ready,active,old 1:started", "active 0; replace 0"},
		"a broken one at once":               {1, "0:ready,active,old 1:old", "active 0; replace 1"},
		"not one that has just been made":    {1, "0:ready,active,old 1:old,young", "active 0; again 20s"},
		"a single one is Kubernetes' affair": {0, "0:ready,active,old", "active 0"},
		"a single broken one isn't":          {0, "0:old,active", "nobody; replace 0"},
		"a single one keeps its label":       {0, "0:", "nobody; label 0=true"},
		"two say they are in control":        {1, "0:ready 1:ready,active", "active 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := haFacts(max(1, tc.backups))
			f.Controller.Spec.HA.Enabled = tc.backups > 0
			live := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "slurm-controller", UID: "set"}, Status: appsv1.StatefulSetStatus{UpdateRevision: "new"}}
			out := ControlOf(f.Controller, live, pods(live, tc.pods), now)
			if got := describeControl(out); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func describeControl(c Control) string {
	short := func(p *corev1.Pod) string { return p.Name[len(p.Name)-1:] }
	out := []string{"nobody"}
	if c.Active != nil {
		out[0] = "active " + short(c.Active)
	}
	if len(c.Labels) > 0 {
		labels := "label"
		for _, l := range c.Labels {
			labels += " " + short(l.Pod) + "=" + l.Value
		}
		out = append(out, labels)
	}
	if c.Replace != nil {
		out = append(out, "replace "+short(c.Replace))
	}
	if c.Again > 0 {
		out = append(out, fmt.Sprintf("again %s", c.Again))
	}
	return strings.Join(out, "; ")
}

func TestCheck10GoldenHA(t *testing.T) { golden(t, "controller-ha", Controller(haFacts(2))) }

func TestCheck3ClaimOfHA(t *testing.T) {
	f := haFacts(1)
	f.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	plan := Controller(f)
	want := []Problem{{v1beta1.ReasonInvalidSpec, `spec.persistence.existingClaim: PersistentVolumeClaim "state" is not ReadWriteMany: with ha all controllers keep their state in it; name a claim with that access mode`}}
	if diff := cmp.Diff(want, plan.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if strings.Contains(kinds(plan), "StatefulSet") {
		t.Error("slurmctld is started on a claim that it can't share")
	}
	f.Claim = nil
	if plan := Controller(f); len(plan.Problems) != 1 || !strings.HasSuffix(kinds(plan), "StatefulSet") {
		t.Errorf("without the claim: objects %q, problems %v", kinds(plan), plan.Problems)
	}
}

func TestCheck19OldStatefulSetIsReplacedOnce(t *testing.T) {
	f := facts()
	plan := Controller(f)
	live := plan.Objects[len(plan.Objects)-1].(*appsv1.StatefulSet).DeepCopy()
	f.Live = live
	if p := Controller(f); p.Recreate != nil {
		t.Errorf("the wanted StatefulSet is replaced: %s", p.Recreate.Why)
	}
	live.Spec.ServiceName = "slurm-controller"
	p := Controller(f)
	if p.Recreate == nil || p.Recreate.KeepPods || strings.Contains(kinds(p), "StatefulSet") {
		t.Errorf("recreate %+v, objects %q", p.Recreate, kinds(p))
	}
	live.DeletionTimestamp = &metav1.Time{Time: now}
	if p := Controller(f); p.Recreate != nil {
		t.Error("it is deleted a second time")
	}
}

// Turning high availability on must not restart the slurmctld that runs.
func TestTurningHAOnKeepsThePods(t *testing.T) {
	single := Controller(facts())
	f := haFacts(1)
	f.Live = single.Objects[len(single.Objects)-1].(*appsv1.StatefulSet)
	if p := Controller(f); p.Recreate == nil || !p.Recreate.KeepPods {
		t.Errorf("recreate %+v", p.Recreate)
	}
	back := facts()
	plan := Controller(haFacts(1))
	back.Live = plan.Objects[len(plan.Objects)-1].(*appsv1.StatefulSet)
	if p := Controller(back); p.Recreate != nil {
		t.Errorf("turning it off: recreate %+v", p.Recreate)
	}
}
