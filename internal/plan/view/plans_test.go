package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/internal/plan/policy"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// plansOf are the plans of a planner, a line a step.
func plansOf(f Facts, planner string) []string {
	var out []string
	for _, p := range New(f).Plans() {
		if p.Planner != planner {
			continue
		}
		if p.Unplanned != "" {
			out = append(out, p.About+": not planned: "+p.Unplanned)
		}
		for _, s := range p.Steps {
			out = append(out, strings.TrimRight(fmt.Sprintf("%s: %s | %s | %s", p.About, s.Do, s.On, s.Why), " |"))
		}
	}
	return out
}

func wantPlans(t *testing.T, f Facts, planner string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, plansOf(f, planner)); diff != "" {
		t.Errorf("plans of %s (-want +got):\n%s", planner, diff)
	}
}

// bridgedWorld is a world whose bridge is known.
func bridgedWorld() Facts {
	f := world()
	f.Bridge = &Bridge{Policy: mirror.Policy{Cluster: "here", SchedulerName: scheduler, Partition: "bridge"}, Groups: &Groups{PodGroups: Served[workload.PodGroup]{Known: true}}}
	return f
}

// gang makes pods of a PodGroup.
func (f *Facts) gang(name string, minCount, pods int) {
	f.Bridge.Groups.PodGroups.Items = append(f.Bridge.Groups.PodGroups.Items, workload.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("uid-" + name)}, APIVersion: "scheduling.k8s.io/v1beta1", MinCount: minCount})
	for i := range pods {
		f.pod(fmt.Sprintf("%s-%d", name, i), func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} })
	}
}

func TestWorkloadPlans(t *testing.T) {
	f := bridgedWorld()
	f.gang("few", 3, 2)
	f.gang("many", 6, 6)
	f.gang("grows", 2, 3)
	f.gang("runs", 2, 2)
	f.gang("less", 2, 1)
	f.pod("failed", func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: v1beta1.ConditionSlurmScheduled, Status: corev1.ConditionFalse, Reason: "NoUsableNode", Message: "no node fits"}}
	})
	f.pod("again", nil)
	f.pod("greedy", func(p *corev1.Pod) { p.Annotations = map[string]string{v1beta1.AnnotationUserID: "root"} })
	f.Bridge.Groups.Book = &policy.Book{Name: "ConfigMap slinky/book", Entries: map[string]policy.Entry{"ml": {Allowed: map[string]string{"user-id": "1000"}}}}
	f.job(1, slurm.JobRunning, both(bridged("runs-0", "runs-1"), on("k[1-2]")))
	f.job(2, slurm.JobPending, both(bridged("less-0", "less-1"), reason("Priority")))
	f.job(3, slurm.JobTimeout, both(bridged("again"), func(j *slurm.Job) { j.EndTime = now }))
	wantPlans(t, f, PlannerWorkloads,
		"Pod ml/again: wait | pod again | Slurm job 3 reached its time limit before the pod started; a new job follows in 1 s",
		"Pod ml/failed: ask Slurm for a job | pod failed | it has no job yet; the last try failed: no node fits",
		"PodGroup ml/few: wait | pods few-0, few-1 | PodGroup ml/few has 2 of the 3 pods that must start together",
		"Pod ml/greedy: wait | pod greedy | no job is allowed: "+forbidden(f),
		"PodGroup ml/grows: ask Slurm for a job | pods grows-0, grows-1, grows-2 | 3 pods have no job yet: one for all if there is room at once, else for the first 2",
		"PodGroup ml/less: cancel Slurm job 2 | pod less-0 | PodGroup ml/less has 1 of the 2 pods that must start together",
		"PodGroup ml/many: ask Slurm for a job | pods many-0, many-1, many-2 and 3 more | all 6 pods that start together are there",
		"PodGroup ml/runs: place on the nodes of Slurm job 1 | pods runs-0, runs-1 | it runs on k[1-2]",
	)
	for _, line := range plansOf(f, PlannerQueue) {
		if strings.Contains(line, "ml/few: wait") {
			t.Errorf("what a plan has told is told again: %s", line)
		}
	}
}

// forbidden is what the rules say of the pod greedy.
func forbidden(f Facts) string {
	rules := policy.For(policy.Settings{}, "ml", nil, f.Bridge.Groups.Book)
	return rules.Check(map[string]string{v1beta1.AnnotationUserID: "root"}, 0).Error()
}

// A planner whose facts aren't there says so, and plans nothing.
func TestUnplanned(t *testing.T) {
	full := bridgedWorld()
	full.pod("a", nil)
	full.Kubernetes.NodeSets = []NodeSet{{Namespace: "slurm", Name: "w"}}
	const older = "an older slinky wrote it; take a new one with: slinky snapshot FILE"
	for name, c := range map[string]struct {
		change                     func(*Facts)
		nodes, workloads, nodeSets string
	}{
		"older file": {func(f *Facts) { f.Bridge.Groups = nil },
			"", "the file lacks what tells which pods start together: " + older, "the file lacks specs of NodeSets: " + older},
		"Slurm away": {func(f *Facts) { f.Slurm = Slurm{Source: Source{Error: "refused"}} },
			"Slurm couldn't be asked: refused", "Slurm couldn't be asked: refused", "the file lacks specs of NodeSets: " + older},
		"Kubernetes away": {func(f *Facts) { f.Kubernetes, f.Bridge = Kubernetes{Source: Source{Error: "refused"}}, nil },
			"Kubernetes couldn't be asked: refused", "Kubernetes couldn't be asked: refused", "the file lacks specs of NodeSets: Kubernetes couldn't be asked: refused"},
		"no bridge": {func(f *Facts) { f.Bridge = nil }, "the file lacks settings of the bridge: none is installed, or an older slinky wrote the file",
			"the file lacks settings of the bridge: none is installed, or an older slinky wrote the file", "the file lacks specs of NodeSets: " + older},
		"no pods": {func(f *Facts) { f.Kubernetes.Missing = Parts{{What: PartPods, Error: "you may not"}} },
			"", "the file lacks pods: you may not", "the file lacks specs of NodeSets: " + older},
		"no rules": {func(f *Facts) { f.Unread = Parts{{What: PartRules, Error: "you may not"}} },
			"", "the file lacks rules of namespaces: you may not", "the file lacks specs of NodeSets: " + older},
	} {
		t.Run(name, func(t *testing.T) {
			f := full
			bridge := *full.Bridge
			f.Bridge = &bridge
			c.change(&f)
			for planner, want := range map[string]string{PlannerNodes: c.nodes, PlannerWorkloads: c.workloads, PlannerNodeSets: c.nodeSets} {
				i := slices.IndexFunc(New(f).Plans(), func(p Planned) bool { return p.Planner == planner && p.Unplanned != "" })
				got := ""
				if i >= 0 {
					p := New(f).Plans()[i]
					if got = p.Unplanned; len(p.Steps) > 0 {
						t.Errorf("%s has a plan all the same: %+v", planner, p.Steps)
					}
				}
				if got != want {
					t.Errorf("%s says %q, want %q", planner, got, want)
				}
			}
		})
	}
}

// An unknown owner is no missing one: the workload isn't planned, and others are.
func TestUnreadOwner(t *testing.T) {
	f := bridgedWorld()
	f.pod("a", nil)
	f.pod("b", func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "j", Controller: &yes}}
	})
	f.Unread = Parts{{What: PartOwners("Job"), Error: "you may not list jobs.batch in all namespaces", Only: "other"}}
	wantPlans(t, f, PlannerWorkloads, "Pod ml/a: ask Slurm for a job | pod a | it has no job yet",
		"Pod ml/b: not planned: the file lacks Jobs that own pods: you may not list jobs.batch in all namespaces")
	f.Unread[0].Only, f.Bridge.Groups.OwnerKinds = "ml", map[string]string{"batch/v1 Job": ""}
	wantPlans(t, f, PlannerWorkloads, "Pod ml/a: ask Slurm for a job | pod a | it has no job yet", "Pod ml/b: ask Slurm for a job | pod b | it has no job yet")
}

// operated is a world with the worker w-0 and its NodeSet, of which another one is wanted.
func operated() Facts {
	f := world()
	n := v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: "w", UID: "set"}}
	n.Spec.ControllerRef.Name, n.Spec.Replicas = "slurm", new(int32(2))
	c := v1beta1.Controller{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: "slurm"}}
	f.Operator = &Operator{NodeSets: []v1beta1.NodeSet{n}, Controllers: []v1beta1.Controller{c}, Cluster: "slurm/slurm"}
	return f
}

func TestNodeSetPlans(t *testing.T) {
	f := operated()
	wantPlans(t, f, PlannerNodeSets,
		"NodeSet slurm/w: create | a new revision | the pod template is new",
		"NodeSet slurm/w: create | pod w-0 | 0 of 2 workers exist", "NodeSet slurm/w: create | pod w-1 | 0 of 2 workers exist")
	for name, c := range map[string]struct {
		change func(*Facts)
		why    string
	}{
		"Slurm away":      {func(f *Facts) { f.Slurm = Slurm{Source: Source{Error: "refused"}} }, "Slurm couldn't be asked: refused"},
		"another cluster": {func(f *Facts) { f.Operator.Cluster = "slurm/other" }, "the Slurm in the file is that of Controller slurm/other, not of slurm/slurm"},
		"unknown cluster": {func(f *Facts) { f.Operator.Cluster = "" },
			"it isn't known whether the Slurm in the file is that of Controller slurm/slurm, as no RestApi and no worker tells"},
		"no Controller": {func(f *Facts) { f.Operator.Controllers = nil }, `there is no Controller "slurm" in namespace slurm`},
		"other pods":    {func(f *Facts) { f.Kubernetes.Namespace = "ml" }, "the file lacks pods: it has only those of namespace ml"},
		"no revisions":  {func(f *Facts) { f.Unread = Parts{{What: PartRevisions, In: "slurm", Error: "you may not"}} }, "the file lacks ControllerRevisions: you may not"},
		"no reservation": {func(f *Facts) {
			f.Operator.NodeSets[0].Spec.UpdateStrategy.Type = v1beta1.UpdateScheduled
			f.Unread = Parts{{What: PartReservations, Error: "refused"}}
		}, "the file lacks reservations: refused"},
	} {
		t.Run(name, func(t *testing.T) {
			f := operated()
			c.change(&f)
			wantPlans(t, f, PlannerNodeSets, "NodeSet slurm/w: not planned: "+c.why)
		})
	}
	// What its workers say of themselves tells whose Slurm it is.
	f.Operator.Cluster = ""
	f.Slurm.Nodes[2].Comment = `{"namespace":"slurm","podName":"w-0","node":"k3","nodeSetName":"w","nodeSetUID":"set"}`
	if got := plansOf(f, PlannerNodeSets); len(got) < 3 || strings.Contains(got[0], "not planned") {
		t.Errorf("with a worker that tells: %v", got)
	}
	// Parts of other namespaces are no loss.
	f.Unread = Parts{{What: PartRevisions, In: "elsewhere", Error: "you may not"}}
	if got := plansOf(f, PlannerNodeSets); len(got) < 3 || strings.Contains(got[0], "not planned") {
		t.Errorf("without the revisions of another namespace: %v", got)
	}
}

// A sssd.conf that couldn't be read is neither missing nor changed, and a job's end is the worker's deadline.
func TestNodeSetFacts(t *testing.T) {
	f := operated()
	n := &f.Operator.NodeSets[0]
	n.Spec.Ssh = &v1beta1.NodeSetSsh{Enabled: true}
	n.Spec.VolumeClaimTemplates = []v1beta1.RawObject{{JSON: []byte(`{"metadata":{"name":"data"}}`)}}
	yes := true
	owner := []metav1.OwnerReference{{Kind: v1beta1.KindNodeSet, Name: "w", UID: "set", Controller: &yes}}
	f.pod("w-0", func(p *corev1.Pod) {
		p.Namespace, p.Labels, p.OwnerReferences = "slurm", nodeset.Selector("w"), owner
		p.Annotations = map[string]string{v1beta1.AnnotationSssdConfHash: "before"}
	})
	f.Operator.Revisions = []appsv1.ControllerRevision{{ObjectMeta: metav1.ObjectMeta{Name: "w-1", OwnerReferences: owner}}, {ObjectMeta: metav1.ObjectMeta{Name: "other"}}}
	f.Operator.Claims = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: "data-w-0", Labels: nodeset.Selector("w")}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "slurm", Name: "data-v-0", Labels: nodeset.Selector("v")}}}
	f.use("w-0", 2)
	f.Slurm.Nodes[2].States = slurm.StatesOf(slurm.NodeMixed)
	f.job(1, slurm.JobRunning, on("w-0"))
	f.job(2, slurm.JobRunning, both(on("w-0"), func(j *slurm.Job) { j.TimeLimit = slurm.NumberOf(90) }))
	m := New(f)
	got, why := m.NodeSetFacts(n)
	if why != "" {
		t.Fatal(why)
	}
	if !got.SssdUnread || got.SssdHash != "" {
		t.Errorf("of sssd.conf is known %q, unread %v", got.SssdHash, got.SssdUnread)
	}
	for _, p := range nodeset.Make(got).Problems {
		if strings.Contains(p.Message, "sssdConfRef") {
			t.Errorf("a file that couldn't be read is called missing: %s", p.Message)
		}
	}
	f.Unread = Parts{{What: PartSssd, In: "slurm", Error: "you may not"}}
	if plan := plansOf(f, PlannerNodeSets); plan[len(plan)-1] != "NodeSet slurm/w: note |  | its sssd.conf is taken for unchanged, as the file lacks sssd.conf of NodeSets: you may not" {
		t.Errorf("that sssd.conf wasn't read is told as %q", plan[len(plan)-1])
	}
	if want := now.Add(-time.Minute + 90*time.Minute); !got.Slurm.Deadlines["w-0"].Equal(want) {
		t.Errorf("the deadlines are %v, want %v", got.Slurm.Deadlines, want)
	}
	if len(got.Pods) != 1 || len(got.Revisions) != 1 || len(got.Claims) != 1 || got.Claims["data-w-0"] == nil {
		t.Errorf("pods %v, revisions %v, claims %v", got.Pods, got.Revisions, got.Claims)
	}
	f.Operator.Sssd = map[string]string{"slurm/w": "after"}
	if got, _ = New(f).NodeSetFacts(n); got.SssdUnread || got.SssdHash != "after" {
		t.Errorf("of sssd.conf is known %q, unread %v", got.SssdHash, got.SssdUnread)
	}
}
