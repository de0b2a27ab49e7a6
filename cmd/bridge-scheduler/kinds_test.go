package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// TestKinds runs workloads of every kind on one cluster of three nodes, whose API server has
// PodGroups in v1alpha3. The custom resources come while the bridge runs. The test plays their controllers.
func TestKinds(t *testing.T) {
	w := newWorldOf(t, slurmtest.Options{}, "v1alpha3", config.OwnerKind{
		Group: "example.com", Version: "v1", Kind: "Crew", Resource: "crews", GangLabel: "example.com/crew",
	})
	for _, story := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"kinds that are installed later", w.kindsComeLater},
		{"a JobSet", w.jobSet},
		{"a PodGroup of v1alpha3", w.alphaGroup},
		{"a PodGroup of the coscheduling plugin", w.coscheduling},
		{"the examples of installed kinds", func(t *testing.T) {
			w.examples(t, "coscheduling.yaml", "duo-0", "duo-1")
			w.examples(t, "jobset.yaml")
			w.examples(t, "lws.yaml")
		}},
		{"one group name in two namespaces", w.twoNamespaces},
		{"a LeaderWorkerSet of two shapes", w.twoShapes},
		{"LeaderWorkerSet groups that don't all fit", w.groupsContend},
		{"workers that come once their leader runs", w.workersComeLater},
		{"a gang of a configured kind", w.configuredGang},
		{"an owner that may not be read", w.forbiddenOwner},
		{"a group that changes while its job waits", w.groupChanges},
		{"a group of more pods than must start together", w.growing},
		{"what a group is to have in sum", w.asksTogether},
		{"a part of a composite group", w.composite},
		{"annotations that contradict each other", w.contradictions},
		{"a Job that changes while its pod's job waits", w.jobChanges},
		{"a group that can never fit", w.neverFits},
	} {
		if !t.Run(story.name, func(t *testing.T) {
			story.run(t)
			w.empty(t)
		}) {
			return
		}
	}
}

// create creates an object from its manifest.
func (w *world) create(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		t.Fatal(err)
	}
	return w.add(t, u)
}

func (w *world) add(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	if u.GetNamespace() == "" && u.GetKind() != "Namespace" {
		u.SetNamespace(namespace)
	}
	c := w.client(t)
	// A custom resource is served a moment after its definition is there.
	w.eventually(t, "create "+u.GetKind()+" "+u.GetName(), func() error { return c.Create(t.Context(), u) })
	return u
}

// examples creates what an example has, and waits until its pods run together.
func (w *world) examples(t *testing.T, file string, pods ...string) {
	t.Helper()
	for _, u := range w.server.Manifests(t, "examples", "bridge", file) {
		w.add(t, u)
	}
	jobs := map[uint32]bool{}
	for _, name := range pods {
		jobs[w.job(t, w.bound(t, name)).ID] = true
	}
	if len(pods) > 0 && len(jobs) != 1 {
		t.Errorf("the pods of %s are in %d jobs", file, len(jobs))
	}
}

func (w *world) client(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(w.server.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// merge changes an object by a merge patch.
func (w *world) merge(t *testing.T, u *unstructured.Unstructured, patch string) {
	t.Helper()
	if err := w.client(t).Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// under makes an object the controller of a pod.
func under(u *unstructured.Unstructured) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences = owners(u) }
}

func owners(u *unstructured.Unstructured) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), Controller: &yes}}
}

// owned creates an object that another controls.
func (w *world) owned(t *testing.T, by *unstructured.Unstructured, manifest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetNamespace(namespace)
	u.SetOwnerReferences(owners(by))
	if err := w.client(t).Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	return u
}

func labelled(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		for i := 0; i < len(pairs); i += 2 {
			p.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

func cpus(n string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(n)
	}
}

func all(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, c := range changes {
			c(p)
		}
	}
}

// event waits for an event about an object that says something.
func (w *world) event(t *testing.T, kind, name, reason, text string) {
	t.Helper()
	w.eventually(t, "event "+reason+" of "+kind+" "+name, func() error {
		list, err := w.kube.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var notes []string
		for _, e := range list.Items {
			if e.Regarding.Kind == kind && e.Regarding.Name == name {
				if e.Reason == reason && strings.Contains(e.Note, text) {
					return nil
				}
				notes = append(notes, e.Reason+": "+e.Note)
			}
		}
		return fmt.Errorf("%w: there are %q", errWait, notes)
	})
}

// says waits until a pod says a text while it waits for a reason.
func (w *world) says(t *testing.T, name, reason, text string) {
	t.Helper()
	w.eventually(t, "pod "+name+" says "+text, func() error {
		if now := w.held(t, name, reason); !strings.Contains(now, text) {
			return fmt.Errorf("%w: it says %q", errWait, now)
		}
		return nil
	})
}

const coschedulingLabel = "scheduling.x-k8s.io/pod-group"

// kindsComeLater has pods of groups before there are such groups, and installs them.
func (w *world) kindsComeLater(t *testing.T) {
	w.pod("early", labelled(coschedulingLabel, "pair"))
	w.bound(t, "early")
	w.event(t, "Pod", "early", "TakenAlone", "the API server has no PodGroups of scheduling.x-k8s.io")
	template := w.create(t, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: set}, spec: {serviceName: x, replicas: 0, "+
		"selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: x, image: none}]}}}}")
	w.pod("set-0", all(under(template), lwsLabels("set", 0, 0)))
	w.says(t, "set-0", "WaitingForMembers", "the API server has no LeaderWorkerSets")

	w.server.Apply(t, "cmd", "bridge-scheduler", "testdata", "kinds.yaml")
	w.eventually(t, "the bridge has seen the kind", func() error {
		if now := w.held(t, "set-0", "WaitingForMembers"); now != "LeaderWorkerSet default/set doesn't exist" {
			return fmt.Errorf("%w: it says %q", errWait, now)
		}
		return nil
	})
}

// jobSet runs two pods of a JobSet: each is a job of its own, as the JobSet says.
func (w *world) jobSet(t *testing.T) {
	set := w.create(t, `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: train, annotations: {slurmjob.slinky.slurm.net/wckey: ""}}, spec: {}}`)
	w.merge(t, set, `{"metadata":{"annotations":{"slurmjob.slinky.slurm.net/job-name":"training"}}}`)
	job := w.owned(t, set, `{apiVersion: batch/v1, kind: Job, metadata: {name: train-a-0, annotations: {slurmjob.slinky.slurm.net/timelimit: "3"}}, spec: {
		suspend: true, activeDeadlineSeconds: 61, template: {spec: {restartPolicy: Never, containers: [{name: x, image: none}]}}}}`)
	for _, name := range []string{"train-a-0-0", "train-a-0-1"} {
		w.pod(name, all(under(job), func(p *corev1.Pod) { p.Annotations[v1beta1.AnnotationJobName] = "of-the-template" }))
	}
	a, b := w.job(t, w.bound(t, "train-a-0-0")), w.job(t, w.bound(t, "train-a-0-1"))
	for _, j := range []slurm.Job{a, b} {
		if j.Name != "training" || j.TimeLimit != slurm.NumberOf(2) {
			t.Errorf("job %s with a time limit of %v, want training with the Job's deadline of 2 minutes", j.Name, j.TimeLimit)
		}
	}
	if a.ID == b.ID {
		t.Error("the pods of a JobSet share a job")
	}
}

func (w *world) alphaGroup(t *testing.T) {
	w.pod("alpha-0", member("alpha"))
	w.says(t, "alpha-0", "WaitingForMembers", "PodGroup default/alpha doesn't exist")
	w.create(t, `{apiVersion: scheduling.k8s.io/v1alpha3, kind: Workload, metadata: {name: whole, annotations: {slurmjob.slinky.slurm.net/job-name: of-workload}},
		spec: {podGroupTemplates: [{name: t, schedulingPolicy: {gang: {minCount: 2}}}]}}`)
	group := w.create(t, `{apiVersion: scheduling.k8s.io/v1alpha3, kind: PodGroup, metadata: {name: alpha, annotations: {
		slurmjob.slinky.slurm.net/job-name: of-group, slurmjob.slinky.slurm.net/timelimit: "9"}},
		spec: {schedulingPolicy: {gang: {minCount: 2}}, workloadRef: {workloadName: whole, templateName: t}}}`)
	w.groupIs(t, group, "False", "Unschedulable", "1 of the 2 pods")
	w.pod("alpha-1", member("alpha"))
	j := w.job(t, w.bound(t, "alpha-0"))
	if j.Name != "of-workload" || j.TimeLimit != slurm.NumberOf(9) || w.job(t, w.bound(t, "alpha-1")).ID != j.ID {
		t.Errorf("job %+v", j)
	}
	w.groupIs(t, group, "True", "Scheduled", "slurm-bridge-scheduler")
	w.event(t, "PodGroup", "alpha", "WaitingForMembers", "1 of the 2 pods")
	w.event(t, "PodGroup", "alpha", "Allocated", fmt.Sprintf("by Slurm job %d", j.ID))
}

// groupIs waits for the condition of a PodGroup of scheduling.k8s.io.
func (w *world) groupIs(t *testing.T, group *unstructured.Unstructured, status, reason, text string) {
	t.Helper()
	c := w.client(t)
	w.eventually(t, "PodGroup "+group.GetName()+" is "+reason, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(group), group); err != nil {
			return err
		}
		list, _, _ := unstructured.NestedSlice(group.Object, "status", "conditions")
		for _, item := range list {
			c := item.(map[string]any)
			if c["type"] == "PodGroupInitiallyScheduled" && c["status"] == status && c["reason"] == reason && strings.Contains(c["message"].(string), text) {
				return nil
			}
		}
		return fmt.Errorf("%w: conditions %v", errWait, list)
	})
}

// twoNamespaces has pods of one label in two namespaces: they are no group.
func (w *world) twoNamespaces(t *testing.T) {
	w.create(t, `{apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}`)
	w.create(t, `{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: both}, spec: {minMember: 2}}`)
	w.pod("here", labelled(coschedulingLabel, "both"))
	there := w.create(t, `{apiVersion: v1, kind: Pod, metadata: {name: there, namespace: elsewhere, labels: {scheduling.x-k8s.io/pod-group: both}},
		spec: {schedulerName: slurm-bridge-scheduler, containers: [{name: x, image: none}]}}`)
	w.says(t, "here", "WaitingForMembers", "PodGroup default/both of scheduling.x-k8s.io has 1 of the 2 pods")
	w.eventually(t, "the pod elsewhere waits for a group of its own", func() error {
		pod, err := w.kube.CoreV1().Pods("elsewhere").Get(t.Context(), "there", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if strings.Contains(c.Message, "PodGroup elsewhere/both of scheduling.x-k8s.io doesn't exist") {
				return nil
			}
		}
		return fmt.Errorf("%w: %+v", errWait, pod.Status.Conditions)
	})
	if err := w.client(t).Delete(t.Context(), there); err != nil {
		t.Fatal(err)
	}
}

// groupsContend has two groups of two on three nodes: one of them runs, and never half of one.
func (w *world) groupsContend(t *testing.T) {
	leaders := w.leaders(t, `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: two}, spec: {replicas: 2, leaderWorkerTemplate: {size: 2}}}`)
	// Both leaders are there before any worker.
	workers := []*unstructured.Unstructured{w.leader(t, leaders, 0, cpus("1")), w.leader(t, leaders, 1, cpus("1"))}
	for g := range workers {
		w.says(t, fmt.Sprintf("two-%d", g), "WaitingForMembers", "1 of the 2 pods")
	}
	for g := range workers {
		w.worker(workers[g], "two", g, 1, cpus("1"))
	}
	runs := w.oneOf(t, "two-0", "two-1")
	waits := map[string]string{"two-0": "two-1", "two-1": "two-0"}[runs]
	w.says(t, waits, "QueuedInSlurm", "waits in partition ext")
	w.says(t, waits+"-1", "QueuedInSlurm", "waits in partition ext")
	if j := w.job(t, w.bound(t, runs+"-1")); j.Name != runs || j.HetJobID.Set {
		t.Errorf("job %+v", j)
	}
	for _, name := range []string{runs, runs + "-1"} {
		w.kubelet(t, name, corev1.PodSucceeded)
	}
	w.bound(t, waits)
	w.bound(t, waits+"-1")
}

// oneOf waits until one of two pods is bound, and returns its name.
func (w *world) oneOf(t *testing.T, names ...string) string {
	t.Helper()
	var bound string
	w.eventually(t, "one of "+strings.Join(names, " and ")+" is bound", func() error {
		for _, name := range names {
			pod, err := w.get(name)
			if err != nil {
				return err
			}
			if pod.Spec.NodeName != "" {
				bound = name
				return nil
			}
		}
		return errWait
	})
	return bound
}

func (w *world) configuredGang(t *testing.T) {
	crew := w.create(t, `{apiVersion: example.com/v1, kind: Crew, metadata: {name: crew, annotations: {slurmjob.slinky.slurm.net/gang-size: "2"}}, spec: {}}`)
	ours := all(under(crew), labelled("example.com/crew", "a"))
	w.pod("crew-0", ours)
	w.says(t, "crew-0", "WaitingForMembers", "Crew default/a of example.com has 1 of the 2 pods")
	// A pod that only claims to be of the crew is no member.
	w.pod("claims", all(labelled("example.com/crew", "a")))
	w.bound(t, "claims")
	w.says(t, "crew-0", "WaitingForMembers", "1 of the 2 pods")
	w.pod("crew-1", ours)
	j := w.job(t, w.bound(t, "crew-0"))
	if w.job(t, w.bound(t, "crew-1")).ID != j.ID || j.Name != "a" {
		t.Errorf("job %+v", j)
	}
}

func (w *world) forbiddenOwner(t *testing.T) {
	plan := w.create(t, `{apiVersion: example.com/v1, kind: Plan, metadata: {name: secret, annotations: {slurmjob.slinky.slurm.net/job-name: secret}}, spec: {}}`)
	w.pod("planned", under(plan))
	if j := w.job(t, w.bound(t, "planned")); j.Name != "planned" {
		t.Errorf("job %q", j.Name)
	}
	w.event(t, "Pod", "planned", "TakenAlone", "Plan secret, which owns the pod, may not be read")
	// A recognized owner below one that can't be read counts.
	job := w.owned(t, plan, `{apiVersion: batch/v1, kind: Job, metadata: {name: step, annotations: {slurmjob.slinky.slurm.net/job-name: step-1}}, spec: {
		suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: x, image: none}]}}}}`)
	w.pod("step-0", under(job))
	if j := w.job(t, w.bound(t, "step-0")); j.Name != "step-1" {
		t.Errorf("job %q", j.Name)
	}
}

// groupChanges changes a group whose job waits: the job keeps its place, and asks for what must
// start together by now. The member that needn't joins by a job of its own when there is room.
func (w *world) groupChanges(t *testing.T) {
	w.pod("blocks", nil)
	w.bound(t, "blocks")
	group := w.create(t, `{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: shrinks, annotations: {
		slurmjob.slinky.slurm.net/timelimit: "5", slurmjob.slinky.slurm.net/exclusive: "false"}}, spec: {minMember: 3}}`)
	for i := range 3 {
		w.pod(fmt.Sprintf("shrinks-%d", i), all(labelled(coschedulingLabel, "shrinks"), cpus("3")))
	}
	w.says(t, "shrinks-2", "QueuedInSlurm", "waits in partition ext")
	before := w.waiting(t, "shrinks")
	w.merge(t, group, `{"metadata":{"annotations":{"slurmjob.slinky.slurm.net/timelimit":"6"}},"spec":{"minMember":2}}`)
	j := w.job(t, w.bound(t, "shrinks-0"))
	if n, _ := j.NodeCount.Get(); j.ID != before.ID || n != 2 || j.TimeLimit != slurm.NumberOf(6) {
		t.Errorf("job %d of %d nodes and %v minutes, want job %d of 2 and 6", j.ID, n, j.TimeLimit, before.ID)
	}
	if w.job(t, w.bound(t, "shrinks-1")).ID != j.ID {
		t.Error("shrinks-1 is in another job")
	}
	w.says(t, "shrinks-2", "QueuedInSlurm", "waits in partition ext")
	w.kubelet(t, "blocks", corev1.PodSucceeded)
	if extra := w.job(t, w.bound(t, "shrinks-2")); extra.ID == j.ID || extra.Name != "shrinks" || extra.TimeLimit != slurm.NumberOf(6) {
		t.Errorf("the member that came later is in job %+v", extra)
	}
}

// jobChanges changes what a Job says of the Slurm job of its pod.
func (w *world) jobChanges(t *testing.T) {
	for i := range 3 {
		w.pod(fmt.Sprintf("fills-%d", i), nil)
		w.bound(t, fmt.Sprintf("fills-%d", i))
	}
	job := w.create(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: edited, annotations: {slurmjob.slinky.slurm.net/timelimit: "3"}}, spec: {
		suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: x, image: none}]}}}}`)
	w.pod("edited-0", under(job))
	w.says(t, "edited-0", "QueuedInSlurm", "waits in partition ext")
	before := w.waiting(t, "edited")
	w.merge(t, job, `{"metadata":{"annotations":{"slurmjob.slinky.slurm.net/timelimit":"4"}}}`)
	w.eventually(t, "the job has the new time limit", func() error {
		if j := w.waiting(t, "edited"); j.ID != before.ID || j.TimeLimit != slurm.NumberOf(4) {
			return fmt.Errorf("%w: job %d, time limit %v", errWait, j.ID, j.TimeLimit)
		}
		return nil
	})
	w.merge(t, job, `{"metadata":{"annotations":{"slurmjob.slinky.slurm.net/timelimit":"soon"}}}`)
	w.says(t, "edited-0", "InvalidJob", `"soon" is not`)
	w.merge(t, job, `{"metadata":{"annotations":{"slurmjob.slinky.slurm.net/timelimit":null}}}`)
	w.eventually(t, "another job waits instead", func() error {
		jobs, err := w.slurm.Jobs(t.Context())
		for _, j := range jobs {
			if j.Name == "edited" && !j.States.JobEnded() && j.ID != before.ID && j.TimeLimit != slurm.NumberOf(4) {
				return nil
			}
		}
		return errors.Join(err, errWait)
	})
}

// waiting returns the one job of a name that hasn't ended.
func (w *world) waiting(t *testing.T, name string) slurm.Job {
	t.Helper()
	jobs, err := w.slurm.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []slurm.Job
	for _, j := range jobs {
		if j.Name == name && !j.States.JobEnded() {
			found = append(found, j)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d jobs have the name %s", len(found), name)
	}
	return found[0]
}

func (w *world) neverFits(t *testing.T) {
	group := w.create(t, `{apiVersion: scheduling.k8s.io/v1alpha3, kind: PodGroup, metadata: {name: huge}, spec: {schedulingPolicy: {gang: {minCount: 4}}}}`)
	for i := range 4 {
		w.pod(fmt.Sprintf("huge-%d", i), member("huge"))
	}
	w.says(t, "huge-0", "QueuedInSlurm", "its partition")
	w.groupIs(t, group, "False", "Unschedulable", "its partition")
	// The group is removed with its pods; a later one of its name has nothing to do with it.
	if err := w.client(t).Delete(t.Context(), group); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}
