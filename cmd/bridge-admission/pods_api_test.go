package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/internal/apitest"
)

func variable(p *corev1.Pod, name string) string {
	for _, v := range p.Spec.Containers[0].Env {
		switch {
		case v.Name != name:
		case v.ValueFrom != nil:
			return v.ValueFrom.FieldRef.FieldPath
		default:
			return v.Value
		}
	}
	return ""
}

func (s *suite) testAdoption(t *testing.T) {
	t.Run("S072: a pod of a managed namespace, with a node of its own choice", func(t *testing.T) {
		p := pod("managed", "adopted", func(p *corev1.Pod) { p.Spec.NodeName = "mine" })
		s.create(t, p)
		if p.Spec.SchedulerName != scheduler || p.Spec.NodeName != "" {
			t.Errorf("scheduler %q, node %q", p.Spec.SchedulerName, p.Spec.NodeName)
		}
		tolerated := slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.Key == "slinky.slurm.net/managed-node" && t.Value == scheduler && t.Effect == corev1.TaintEffectNoExecute
		})
		if !tolerated {
			t.Errorf("tolerations %v", p.Spec.Tolerations)
		}
		for key, want := range map[string]string{"user-id": "alice", "account": "physics", "timelimit": "5"} {
			if got := p.Annotations["slurmjob.slinky.slurm.net/"+key]; got != want {
				t.Errorf("default %s is %q, want %q", key, got, want)
			}
		}
		for name, want := range map[string]string{
			"OMP_NUM_THREADS": "2", "GOMAXPROCS": "2", "SLURM_CPUS_PER_TASK": "2", "RANK": "",
			"SLURM_JOB_ID": "metadata.labels['scheduler.slinky.slurm.net/slurm-jobid']",
			"SLURM_PROCID": "metadata.annotations['slinky.slurm.net/slurm-procid']",
		} {
			if got := variable(p, name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
	t.Run("a pod that names the scheduler elsewhere", func(t *testing.T) {
		p := pod("elsewhere", "named", scheduledBy(scheduler))
		s.create(t, p)
		if variable(p, "OMP_NUM_THREADS") != "2" || len(p.Annotations) > 0 {
			t.Errorf("not adopted: %v %v", p.Spec.Containers[0].Env, p.Annotations)
		}
	})
	t.Run("others stay as they are", func(t *testing.T) {
		yes := true
		daemon := func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "u", Controller: &yes}}
			p.Spec.NodeName = "its-node"
		}
		for name, p := range map[string]*corev1.Pod{
			"elsewhere":         pod("elsewhere", "plain"),
			"a daemon's":        pod("managed", "daemon", daemon),
			"another scheduler": pod("managed", "third", scheduledBy("third")),
		} {
			before := p.Spec.DeepCopy()
			s.create(t, p)
			if want := before.SchedulerName; want != "" && p.Spec.SchedulerName != want {
				t.Errorf("%s: scheduler %s", name, p.Spec.SchedulerName)
			}
			if p.Spec.SchedulerName == scheduler || p.Spec.NodeName != before.NodeName || len(p.Spec.Containers[0].Env) > 0 || len(p.Annotations) > 0 {
				t.Errorf("%s: %v %v", name, p.Annotations, p.Spec)
			}
		}
	})
	t.Run("a pod that wants to know nothing", func(t *testing.T) {
		p := pod("free", "silent", annotated("slinky.slurm.net/environment", "none"))
		s.create(t, p)
		if len(p.Spec.Containers[0].Env) > 0 || p.Annotations["slurmjob.slinky.slurm.net/exclusive"] != "false" {
			t.Errorf("%v %v", p.Annotations, p.Spec.Containers[0].Env)
		}
	})
}

// testRefusals has the published refusals, each with its case, and ours.
func (s *suite) testRefusals(t *testing.T) {
	const job, class = "slurmjob.slinky.slurm.net/", corev1.ResourceName("deviceclass.resource.kubernetes.io/")
	cases := map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"S088: a job of its own choice":      {pod("managed", "p", labelled("scheduler.slinky.slurm.net/slurm-jobid", "7")), "slurm-jobid is the bridge's"},
		"S088: a node of its own choice":     {pod("managed", "p", annotated("slinky.slurm.net/slurm-node", "n")), "slurm-node is the bridge's"},
		"a rank of its own choice":           {pod("managed", "p", annotated("slinky.slurm.net/slurm-procid", "0")), "slurm-procid is the bridge's"},
		"elsewhere, too":                     {pod("elsewhere", "p", scheduledBy(scheduler), labelled("scheduler.slinky.slurm.net/slurm-jobid", "7")), "slurm-jobid is the bridge's"},
		"with a third scheduler, too":        {pod("managed", "p", scheduledBy("third"), labelled("scheduler.slinky.slurm.net/slurm-jobid", "7")), "slurm-jobid is the bridge's"},
		"cpu and dra.cpu":                    {pod("managed", "p", limited(class+"dra.cpu", "2")), "pod p asks for cpu and for deviceclass.resource.kubernetes.io/dra.cpu"},
		"an unknown class":                   {pod("managed", "p", limited(class+"fpga.example.org", "1")), ""},
		"a GPU class and gres":               {pod("managed", "p", limited(class+"gpu.nvidia.com", "1"), annotated(job+"gres", "gpu:1")), "gres contradicts deviceclass.resource.kubernetes.io/gpu.nvidia.com"},
		"a GPU class":                        {pod("managed", "p", limited(class+"gpu.nvidia.com", "1")), ""},
		"S091: a time limit":                 {pod("managed", "p", annotated(job+"timelimit", "1-00:00:00")), `annotation slurmjob.slinky.slurm.net/timelimit: "1-00:00:00" is not a whole number of minutes`},
		"S091: a negative number":            {pod("free", "p", annotated(job+"min-nodes", "-1")), `"-1" is not a whole number of 1 or more`},
		"a bad environment":                  {pod("free", "p", annotated("slinky.slurm.net/environment", "treads")), `"treads" is none of threads`},
		"another user":                       {pod("managed", "p", annotated(job+"user-id", "root")), `annotation slurmjob.slinky.slurm.net/user-id is "root": jobs of namespace managed may only have alice (annotation slurmjob-allowed.slinky.slurm.net/user-id of Namespace managed)`},
		"another user's group":               {pod("managed", "p", annotated(job+"group-id", "wheel")), "has a rule for user-id and none for group-id"},
		"an account of the namespace's":      {pod("managed", "p", annotated(job+"account", "chemistry")), ""},
		"another account":                    {pod("managed", "p", annotated(job+"account", "biology")), "may only have physics, chemistry"},
		"too long":                           {pod("managed", "p", annotated(job+"timelimit", "61")), "has 60 minutes at most"},
		"without end":                        {pod("managed", "p", annotated(job+"timelimit", "0")), "has 60 minutes at most"},
		"the longest":                        {pod("managed", "p", annotated(job+"timelimit", "60")), ""},
		"a namespace without rules":          {pod("free", "p", annotated(job+"user-id", "root")), ""},
		"what another scheduler understands": {pod("elsewhere", "p", annotated(job+"timelimit", "never")), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			refused(t, s.admin.Create(t.Context(), c.pod, client.DryRunAll), c.want)
		})
	}
	t.Run("the prefix of old releases", func(t *testing.T) {
		s.warnings.Take()
		refused(t, s.admin.Create(t.Context(), pod("free", "p", annotated("slinky.slurm.net/account", "physics")), client.DryRunAll), "")
		if said := s.warnings.Take(); !strings.Contains(said, "have no effect") || !strings.Contains(said, "slinky.slurm.net/account") {
			t.Errorf("warnings: %q", said)
		}
	})
}

func (s *suite) testChanges(t *testing.T) {
	p := pod("managed", "changed")
	s.create(t, p)
	refused(t, s.patch(t, s.admin, p, `{"metadata":{"labels":{"a":"b"}}}`), "")
	refused(t, s.patch(t, s.admin, p, `{"metadata":{"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"7"}}}`), `can't be changed from "" to "7"`)
	refused(t, s.patch(t, s.admin, p, `{"metadata":{"annotations":{"slinky.slurm.net/slurm-node":"n"}}}`), `can't be changed from "" to "n"`)
	refused(t, s.patch(t, s.bridge, p, `{"metadata":{"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"7"},"annotations":{"slinky.slurm.net/slurm-node":"n"}}}`), "")
	refused(t, s.patch(t, s.admin, p, `{"metadata":{"labels":{"scheduler.slinky.slurm.net/slurm-jobid":null}}}`), `can't be changed from "7" to ""`)
	refused(t, s.patch(t, s.admin, p, `{"metadata":{"annotations":{"slurmjob.slinky.slurm.net/account":"biology"}}}`), "may only have physics, chemistry")
	refused(t, s.patch(t, s.admin, p, `{"metadata":{"annotations":{"slurmjob.slinky.slurm.net/account":"chemistry"}}}`), "")
	refused(t, s.admin.SubResource("resize").Patch(t.Context(), p, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"containers":[{"name":"main","image":"none","resources":{"requests":{"cpu":"3"}}}]}}`))), "can't be resized in place")
	s.testSubresources(t, p)
	t.Run("W13: a namespace that is managed later", func(t *testing.T) {
		// It was made before admission looked at it: with the default scheduler, and with what is refused now.
		old := pod("elsewhere", "old", labelled("scheduler.slinky.slurm.net/slurm-jobid", "7"))
		s.create(t, old)
		refused(t, s.patch(t, s.admin, old, `{"metadata":{"finalizers":["example.com/x"]}}`), "")
		refused(t, s.patch(t, s.admin, old, `{"metadata":{"finalizers":null}}`), "")
	})
}

// testSubresources: no way around a pod's own resource changes what is the bridge's.
func (s *suite) testSubresources(t *testing.T, p *corev1.Pod) {
	const forged = `{"metadata":{"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"8"},"annotations":{"slinky.slurm.net/slurm-job":"{}"}}`
	through := func(by client.Client, subresource, text string) error {
		return by.SubResource(subresource).Patch(t.Context(), p.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	refused(t, through(s.admin, "status", forged+`}`), `can't be changed from "7" to "8"`)
	refused(t, through(s.admin, "status", `{"metadata":{"annotations":{"slinky.slurm.net/slurm-node":null}}}`), `can't be changed from "n" to ""`)
	refused(t, through(s.admin, "status", `{"metadata":{"annotations":{"slurmjob.slinky.slurm.net/account":"biology"}}}`), "may only have physics, chemistry")
	// Kubelet's own writes, and those of a network plugin.
	refused(t, through(s.admin, "status", `{"metadata":{"annotations":{"network.example.com/ip":"10.0.0.1"}},"status":{"reason":"Busy"}}`), "")
	// Kubernetes takes no metadata this way; were that to change, the test would tell.
	for subresource, spec := range map[string]string{
		"ephemeralcontainers": `{"ephemeralContainers":[{"name":"debug","image":"none"}]}`,
		"resize":              `{"containers":[{"name":"main","image":"none","resources":{"requests":{"cpu":"1"}}}]}`,
	} {
		err := through(s.admin, subresource, forged+`,"spec":`+spec+`}`)
		var now corev1.Pod
		s.get(t, p.Namespace, p.Name, &now)
		if id := now.Labels["scheduler.slinky.slurm.net/slurm-jobid"]; id != "7" || now.Annotations["slinky.slurm.net/slurm-job"] != "" {
			t.Errorf("%s changed the pod's job to %q (%v)", subresource, id, err)
		}
	}
	bind := func(annotations map[string]string) error {
		return s.admin.SubResource("binding").Create(t.Context(), p.DeepCopy(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Annotations: annotations}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"},
		})
	}
	refused(t, bind(map[string]string{"slinky.slurm.net/slurm-cores": "0-63"}), `annotation slinky.slurm.net/slurm-cores can't be set to "0-63" by a binding`)
	refused(t, bind(map[string]string{"slurmjob.slinky.slurm.net/account": "biology"}), "can't be set to \"biology\" by a binding")
	refused(t, bind(nil), "")
}

func (s *suite) testOwners(t *testing.T) {
	job := func(namespace string, annotations map[string]string, change ...func(*corev1.PodSpec)) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "j", Annotations: annotations}}
		j.Spec.Template.Spec = pod(namespace, "p").Spec
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		for _, f := range change {
			f(&j.Spec.Template.Spec)
		}
		return j
	}
	own := func(key, value string) map[string]string {
		return map[string]string{"slurmjob.slinky.slurm.net/" + key: value}
	}
	devices := func(p *corev1.PodSpec) {
		p.Containers[0].Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{"deviceclass.resource.kubernetes.io/dra.cpu": resource.MustParse("2")}}
	}
	long := int64(7200)
	late := job("managed", nil)
	late.Spec.ActiveDeadlineSeconds = &long
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "managed", Name: "g", Annotations: own("account", "biology")},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}}}}
	for name, c := range map[string]struct {
		o    client.Object
		want string
	}{
		"a Job of another account":                {job("managed", own("account", "biology")), "may only have physics, chemistry"},
		"a Job":                                   {job("managed", own("account", "chemistry")), ""},
		"a Job that is too long by its deadline":  {late, "activeDeadlineSeconds asks for 120 minutes"},
		"W24: a Job that contradicts its devices": {job("free", own("cpu-per-task", "4"), devices), "cpu-per-task contradicts deviceclass.resource.kubernetes.io/dra.cpu of pod of Job j"},
		"a Job with a bad number":                 {job("free", own("max-nodes", "many")), `"many" is not a whole number`},
		"a Job for another scheduler":             {job("elsewhere", own("max-nodes", "many")), ""},
		"a PodGroup of another account":           {group, "may only have physics, chemistry"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, s.admin.Create(t.Context(), c.o, client.DryRunAll), c.want)
		})
	}
	t.Run("a change", func(t *testing.T) {
		j := job("managed", nil)
		s.create(t, j)
		refused(t, s.patch(t, s.admin, j, `{"metadata":{"annotations":{"slurmjob.slinky.slurm.net/qos":"","slurmjob.slinky.slurm.net/user-id":"bob"}}}`), "may only have alice")
		refused(t, s.patch(t, s.admin, j, `{"metadata":{"labels":{"a":"b"}}}`), "")
	})
}

// testRules: what an administrator writes counts at once, and a tenant's doesn't.
func (s *suite) testRules(t *testing.T) {
	asRoot := func() error {
		return s.admin.Create(t.Context(), pod("free", "p", annotated("slurmjob.slinky.slurm.net/user-id", "root")), client.DryRunAll)
	}
	s.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "managed", Name: "slurm-bridge-policy"},
		Data: map[string]string{"managed": `allowed: {user-id: "*"}`}})
	refused(t, s.admin.Create(t.Context(), pod("managed", "p", annotated("slurmjob.slinky.slurm.net/user-id", "root")), client.DryRunAll), "may only have alice")
	rules := &corev1.ConfigMap{}
	s.get(t, "slinky", "slurm-bridge-policy", rules)
	for _, step := range []struct{ key, text, want string }{
		{"_default", "allowed: {user-id: bob}", "may only have bob (key _default of ConfigMap slinky/slurm-bridge-policy)"},
		{"free", `allowed: {user-id: "*"}`, ""},
		{"free", `allow: {user-id: "*"}`, "until an administrator mends its rules: key free of ConfigMap slinky/slurm-bridge-policy"},
		{"free", `allowed: {usr-id: "*"}`, `there is no rule allowed for "usr-id"`},
	} {
		rules.Data[step.key] = step.text
		s.update(t, rules)
		apitest.Eventually(t, time.Minute, step.text+" counts", func() error {
			err := asRoot()
			if step.want != "" && err != nil && strings.Contains(err.Error(), step.want) {
				return nil
			}
			return err
		})
		refused(t, asRoot(), step.want)
	}
	if err := s.admin.Delete(t.Context(), rules); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, time.Minute, "without the ConfigMap nothing is allowed", func() error {
		err := s.admin.Create(t.Context(), pod("free", "p"), client.DryRunAll)
		if err != nil && strings.Contains(err.Error(), "doesn't exist") {
			return nil
		}
		return err
	})
}

// testAway: while admission is away, what isn't Slurm's goes on, and so does what was let in.
func (s *suite) testAway(t *testing.T) {
	p := &corev1.Pod{}
	s.get(t, "managed", "adopted", p)
	s.stop()
	refused(t, s.admin.Create(t.Context(), pod("elsewhere", "meanwhile")), "")
	refused(t, s.patch(t, s.admin, p, `{"metadata":{"finalizers":["example.com/x"]}}`), "")
	refused(t, s.patch(t, s.bridge, p, `{"metadata":{"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"8"}}}`), "")
	if err := s.admin.SubResource("status").Patch(t.Context(), p, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`))); err != nil {
		t.Errorf("status: %v", err)
	}
	zero := int64(0)
	if err := s.admin.Delete(t.Context(), p, &client.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Errorf("delete: %v", err)
	}
	refused(t, s.patch(t, s.admin, p, `{"metadata":{"finalizers":null}}`), "")
	if err := s.admin.Create(t.Context(), pod("managed", "unseen")); err == nil {
		t.Error("a pod of a managed namespace was let in without a question")
	}
}
