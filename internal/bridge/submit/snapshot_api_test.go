package submit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/jobs"
	"github.com/slinky-hpc/slinky/internal/bridge/policies"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/internal/observe/worlds/worldstest"
	"github.com/slinky-hpc/slinky/internal/plan/redact"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// heldSlurm is a Slurm with jobs that nobody changes, for the submitter and for a snapshot.
type heldSlurm struct{ jobs []slurm.Job }

func (h heldSlurm) job(id uint32) (slurm.Job, bool) {
	i := slices.IndexFunc(h.jobs, func(j slurm.Job) bool { return j.ID == id })
	if i < 0 {
		return slurm.Job{}, false
	}
	return h.jobs[i], true
}

// heldView is the submitter's view of it.
type heldView struct{ heldSlurm }

func (h heldView) Nodes() []slurm.Node                                  { return nil }
func (h heldView) Node(string) (slurm.Node, bool)                       { return slurm.Node{}, false }
func (h heldView) Jobs() []slurm.Job                                    { return h.jobs }
func (h heldView) Job(id uint32) (slurm.Job, bool)                      { return h.job(id) }
func (h heldView) Allocation(uint32) (slurm.Allocation, bool)           { return slurm.Allocation{}, false }
func (h heldView) RefreshJob(context.Context, uint32) (bool, error)     { return true, nil }
func (h heldView) RefreshStarted(context.Context, uint32) (bool, error) { return true, nil }
func (h heldView) Synced() bool                                         { return true }
func (h heldView) Generation() uint64                                   { return 1 }

// heldClient is what a snapshot asks.
type heldClient struct{ heldSlurm }

func (h heldClient) Jobs(context.Context) ([]slurm.Job, error)           { return h.jobs, nil }
func (heldClient) Nodes(context.Context) ([]slurm.Node, error)           { return nil, nil }
func (heldClient) Partitions(context.Context) ([]slurm.Partition, error) { return nil, nil }
func (heldClient) Ping(context.Context) ([]slurm.Ping, error)            { return nil, nil }
func (heldClient) QOSes(context.Context) ([]slurm.QOS, error)            { return nil, nil }
func (heldClient) Allocation(context.Context, uint32) (slurm.Allocation, error) {
	return slurm.Allocation{}, nil
}
func (heldClient) Associations(context.Context, slurm.AssociationFilter) ([]slurm.Association, error) {
	return nil, nil
}

// snapshotWorld is an API server with workloads of each kind.
type snapshotWorld struct {
	server *apitest.Server
	admin  client.Client
	uids   map[string]types.UID
}

// bridgeConfig makes StatefulSets a kind of gangs, and a ConfigMap's rules count.
const bridgeConfig = `slurmRestApi: http://slurm-restapi.slurm:6820
partition: slurm-bridge
policy: Restricted
policyConfigMap: slurm-bridge-policy
ownerKinds:
  - {group: apps, version: v1, kind: StatefulSet, resource: statefulsets, gangLabel: example.com/gang}
`

func newSnapshotWorld(t *testing.T) *snapshotWorld {
	t.Helper()
	w := &snapshotWorld{uids: map[string]types.UID{}, server: apitest.Start(t, "feature-gates=GenericWorkload=true", "runtime-config=scheduling.k8s.io/v1beta1=true")}
	w.server.InstallOthers(t)
	w.server.InstallBridge(t)
	var err error
	if w.admin, err = client.New(w.server.Config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ml", "strict"} {
		w.server.Namespace(t, name)
		w.make(t, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: "+name+"}}")
	}
	settings := &corev1.ConfigMap{}
	if err := w.admin.Get(t.Context(), types.NamespacedName{Namespace: "slinky", Name: "slurm-bridge-config"}, settings); err != nil {
		t.Fatal(err)
	}
	settings.Data = map[string]string{"config.yaml": bridgeConfig}
	if err := w.admin.Update(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	return w
}

// make makes objects. A UID of "$Kind/name" is that of an object that was made before.
func (w *snapshotWorld) make(t *testing.T, text string) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n---\n") {
		for name, uid := range w.uids {
			part = strings.ReplaceAll(part, `"$`+name+`"`, string(uid))
		}
		for _, o := range apitest.Objects(t, "the test", []byte(part)) {
			if o.GetNamespace() == "" {
				o.SetNamespace("ml")
			}
			if err := w.admin.Create(t.Context(), o); err != nil {
				t.Fatalf("create %s %s: %v", o.GetKind(), o.GetName(), err)
			}
			w.uids[o.GetKind()+"/"+o.GetName()] = o.GetUID()
		}
	}
}

// pod makes a pod of the bridge's. Meta and spec are more of its YAML, in one line each.
func (w *snapshotWorld) pod(t *testing.T, name, meta, spec string) {
	t.Helper()
	w.make(t, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, %s}
spec:
  schedulerName: slurm-bridge-scheduler
  %s
  containers:
    - {name: main, image: any, env: [{name: PASSWORD, value: hunter2}], args: [--token=hunter2], resources: {requests: {cpu: 1500m, memory: 1Gi}}}
`, name, meta, spec))
}

// by is the controller of a pod.
func by(version, kind, name string) string {
	return fmt.Sprintf(`ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: "$%s/%s", controller: true}]`, version, kind, name, kind, name)
}

// workloads makes workloads of each kind, whole ones and such that lack something.
func (w *snapshotWorld) workloads(t *testing.T) {
	t.Helper()
	w.make(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: slurm-bridge-policy, namespace: slinky}, data: {ml: "{allowed: {account: '*', timelimit: '*'}, default: {account: physics}}", strict: "oops"}}`)
	w.pod(t, "bare", `annotations: {slurmjob.slinky.slurm.net/timelimit: "5", vault.example.com/token: hunter2}`, "activeDeadlineSeconds: 300")
	w.pod(t, "ruled", "namespace: strict", "restartPolicy: Never")
	w.pod(t, "refused", `annotations: {slurmjob.slinky.slurm.net/user-id: root}`, "restartPolicy: Never")

	const template = `template: {spec: {restartPolicy: Never, containers: [{name: main, image: any, env: [{name: PASSWORD, value: hunter2}]}]}}`
	w.make(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: train, annotations: {slurmjob.slinky.slurm.net/job-name: training}}, spec: {activeDeadlineSeconds: 600, `+template+`}}`)
	w.pod(t, "train-x", by("batch/v1", "Job", "train"), "restartPolicy: Never")
	w.make(t, `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: js, annotations: {slurmjob.slinky.slurm.net/account: chemistry}}, spec: {replicatedJobs: [{name: r, template: {spec: {`+template+`}}}]}}`)
	w.make(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: js-r-0, `+by("jobset.x-k8s.io/v1alpha2", "JobSet", "js")+`}, spec: {activeDeadlineSeconds: 900, `+template+`}}`)
	w.pod(t, "js-r-0-0", by("batch/v1", "Job", "js-r-0")+`, annotations: {batch.kubernetes.io/job-completion-index: "0"}`, "restartPolicy: Never")
	const always = `selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: main, image: any}]}}`
	w.make(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, annotations: {slurmjob.slinky.slurm.net/timelimit: "60"}}, spec: {`+always+`}}`)
	w.make(t, `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-1, `+by("apps/v1", "Deployment", "web")+`}, spec: {`+always+`}}`)
	w.pod(t, "web-1-a", by("apps/v1", "ReplicaSet", "web-1"), "restartPolicy: Always")
	w.make(t, `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: ring, annotations: {slurmjob.slinky.slurm.net/gang-size: "2"}}, spec: {serviceName: s, `+always+`}}`)
	for i := range 2 {
		w.pod(t, fmt.Sprintf("ring-%d", i), fmt.Sprintf(`labels: {example.com/gang: ring, apps.kubernetes.io/pod-index: "%d"}, `, i)+by("apps/v1", "StatefulSet", "ring"), "restartPolicy: Always")
	}
	w.make(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: odd, annotations: {slurmjob.slinky.slurm.net/timelimit: "1"}}}`)
	w.pod(t, "odd-0", by("v1", "ConfigMap", "odd"), "restartPolicy: Never")
	w.uids["Job/gone"] = "11111111-2222-3333-4444-555555555555"
	w.pod(t, "gone-0", by("batch/v1", "Job", "gone"), "restartPolicy: Never")

	w.make(t, `{apiVersion: scheduling.k8s.io/v1beta1, kind: Workload, metadata: {name: wl, annotations: {slurmjob.slinky.slurm.net/timelimit: "7"}}, spec: {podGroupTemplates: [{name: r, schedulingPolicy: {gang: {minCount: 2}}}]}}`)
	w.make(t, `{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: pair}, spec: {workloadRef: {workloadName: wl, templateName: r}, schedulingPolicy: {gang: {minCount: 2}}}}`)
	w.make(t, `{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: few, annotations: {slurmjob.slinky.slurm.net/timelimit: "9"}}, spec: {schedulingPolicy: {gang: {minCount: 3}}}}`)
	for _, name := range []string{"pair-0", "pair-1", "few-0", "nogroup-0"} {
		group, _, _ := strings.Cut(name, "-")
		w.pod(t, name, "labels: {a: b}", "schedulingGroup: {podGroupName: "+group+"}")
	}
	w.make(t, `{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: duo}, spec: {minMember: 2, minResources: {cpu: 4000m}}}`)
	for i := range 2 {
		w.pod(t, fmt.Sprintf("duo-%d", i), "labels: {scheduling.x-k8s.io/pod-group: duo}", "restartPolicy: Never")
	}
	w.make(t, `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: lws}, spec: {replicas: 1, startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 3, `+
		`workerTemplate: {spec: {containers: [{name: main, image: any, command: [hunter2], env: [{name: PASSWORD, value: hunter2}], resources: {requests: {cpu: "2"}}}]}}}}}`)
	w.make(t, `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: lws, `+by("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws")+`}, spec: {serviceName: s, `+always+`}}`)
	labels := func(worker int) string {
		return fmt.Sprintf(`labels: {leaderworkerset.sigs.k8s.io/name: lws, leaderworkerset.sigs.k8s.io/group-index: "0", leaderworkerset.sigs.k8s.io/worker-index: "%d"}, `+
			`annotations: {leaderworkerset.sigs.k8s.io/size: "3"}, `, worker)
	}
	w.pod(t, "lws-0", labels(0)+by("apps/v1", "StatefulSet", "lws"), "restartPolicy: Always")
	w.make(t, `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: lws-0, `+by("v1", "Pod", "lws-0")+`}, spec: {serviceName: s, `+always+`}}`)
	w.pod(t, "lws-0-1", labels(1)+by("apps/v1", "StatefulSet", "lws-0"), "restartPolicy: Always")
}

// jobs are Slurm's: of pair one that runs, of ring one that waits, of train one that has ended, and of bare one
// whose mark somebody has overwritten.
func (w *snapshotWorld) jobs(cluster string, now time.Time) heldSlurm {
	job := func(id uint32, state string, work types.UID, pods ...string) slurm.Job {
		c := workload.Comment{Mark: &workload.Mark{Cluster: cluster, Workload: work}}
		for _, name := range pods {
			c.Pods, c.Mark.Pods = append(c.Pods, "ml/"+name), append(c.Mark.Pods, w.uids["Pod/"+name])
		}
		return slurm.Job{ID: id, SLUID: fmt.Sprint("s", id), States: slurm.StatesOf(state), AdminComment: c.Encode(), Flags: []string{slurm.FlagExternalJob},
			Comment: "hunter2", Partition: "slurm-bridge", Reason: "Resources", SubmitTime: now.Add(-time.Minute)}
	}
	runs := job(1, slurm.JobRunning, w.uids["PodGroup/pair"], "pair-0", "pair-1")
	runs.Nodes = "node-[1-2]"
	ended := job(3, slurm.JobTimeout, w.uids["Pod/train-x"], "train-x")
	ended.EndTime, ended.Nodes = now, "node-1"
	bare := job(4, slurm.JobPending, w.uids["Pod/bare"], "bare")
	bare.AdminComment = "mine now: hunter2"
	return heldSlurm{[]slurm.Job{runs, job(2, slurm.JobPending, w.uids["StatefulSet/ring"], "ring-0", "ring-1"), ended, bare}}
}

// TestSnapshotHasWhatThePlannerSees is the contract of snapshots: what a file tells of each workload
// is what the submitter knows of the same objects, but for what is left out, and so is the plan.
func TestSnapshotHasWhatThePlannerSees(t *testing.T) {
	w := newSnapshotWorld(t)
	w.workloads(t)
	kube, err := kubernetes.NewForConfig(w.server.Config)
	if err != nil {
		t.Fatal(err)
	}
	system, err := kube.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster, now := string(system.UID), time.Now().Truncate(time.Second)
	held := w.jobs(cluster, now)
	record := workload.RecordFor(held.jobs[3], workload.Mark{Pods: []types.UID{w.uids["Pod/bare"]}, Workload: w.uids["Pod/bare"]}, w.uids["Pod/bare"])
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"4"},"annotations":{%q:%q}}}`, v1beta1.LabelJobID, v1beta1.AnnotationJob, record)
	if _, err := kube.CoreV1().Pods("ml").Patch(t.Context(), "bare", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s := w.submitter(t, held, cluster)

	sources := worlds.Sources{}
	if err := worlds.Connect(t.Context(), w.server.Config, worlds.Slurmrestd{}, &sources); err != nil {
		t.Fatal(err)
	}
	sources.Slurm, sources.SlurmError = heldClient{held}, nil
	m := view.New(worldstest.ThroughFile(t, sources.Read(t.Context(), worlds.Want{Planners: true, Salt: []byte("salt")}), "hunter2"))
	steps := map[workload.StepKind]bool{}
	var names []string
	for _, g := range m.Gather() {
		names = append(names, g.Key.Name)
		live, err := s.observe(t.Context(), g.Key)
		if err != nil || g.Err != nil {
			t.Errorf("%s: the submitter says %v, the file %v", g.Key, err, g.Err)
			continue
		}
		for _, o := range live {
			for _, step := range workload.Next(o) {
				steps[step.Kind] = true
			}
		}
		want, got := plansOf(live, now), plansOf(g.Workloads, now)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s: plan (-submitter's +from the file):\n%s", g.Key, diff)
		}
		for i := range live {
			slim(&live[i])
		}
		sameText := gocmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })
		if diff := gocmp.Diff(live, g.Workloads, cmpopts.EquateEmpty(), sameText); diff != "" {
			t.Errorf("%s: facts (-submitter's +from the file):\n%s", g.Key, diff)
		}
	}
	const want = "bare duo few gone-0 js-r-0-0 lws-0 nogroup odd-0 pair refused ring train-x web-1-a ruled"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("workloads %s, want %s", got, want)
	}
	for _, kind := range []workload.StepKind{workload.StepWait, workload.StepQueued, workload.StepSubmit, workload.StepPlace} {
		if !steps[kind] {
			t.Errorf("no plan had %s, so nothing is known of it; there were %v", kind, steps)
		}
	}
}

// submitter returns one that has read all there is, with the rights of the bridge's scheduler.
func (w *snapshotWorld) submitter(t *testing.T, held heldSlurm, cluster string) *Submitter {
	t.Helper()
	rights := w.server.As("slinky", "slurm-bridge-scheduler")
	kube, err := kubernetes.NewForConfig(rights)
	if err != nil {
		t.Fatal(err)
	}
	custom, err := dynamic.NewForConfig(rights)
	if err != nil {
		t.Fatal(err)
	}
	owners, err := metadata.NewForConfig(rights)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse([]byte(bridgeConfig))
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(kube, 0)
	rules := policies.New(c, "slinky", factory.Core().V1().Namespaces(), kube)
	index := jobs.NewIndex(cluster)
	for _, j := range held.jobs {
		index.Put(j)
	}
	s, err := New(Config{
		SchedulerName: c.SchedulerName, Kinds: kindsOf(c), View: heldView{held}, Index: index, Table: scheduler.NewTable(), Client: kube, Rules: rules, Now: time.Now,
		Sources: Sources{
			Pods: factory.Core().V1().Pods(), Nodes: factory.Core().V1().Nodes(), Jobs: factory.Batch().V1().Jobs(), Namespaces: factory.Core().V1().Namespaces(),
			Claims: factory.Core().V1().PersistentVolumeClaims(), Volumes: factory.Core().V1().PersistentVolumes(), Classes: factory.Storage().V1().StorageClasses(),
			Custom: NewCustom(custom, kube.Discovery()), Owners: NewMetadataOwners(owners, kube.Discovery(), ownerResources(c), time.Now),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Sources.Custom.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-done; factory.Shutdown() })
	factory.Start(ctx.Done())
	rules.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), append(s.synced, rules.Synced()...)...) {
		t.Fatal("the informers have never read all")
	}
	apitest.Eventually(t, time.Minute, "the kinds of groups are read", func() error {
		for _, kind := range []workload.Kind{workload.KindPodGroup, workload.KindCoscheduling, workload.KindLeaderWorkerSet} {
			if _, err := s.objects(workload.Key{Kind: kind, Namespace: "ml", Name: "none"}, &corev1.Pod{}); err != nil {
				return err
			}
		}
		_, _, err := get[metav1.PartialObjectMetadata](s.Sources.Custom.workloads, "ml", "none")
		return err
	})
	return s
}

// plansOf are steps as texts.
func plansOf(list []workload.Observed, now time.Time) []string {
	var out []string
	for _, o := range list {
		for _, step := range workload.Next(o) {
			_, wait := workload.ResubmitAfter(o, step.Pods, now)
			out = append(out, fmt.Sprintf("%s of job %d for %s at least %d: %s (in %s)", step.Kind, step.Job.ID, workload.Names(step.Pods), step.Least, step.Reason, wait))
		}
	}
	return out
}

// slim leaves out of what the submitter knows what a file hasn't.
func slim(o *workload.Observed) {
	for i, pod := range o.Pods {
		p := view.SlimPod(pod)
		o.Pods[i] = &p
	}
	for i, pod := range o.Group.Reserved {
		p := view.SlimPod(pod)
		o.Group.Reserved[i] = &p
	}
	for i := range o.Jobs {
		o.Jobs[i] = view.SlimJob(o.Jobs[i])
		o.Jobs[i].Comment = ""
	}
	o.Group.Annotations = redact.Annotations(o.Group.Annotations)
	if o.PodGroup != nil {
		g := *o.PodGroup
		g.ObjectMeta = redact.Meta(g.ObjectMeta)
		o.PodGroup = &g
	}
	slices.SortFunc(o.Jobs, func(a, b slurm.Job) int { return cmp.Compare(a.ID, b.ID) })
}
