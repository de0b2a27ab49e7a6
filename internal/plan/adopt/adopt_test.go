package adopt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/internal/plan/policy"
)

const ours = "slurm-bridge-scheduler"

func facts(managed bool) Facts {
	return Facts{
		SchedulerName: ours, Managed: managed, Environment: "none",
		Rules: policy.For(policy.Settings{}, "ns", map[string]string{"slurmjob-allowed.slinky.slurm.net/account": "physics"}, nil),
	}
}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	for _, f := range change {
		f(p)
	}
	return p
}

func scheduler(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = name }
}

func note(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func ownedBy(apiVersion, kind string) func(*corev1.Pod) {
	yes := true
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "o", UID: "o", Controller: &yes}}
	}
}

func toleration(effect corev1.TaintEffect, value string, seconds ...int64) corev1.Toleration {
	t := corev1.Toleration{Key: "slinky.slurm.net/managed-node", Operator: corev1.TolerationOpEqual, Value: value, Effect: effect}
	if len(seconds) > 0 {
		t.TolerationSeconds = &seconds[0]
	}
	return t
}

// TestAdoption: who is adopted, and what becomes of the pod.
func TestAdoption(t *testing.T) {
	group := func(p *corev1.Pod) {
		name := "g"
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		managed bool
		adopted bool
		// defaults tells whether the namespace's defaults are written to it.
		defaults bool
	}{
		"managed":                       {pod(scheduler("default-scheduler")), true, true, true},
		"managed, no name":              {pod(), true, true, true},
		"managed, ours by name":         {pod(scheduler(ours)), true, true, true},
		"managed, another scheduler":    {pod(scheduler("third")), true, false, false},
		"elsewhere":                     {pod(scheduler("default-scheduler")), false, false, false},
		"elsewhere, ours by name":       {pod(scheduler(ours)), false, true, true},
		"S072: of a DaemonSet":          {pod(ownedBy("apps/v1", "DaemonSet")), true, false, false},
		"S072: a mirror pod":            {pod(note("kubernetes.io/config.mirror", "x")), true, false, false},
		"of a kind of that name":        {pod(ownedBy("example.com/v1", "DaemonSet")), true, true, false},
		"of a Job":                      {pod(ownedBy("batch/v1", "Job")), true, true, false},
		"S074: of a LeaderWorkerSet":    {pod(ownedBy("apps/v1", "StatefulSet")), true, true, false},
		"of a PodGroup":                 {pod(group), true, true, false},
		"of a coscheduling PodGroup":    {pod(func(p *corev1.Pod) { p.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "g"} }), true, true, false},
		"with an account of its choice": {pod(note("slurmjob.slinky.slurm.net/account", "other")), true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.pod.DeepCopy()
			Pod(p, facts(c.managed))
			if got := p.Spec.SchedulerName == ours; got != c.adopted {
				t.Errorf("scheduler %q", p.Spec.SchedulerName)
			}
			if got := p.Annotations["slurmjob.slinky.slurm.net/account"] == "physics"; got != c.defaults {
				t.Errorf("annotations %v", p.Annotations)
			}
			if !c.adopted && !cmp.Equal(p, c.pod) {
				t.Errorf("it was changed: %s", cmp.Diff(c.pod, p))
			}
			again := p.DeepCopy()
			Pod(again, facts(c.managed))
			if d := cmp.Diff(p, again); d != "" {
				t.Errorf("the second time changes it again: %s", d)
			}
		})
	}
}

func TestTolerating(t *testing.T) {
	both := []corev1.Toleration{toleration(corev1.TaintEffectNoExecute, ours), toleration(corev1.TaintEffectNoSchedule, ours)}
	for name, c := range map[string]struct{ have, want []corev1.Toleration }{
		"none":                        {nil, both},
		"those already":               {both, nil},
		"all taints":                  {[]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, nil},
		"of another bridge":           {[]corev1.Toleration{toleration("", "other")}, append([]corev1.Toleration{toleration("", "other")}, both...)},
		"any effect":                  {[]corev1.Toleration{toleration("", ours)}, nil},
		"for a while only":            {[]corev1.Toleration{toleration(corev1.TaintEffectNoExecute, ours, 5), both[1]}, []corev1.Toleration{toleration(corev1.TaintEffectNoExecute, ours, 5), both[1], both[0]}},
		"one effect":                  {both[:1], both},
		"the key, whatever its value": {[]corev1.Toleration{{Key: "slinky.slurm.net/managed-node", Operator: corev1.TolerationOpExists}}, nil},
	} {
		if d := cmp.Diff(c.want, Tolerating(c.have, ours)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestChanges: what may change, by whom.
func TestChanges(t *testing.T) {
	const account, job = "slurmjob.slinky.slurm.net/account", "scheduler.slinky.slurm.net/slurm-jobid"
	running := func(p *corev1.Pod) {
		p.Labels = map[string]string{job: "7"}
		p.Status.Phase = corev1.PodRunning
	}
	now := metav1.Now()
	for name, c := range map[string]struct {
		old, pod *corev1.Pod
		bridge   bool
		want     string
	}{
		"a label":                         {pod(), pod(func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), false, ""},
		"the job":                         {pod(running), pod(), false, `label scheduler.slinky.slurm.net/slurm-jobid is the bridge's: it can't be changed from "7" to ""`},
		"the job, by the bridge":          {pod(), pod(running), true, ""},
		"the node":                        {pod(), pod(note("slinky.slurm.net/slurm-node", "n")), false, "slurm-node is the bridge's"},
		"the cores":                       {pod(), pod(note("slinky.slurm.net/slurm-cores", "0-3")), false, "slurm-cores is the bridge's"},
		"the peers":                       {pod(), pod(note("slinky.slurm.net/slurm-peers", "x")), false, "slurm-peers is the bridge's"},
		"another account":                 {pod(), pod(note(account, "other")), false, "may only have physics"},
		"S073: a status":                  {pod(note(account, "other")), pod(note(account, "other"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), false, ""},
		"S073: a finalizer":               {pod(note(account, "other"), func(p *corev1.Pod) { p.Finalizers = []string{"x/y"} }), pod(note(account, "other")), false, ""},
		"one that is deleted":             {pod(running), pod(func(p *corev1.Pod) { p.DeletionTimestamp = &now }), false, ""},
		"an annotation on an owned pod":   {pod(ownedBy("batch/v1", "Job")), pod(ownedBy("batch/v1", "Job"), note(account, "other")), false, ""},
		"gres beside a GPU, too late":     {gpu(pod()), gpu(pod(note("slurmjob.slinky.slurm.net/gres", "gpu:1"))), false, "gres contradicts"},
		"gres beside a GPU, as it was":    {gpu(pod(note("slurmjob.slinky.slurm.net/gres", "gpu:1"))), gpu(pod(note("slurmjob.slinky.slurm.net/gres", "gpu:1"), note("a", "b"))), false, ""},
		"with another scheduler: its job": {pod(scheduler("third")), pod(scheduler("third"), running), false, "slurm-jobid"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range []*corev1.Pod{c.old, c.pod} {
				if p.Spec.SchedulerName == "" {
					p.Spec.SchedulerName = ours
				}
			}
			want(t, Changed(c.old, c.pod, facts(true), c.bridge), c.want)
		})
	}
}

func gpu(p *corev1.Pod) *corev1.Pod {
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"deviceclass.resource.kubernetes.io/gpu.nvidia.com": resource.MustParse("1")}
	return p
}

func want(t *testing.T, v Verdict, text string) {
	t.Helper()
	if got := strings.Join(v.Refusals, "\n"); (text == "") != (got == "") || !strings.Contains(got, text) {
		t.Errorf("got  %q\nwant %q", got, text)
	}
}

// TestOwners: W24, S091: the annotations that count are looked at where they are.
func TestOwners(t *testing.T) {
	template := func(change ...func(*corev1.Pod)) corev1.PodTemplateSpec {
		p := pod(change...)
		return corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
	}
	annotations := func(key, value string) map[string]string {
		return map[string]string{"slurmjob.slinky.slurm.net/" + key: value}
	}
	for name, c := range map[string]struct {
		owner   Owner
		managed bool
		refused string
		warned  string
	}{
		"managed":                          {Owner{Annotations: annotations("account", "other"), Templates: []corev1.PodTemplateSpec{template()}}, true, "may only have physics", ""},
		"elsewhere":                        {Owner{Annotations: annotations("account", "other"), Templates: []corev1.PodTemplateSpec{template()}}, false, "", ""},
		"elsewhere, for our scheduler":     {Owner{Annotations: annotations("account", "other"), Templates: []corev1.PodTemplateSpec{template(), template(scheduler(ours))}}, false, "may only have physics", ""},
		"managed, for another scheduler":   {Owner{Annotations: annotations("account", "other"), Templates: []corev1.PodTemplateSpec{template(scheduler("third"))}}, true, "", ""},
		"a PodGroup, elsewhere":            {Owner{Annotations: annotations("account", "other")}, false, "may only have physics", ""},
		"a Job that a JobSet owns":         {Owner{Kind: "Job", Owned: true, Annotations: annotations("account", "other"), Templates: []corev1.PodTemplateSpec{template()}}, true, "", "have no effect where an object above this Job speaks for its pods: slurmjob.slinky.slurm.net/account"},
		"a template that contradicts it":   {Owner{Kind: "Job", Name: "j", Annotations: annotations("gres", "gpu:1"), Templates: []corev1.PodTemplateSpec{template(func(p *corev1.Pod) { gpu(p) })}}, true, "gres contradicts deviceclass.resource.kubernetes.io/gpu.nvidia.com of pod of Job j", ""},
		"a bad environment in a template":  {Owner{Templates: []corev1.PodTemplateSpec{template(note("slinky.slurm.net/environment", "x"))}}, true, `"x" is none of`, ""},
		"a deadline has nothing to exceed": {Owner{Deadline: 1 << 40, Templates: []corev1.PodTemplateSpec{template()}}, true, "", ""},
		"the old prefix":                   {Owner{Annotations: map[string]string{"slinky.slurm.net/timelimit": "5"}, Templates: []corev1.PodTemplateSpec{template()}}, true, "", "have no effect, because job annotations are known ones"},
	} {
		t.Run(name, func(t *testing.T) {
			v := NewOwner(c.owner, facts(c.managed))
			want(t, v, c.refused)
			if got := strings.Join(v.Warnings, "\n"); (c.warned == "") != (got == "") || !strings.Contains(got, c.warned) {
				t.Errorf("warned %q, want %q", got, c.warned)
			}
			want(t, OwnerChanged(c.owner, c.owner, facts(c.managed)), "")
		})
	}
}
