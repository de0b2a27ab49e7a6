package workload

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/slurm"
)

var kinds = Kinds{Owners: []OwnerKind{
	{GroupKind: schema.GroupKind{Group: "kubeflow.org", Kind: "MPIJob"}},
	{GroupKind: schema.GroupKind{Group: "ray.io", Kind: "RayCluster"}, GangLabel: "ray.io/cluster"},
	{GroupKind: schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}, GangLabel: "jobset.sigs.k8s.io/jobset-name"},
}}

func labels(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		for i := 0; i < len(pairs); i += 2 {
			p.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

func controlled(p *corev1.Pod) {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Other", Name: "o", UID: "uid-o"},
		{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "s", UID: "uid-s", Controller: &yes},
	}
}

func grouped(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} }
}

func lws(set, group, worker string) func(*corev1.Pod) {
	return labels(lwsName, set, lwsGroupIndex, group, lwsWorkerIndex, worker)
}

func TestKeyOf(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"a pod":                               {pod("a"), "Pod ns/a"},
		"a pod of a built-in group":           {pod("a", grouped("g")), "PodGroup ns/g"},
		"an empty name of a group":            {pod("a", grouped("")), "Pod ns/a"},
		"the built-in group goes first":       {pod("a", grouped("g"), labels(LabelCoscheduling, "c"), controlled, lws("s", "1", "0")), "PodGroup ns/g"},
		"a coscheduling group":                {pod("a", labels(LabelCoscheduling, "c"), controlled, lws("s", "1", "0")), "PodGroup ns/c of scheduling.x-k8s.io"},
		"a replica of a LeaderWorkerSet":      {pod("a", controlled, lws("s", "1", "2")), "LeaderWorkerSet ns/s-1"},
		"the labels of one, without an owner": {pod("a", lws("s", "1", "2")), "Pod ns/a"},
		"a gang of a configured kind":         {pod("a", controlled, labels("ray.io/cluster", "r")), "RayCluster ns/r of ray.io"},
	} {
		if got := kinds.KeyOf(c.pod).String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// chain returns owners from "Kind.group" words, the lowest first.
func chain(words ...string) []Owner {
	var out []Owner
	for _, w := range words {
		gk := schema.ParseGroupKind(w)
		out = append(out, Owner{Kind: gk, Name: strings.ToLower(gk.Kind), UID: types.UID("uid-" + w), Annotations: map[string]string{"from": w}})
	}
	return out
}

func TestRoot(t *testing.T) {
	const (
		rs, deployment, sts = "ReplicaSet.apps", "Deployment.apps", "StatefulSet.apps"
		job, jobSet, set    = "Job.batch", "JobSet.jobset.x-k8s.io", "LeaderWorkerSet.leaderworkerset.x-k8s.io"
	)
	for name, c := range map[string]struct {
		owners []Owner
		want   string
	}{
		"none":                                         {nil, ""},
		"a Deployment above a ReplicaSet":              {chain(rs, deployment), deployment},
		"a Job below a CronJob":                        {chain(job, "CronJob.batch"), job},
		"a JobSet below what isn't known":              {chain(job, jobSet, "Workflow.argoproj.io"), jobSet},
		"a JobSet below a TrainJob":                    {chain(job, jobSet, "TrainJob.trainer.kubeflow.org"), jobSet},
		"a LeaderWorkerSet above a leader":             {chain(sts, "Pod", sts, set), set},
		"a configured kind":                            {chain(job, "MPIJob.kubeflow.org"), "MPIJob.kubeflow.org"},
		"of the same name in another group, not known": {chain(job, "MPIJob.example.com"), job},
	} {
		got := ""
		if root := kinds.Root(c.owners); root != nil {
			got = root.Annotations["from"]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	deadline := int64(61)
	below := OwnerOfJob(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batchv1.JobSpec{ActiveDeadlineSeconds: &deadline}})
	if root := kinds.Root(append([]Owner{below}, chain(jobSet)...)); root.DeadlineSeconds != 61 || root.Name != "jobset" {
		t.Errorf("a JobSet above a Job with a deadline is %+v", root)
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestPodGroupOf(t *testing.T) {
	const head = "{kind: PodGroup, metadata: {name: g, namespace: ns, uid: u, annotations: {a: b}, creationTimestamp: '2026-01-02T03:04:05Z'}, apiVersion: scheduling.k8s.io/"
	for name, c := range map[string]struct {
		text, workload, condition string
		min                       int
	}{
		"v1alpha2": {head + "v1alpha2, spec: {schedulingPolicy: {gang: {minCount: 3}}, podGroupTemplateRef: {workload: {workloadName: w, podGroupTemplateName: t}}, disruptionMode: Pod}}", "w", "PodGroupScheduled", 3},
		"v1alpha3": {head + "v1alpha3, spec: {schedulingPolicy: {gang: {minCount: 3}}, workloadRef: {workloadName: w, templateName: t}, disruptionMode: {all: {}}}}", "w", "PodGroupInitiallyScheduled", 3},
		"v1beta1":  {head + "v1beta1, spec: {schedulingPolicy: {gang: {minCount: 3}}, workloadRef: {workloadName: w}}}", "w", "PodGroupInitiallyScheduled", 3},
		"basic":    {head + "v1beta1, spec: {schedulingPolicy: {basic: {}}}}", "", "PodGroupInitiallyScheduled", 0},
	} {
		pg, err := PodGroupOf(object(t, c.text))
		if err != nil || pg.MinCount != c.min || pg.Workload != c.workload || pg.ScheduledCondition() != c.condition ||
			pg.UID != "u" || pg.Annotations["a"] != "b" || pg.Namespace != "ns" {
			t.Errorf("%s: %+v, %v", name, pg, err)
		}
	}
	if _, err := PodGroupOf(object(t, head+"v1beta1, spec: {schedulingPolicy: {gang: {minCount: many}}}}")); err == nil {
		t.Error("a minCount of many is taken")
	}
	pg, err := CoschedulingOf(object(t, "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, spec: {minMember: 4}, status: {phase: Running, running: 2}}"))
	if err != nil || pg.MinCount != 4 || pg.Counts != (Counts{Phase: "Running", Running: 2}) {
		t.Errorf("%+v, %v", pg, err)
	}
}

func TestPrecedence(t *testing.T) {
	pg := PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "u", Annotations: map[string]string{"x": "group", "y": "group", "z": "group"}}, MinCount: 2}
	owner := &Owner{Name: "job", Annotations: map[string]string{"y": "owner", "z": "owner"}, DeadlineSeconds: 60}
	g := OfPodGroup(pg, owner, map[string]string{"z": "workload"})
	if d := cmp.Diff(map[string]string{"x": "group", "y": "owner", "z": "workload"}, g.Annotations); d != "" || g.JobName != "g" || g.DeadlineSeconds != 60 || g.MinCount != 2 || g.Independent {
		t.Errorf("%+v\n%s", g, d)
	}
	if pg.Annotations["z"] != "group" {
		t.Error("the group's own annotations were changed")
	}
	if g := OfPodGroup(PodGroup{}, nil, nil); !g.Independent || g.MinCount != 1 {
		t.Errorf("a group without a gang is %+v", g)
	}
	// A JobSet speaks for its pods, whatever the Job and the template say.
	p := pod("a")
	p.Annotations = map[string]string{"x": "pod"}
	if g := OfPod(p, kinds.Root(chain("Job.batch", "JobSet.jobset.x-k8s.io"))); g.Annotations["from"] != "JobSet.jobset.x-k8s.io" || g.Annotations["x"] != "" || g.JobName != "jobset" {
		t.Errorf("%+v", g)
	}
}

func set(size int, wait bool) *LeaderWorkerSet {
	return &LeaderWorkerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "uid-LeaderWorkerSet.leaderworkerset.x-k8s.io", Annotations: map[string]string{"of": "set"}},
		Size:       size, WorkersWait: wait, Worker: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "w"}}}},
	}
}

// replica returns a leader of a UID's name and its workers.
func replica(leader string, workers ...string) []Member {
	const sts, top = "StatefulSet.apps", "LeaderWorkerSet.leaderworkerset.x-k8s.io"
	out := []Member{{Pod: pod(leader, controlled, lws("s", "0", "0")), Owners: chain(sts, top)}}
	for i, w := range workers {
		owners := chain(sts, "Pod", sts, top)
		owners[1].UID = types.UID("uid-" + leader)
		out = append(out, Member{Pod: pod(w, controlled, lws("s", "0", fmt.Sprint(i+1))), Owners: owners})
	}
	return out
}

func TestSplit(t *testing.T) {
	lwsKey := Key{Kind: KindLeaderWorkerSet, Namespace: "ns", Name: "s-0"}
	coKey := Key{Kind: KindCoscheduling, Namespace: "ns", Name: "c"}
	rayKey := Key{Kind: "RayCluster.ray.io", Namespace: "ns", Name: "r"}
	gone := Owner{Kind: schema.GroupKind{Kind: "Pod"}, Name: "s-0", UID: "uid-old"}
	orphan := Member{Pod: pod("orphan", controlled, lws("s", "0", "1")), Owners: chain("StatefulSet.apps"), Unread: &gone, Why: "is gone"}
	ray := func(name, size string, owners ...string) Member {
		m := Member{Pod: pod(name, controlled, labels("ray.io/cluster", "r")), Owners: chain(owners...)}
		if size != "" {
			m.Owners[len(m.Owners)-1].Annotations["slurmjob.slinky.slurm.net/gang-size"] = size
		}
		return m
	}
	setKey := Key{Kind: "JobSet.jobset.x-k8s.io", Namespace: "ns", Name: "js"}
	inSet := func(name string) Member {
		m := Member{Pod: pod(name, controlled, labels("jobset.sigs.k8s.io/jobset-name", "js")), Owners: chain("Job.batch", "JobSet.jobset.x-k8s.io")}
		m.Owners[1].Annotations["slurmjob.slinky.slurm.net/gang-size"] = "2"
		return m
	}
	hidden := Owner{Kind: schema.GroupKind{Group: "ray.io", Kind: "RayCluster"}, Name: "r", UID: "uid-r"}
	for name, c := range map[string]struct {
		key     Key
		members []Member
		objects Objects
		want    []string
	}{
		"a coscheduling group":              {coKey, []Member{{Pod: pod("a")}, {Pod: pod("b")}}, Objects{Served: true, PodGroup: &PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u"}, MinCount: 2}}, []string{"a b: u, 2 together"}},
		"one that doesn't exist":            {coKey, []Member{{Pod: pod("a")}}, Objects{Served: true}, []string{"a: missing"}},
		"one of a kind that isn't served":   {coKey, []Member{{Pod: pod("a")}, {Pod: pod("b")}}, Objects{}, []string{"a: uid-a, alone, noted", "b: uid-b, alone, noted"}},
		"a built-in one, not served":        {Key{Kind: KindPodGroup, Namespace: "ns", Name: "g"}, []Member{{Pod: pod("a")}}, Objects{}, []string{"a: missing, PodGroup ns/g doesn't exist: the API server has no PodGroups"}},
		"a leader with its workers":         {lwsKey, replica("l", "w1", "w2"), Objects{Served: true, Set: set(3, false)}, []string{"l w1 w2: uid-l, 3 together"}},
		"an old replica beside its new one": {lwsKey, append(replica("l", "w1"), replica("m", "w2")...), Objects{Served: true, Set: set(2, false)}, []string{"l w1: uid-l, 2 together", "m w2: uid-m, 2 together"}},
		"a leader before its workers":       {lwsKey, replica("l"), Objects{Served: true, Set: set(3, true)}, []string{"l: uid-l, 3 together, 2 reserved"}},
		"a worker whose leader is gone":     {lwsKey, []Member{orphan}, Objects{Served: true, Set: set(2, false)}, []string{"orphan: missing, Pod ns/s-0 is gone"}},
		"a set that doesn't exist":          {lwsKey, replica("l"), Objects{Served: true}, []string{"l: missing, LeaderWorkerSet ns/s doesn't exist"}},
		"a pod that only claims to be of it": {lwsKey, append(replica("l", "w1"), Member{Pod: pod("x", controlled, lws("s", "0", "0")), Owners: chain("StatefulSet.apps")}),
			Objects{Served: true, Set: set(2, false)}, []string{"x: uid-x, alone", "l w1: uid-l, 2 together"}},
		"a gang of a configured kind":  {rayKey, []Member{ray("a", "2", "RayCluster.ray.io"), ray("b", "2", "RayCluster.ray.io")}, Objects{}, []string{"a b: uid-RayCluster.ray.io, 2 together"}},
		"a JobSet as one gang":         {setKey, []Member{inSet("a"), inSet("b")}, Objects{}, []string{"a b: uid-JobSet.jobset.x-k8s.io, 2 together"}},
		"a gang of no known size":      {rayKey, []Member{ray("a", "", "RayCluster.ray.io")}, Objects{}, []string{"a: missing, RayCluster ns/raycluster doesn't tell how many pods start together: give it the annotation slurmjob.slinky.slurm.net/gang-size"}},
		"a gang whose owner is hidden": {rayKey, []Member{{Pod: pod("a"), Unread: &hidden, Why: "may not be read"}}, Objects{}, []string{"a: missing, RayCluster ns/r, whose pods start together, may not be read"}},
		"a label without the owner":    {rayKey, []Member{ray("a", "", "Job.batch")}, Objects{}, []string{"a: uid-a, alone"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, o := range kinds.Split(c.key, c.members, c.objects) {
				s := ""
				for _, p := range o.Pods {
					s += " " + p.Name
				}
				s = strings.TrimSpace(s) + ": " + describe(o.Group)
				got = append(got, s)
				if o.Group.Key != c.key {
					t.Errorf("the workload's key is %v", o.Group.Key)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func describe(g Group) string {
	s := string(g.UID)
	switch {
	case g.UID == "":
		s = "missing"
		if g.Missing != "" {
			s += ", " + g.Missing
		}
	case g.Independent:
		s += ", alone"
	default:
		s += fmt.Sprintf(", %d together", g.MinCount)
	}
	if len(g.Reserved) > 0 {
		s += fmt.Sprintf(", %d reserved", len(g.Reserved))
	}
	if g.Note != "" {
		s += ", noted"
	}
	return s
}

func TestReserved(t *testing.T) {
	members := replica("s-0", "s-0-1")
	g := OfLeaderWorkerSet(*set(3, true), Key{Kind: KindLeaderWorkerSet, Namespace: "ns", Name: "s-0"}, "uid-s-0", podsOf(members))
	if len(g.Reserved) != 1 || g.Reserved[0].Name != "s-0-2" || g.Reserved[0].UID != "" || g.JobName != "s-0" || g.Annotations["of"] != "set" {
		t.Errorf("%+v", g)
	}
	members[0].Pod.Annotations = map[string]string{lwsSize: "2"}
	if g := OfLeaderWorkerSet(*set(3, true), Key{}, "u", podsOf(members)); g.MinCount != 2 || len(g.Reserved) != 0 {
		t.Errorf("a replica of an older size is %+v", g)
	}
}

func TestComponents(t *testing.T) {
	small, big := requests("cpu", "1"), requests("cpu", "2")
	admitted := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready"}, {Key: "slinky.slurm.net/managed-node"}}
	}
	elsewhere := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"gpu": "yes"} }
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"all alike":               {[]*corev1.Pod{pod("a", small), pod("b", requests("cpu", "1000m"), admitted)}, "a,b"},
		"a leader and workers":    {[]*corev1.Pod{pod("a", small), pod("b", big), pod("c", big)}, "a|b,c"},
		"not next to each other":  {[]*corev1.Pod{pod("a", small), pod("b", big), pod("c", small)}, "a,c|b"},
		"different node selector": {[]*corev1.Pod{pod("a", small), pod("b", small, elsewhere)}, "a|b"},
	} {
		for _, shapes := range []bool{true, false} {
			var parts []string
			for _, part := range Components(Group{Shapes: shapes}, c.pods) {
				var names []string
				for _, p := range part {
					names = append(names, p.Name)
				}
				parts = append(parts, strings.Join(names, ","))
			}
			if got := strings.Join(parts, "|"); shapes && got != c.want || !shapes && len(parts) != 1 {
				t.Errorf("%s, shapes %v: %s, want %s", name, shapes, got, c.want)
			}
		}
	}
}

func TestForeignGroups(t *testing.T) {
	volcano := func(p *corev1.Pod) { p.Annotations = map[string]string{"scheduling.k8s.io/group-name": "v"} }
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"none":                             {pod("a"), ""},
		"the older label":                  {pod("a", labels("pod-group.scheduling.sigs.k8s.io", "g")), `the pod group "g" of the label pod-group.scheduling.sigs.k8s.io;`},
		"the oldest":                       {pod("a", labels("pod-group.scheduling.sigs.k8s.io/name", "g")), `the pod group "g" of the label pod-group.scheduling.sigs.k8s.io/name;`},
		"Volcano's":                        {pod("a", volcano), `the pod group "v" of the annotation scheduling.k8s.io/group-name;`},
		"beside one that the bridge knows": {pod("a", volcano, labels(LabelCoscheduling, "c")), ""},
	} {
		got := strings.Join(foreignGroup(c.pod), " ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestCountsOf(t *testing.T) {
	phase := func(p corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: p}}
	}
	const r, s, f, p = corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending
	for name, c := range map[string]struct {
		phases []corev1.PodPhase
		want   Counts
	}{
		"too few":              {[]corev1.PodPhase{p}, Counts{Phase: "Pending"}},
		"all there":            {[]corev1.PodPhase{p, p}, Counts{Phase: "Scheduling"}},
		"some run":             {[]corev1.PodPhase{r, p}, Counts{Phase: "Scheduling", Running: 1}},
		"all run":              {[]corev1.PodPhase{r, r}, Counts{Phase: "Running", Running: 2}},
		"one has ended":        {[]corev1.PodPhase{r, s}, Counts{Phase: "Running", Running: 1, Succeeded: 1}},
		"all have ended":       {[]corev1.PodPhase{s, s}, Counts{Phase: "Finished", Succeeded: 2}},
		"one has failed":       {[]corev1.PodPhase{r, f}, Counts{Phase: "Failed", Running: 1, Failed: 1}},
		"more than are needed": {[]corev1.PodPhase{s, s, f}, Counts{Phase: "Finished", Succeeded: 2, Failed: 1}},
	} {
		var pods []*corev1.Pod
		for _, ph := range c.phases {
			pods = append(pods, phase(ph))
		}
		if got := CountsOf(2, pods); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// het makes a job a component of a heterogeneous one.
func het(j slurm.Job, leader uint32) slurm.Job {
	j.HetJobID = slurm.NumberOf(uint64(leader))
	return j
}

// reserving returns a job with places for pods to come.
func reserving(id uint32, state string, pods ...string) slurm.Job {
	j := job(id, state, pods...)
	c, _ := ParseComment(j)
	for i := range c.Mark.Pods {
		if i > 0 {
			c.Mark.Pods[i] = ""
		}
	}
	j.AdminComment = c.Encode()
	return j
}

func TestNextOfGroups(t *testing.T) {
	group := Group{Key: Key{Kind: KindLeaderWorkerSet, Namespace: "ns", Name: "s-0"}, UID: "uid-g", MinCount: 3, Shapes: true, Annotations: map[string]string{"slurmjob.slinky.slurm.net/qos": "low"}}
	asked := func(j slurm.Job, g Group) slurm.Job {
		c, _ := ParseComment(j)
		c.Mark.Asked = g.Asked()
		j.AdminComment = c.Encode()
		return j
	}
	pair := group
	pair.MinCount = 2
	more, other := pair, pair
	more.Annotations = map[string]string{"slurmjob.slinky.slurm.net/qos": "high"}
	other.Annotations = nil
	waitsForWorkers := pair
	waitsForWorkers.Reserved = []*corev1.Pod{pod("b")}
	missing := pair
	missing.UID, missing.Missing = "", "the set doesn't exist"
	again := pod("c")
	again.UID = "uid-c2"
	replaced := pod("l")
	replaced.UID = "uid-l2"
	for name, c := range map[string]struct {
		group Group
		pods  []*corev1.Pod
		jobs  []slurm.Job
		want  []string
	}{
		"both components run": {group, []*corev1.Pod{pod("l"), pod("b"), pod("c")},
			[]slurm.Job{het(job(1, slurm.JobRunning, "l"), 1), het(job(2, slurm.JobRunning, "b", "c"), 1)}, []string{"Place l job 1", "Place b c job 2"}},
		"a worker is made again": {group, []*corev1.Pod{pod("l", onNode), pod("b", onNode), again},
			[]slurm.Job{het(job(1, slurm.JobRunning, "l"), 1), het(job(2, slurm.JobRunning, "b", "c"), 1)}, []string{"Rejoin c job 2 as uid-b uid-c2"}},
		"a leader is made again": {group, []*corev1.Pod{replaced, pod("b", onNode), pod("c", onNode)},
			[]slurm.Job{het(job(1, slurm.JobRunning, "l"), 1), het(job(2, slurm.JobRunning, "b", "c"), 1)}, []string{"Rejoin l job 1 as uid-l2"}},
		"a pod of another name has no place in a component": {group, []*corev1.Pod{pod("l", onNode), pod("b", onNode), pod("d")},
			[]slurm.Job{het(job(1, slurm.JobRunning, "l"), 1), het(job(2, slurm.JobRunning, "b", "c"), 1)}, []string{"Submit d"}},
		"a member of a job that waits is gone": {group, []*corev1.Pod{pod("l"), pod("b"), again},
			[]slurm.Job{het(job(1, slurm.JobPending, "l"), 1), het(job(2, slurm.JobPending, "b", "c"), 1)},
			[]string{"Cancel l job 1: 1 of the pods of its component 2 have gone while it waited", "Cancel b job 2: 1 of the pods of its component 2 have gone while it waited",
				"Wait c: LeaderWorkerSet ns/s-0 gets a new job for all its members once Slurm job 2 is cancelled"}},
		"a component of a job that waits was cancelled": {group, []*corev1.Pod{pod("l"), pod("b"), pod("c")},
			[]slurm.Job{het(job(1, slurm.JobPending, "l"), 1), het(job(2, slurm.JobCancelled, "b", "c"), 1)},
			[]string{"Cancel l job 1: its component 2 has ended", "Wait b c: LeaderWorkerSet ns/s-0 gets a new job for all its members once Slurm job 1 is cancelled"}},
		"a leader with places for workers": {waitsForWorkers, []*corev1.Pod{pod("a")}, nil, []string{"Submit a"}},
		"it waits":                         {waitsForWorkers, []*corev1.Pod{pod("a")}, []slurm.Job{reserving(1, slurm.JobPending, "a", "b")}, []string{"Queued a job 1"}},
		"it runs":                          {waitsForWorkers, []*corev1.Pod{pod("a")}, []slurm.Job{reserving(1, slurm.JobRunning, "a", "b")}, []string{"Place a job 1"}},
		"its worker comes":                 {pair, []*corev1.Pod{pod("a", onNode), pod("b")}, []slurm.Job{reserving(1, slurm.JobRunning, "a", "b")}, []string{"Rejoin b job 1 as uid-a uid-b"}},
		"it is gone, and its job isn't yet": {waitsForWorkers, []*corev1.Pod{replaced}, []slurm.Job{reserving(1, slurm.JobRunning, "l", "b")},
			[]string{"Submit l"}},
		"nothing has changed":               {pair, []*corev1.Pod{pod("a"), pod("b")}, []slurm.Job{asked(job(1, slurm.JobPending, "a", "b"), pair)}, []string{"Queued a b job 1"}},
		"an annotation says something else": {more, []*corev1.Pod{pod("a"), pod("b")}, []slurm.Job{asked(job(1, slurm.JobPending, "a", "b"), pair)}, []string{"Update a b job 1"}},
		"the job runs by then":              {more, []*corev1.Pod{pod("a"), pod("b")}, []slurm.Job{asked(job(1, slurm.JobRunning, "a", "b"), pair)}, []string{"Place a b job 1"}},
		"an annotation was removed":         {other, []*corev1.Pod{pod("a"), pod("b")}, []slurm.Job{asked(job(1, slurm.JobPending, "a", "b"), pair)}, []string{"Cancel a b job 1: what it was asked for has changed"}},
		"minCount has grown":                {group, []*corev1.Pod{pod("a"), pod("b")}, []slurm.Job{asked(job(1, slurm.JobPending, "a", "b"), pair)}, []string{"Cancel a b job 1: LeaderWorkerSet ns/s-0 has 2 of the 3 pods that must start together"}},
		"minCount has shrunk with the pods": {pair, []*corev1.Pod{pod("a"), pod("b")}, []slurm.Job{asked(job(1, slurm.JobPending, "a", "b", "c"), group)}, []string{"Update a b job 1"}},
		"a member comes":                    {pair, []*corev1.Pod{pod("c"), pod("a"), pod("b")}, []slurm.Job{asked(job(1, slurm.JobPending, "a", "b"), pair)}, []string{"Update a b c job 1"}},
		"one comes behind a gate":           {pair, []*corev1.Pod{pod("c", gated), pod("a"), pod("b")}, []slurm.Job{asked(job(1, slurm.JobPending, "a", "b"), pair)}, []string{"Queued a b job 1"}},
		"the group can't be read by now":    {missing, []*corev1.Pod{pod("a"), pod("b"), pod("c")}, []slurm.Job{asked(job(1, slurm.JobPending, "a", "b"), pair)}, []string{"Queued a b job 1", "Wait c: the set doesn't exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range Next(Observed{Group: c.group, Pods: c.pods, Jobs: c.jobs, Cluster: "c1"}) {
				got = append(got, text(s))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestNeverHalf has gangs of random members at random moments: a job is never asked for
// fewer than must start together, unless the others have theirs.
func TestNeverHalf(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		g := Group{Key: Key{Kind: KindCoscheduling, Namespace: "ns", Name: "g"}, UID: "uid-g", MinCount: 1 + r.IntN(4)}
		changes := []func(*corev1.Pod){func(*corev1.Pod) {}, ended, deleting, gated}
		var pods []*corev1.Pod
		for _, n := range []string{"a", "b", "c", "d", "e"} {
			if r.IntN(3) > 0 {
				pods = append(pods, pod(n, changes[r.IntN(len(changes))]))
			}
		}
		var jobs []slurm.Job
		if r.IntN(2) == 0 {
			jobs = append(jobs, job(1, []string{slurm.JobPending, slurm.JobRunning, slurm.JobCancelled}[r.IntN(3)], "a", "b"))
		}
		steps := Next(Observed{Group: g, Pods: pods, Jobs: jobs, Cluster: "c1"})
		with := 0
		for _, s := range steps {
			if s.Kind == StepPlace || s.Kind == StepQueued || s.Kind == StepRejoin {
				with += len(s.Pods)
			}
		}
		for _, s := range steps {
			first := len(s.Pods)
			if s.Kind == StepSubmit {
				first = s.Least
			}
			if (s.Kind == StepSubmit || s.Kind == StepUpdate) && first+with < g.MinCount {
				t.Fatalf("seed %d: %s of %d pods beside %d, of %d that must start together", seed, s.Kind, first, with, g.MinCount)
			}
		}
	}
}
