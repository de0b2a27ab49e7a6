package submit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/bridge/jobs"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// oneJob is what the view shows of a Slurm with one node and a job that runs there.
type oneJob struct {
	heldView
	node slurm.Node
}

func (o *oneJob) Nodes() []slurm.Node { return []slurm.Node{o.node} }
func (o *oneJob) Node(name string) (slurm.Node, bool) {
	return o.node, name == o.node.Name
}

func (o *oneJob) Allocation(id uint32) (slurm.Allocation, bool) {
	return slurm.Allocation{JobID: id, Nodes: []slurm.NodeAllocation{{Node: o.node.Name, Sockets: 1, CoresPerSocket: 4, Cores: []int{0}, Memory: 100}}}, id == o.jobs[0].ID
}

// changes takes down how jobs are changed. Nothing else is to be asked of Slurm: any other call panics.
type changes struct {
	Slurm
	made []change
	fail error
}

type change struct {
	Job uint32
	To  slurm.JobRequest
}

func (c *changes) UpdateJob(_ context.Context, id uint32, req slurm.JobRequest) error {
	c.made = append(c.made, change{id, req})
	return c.fail
}

type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// crowdedJob is a pod whose job has a core of a node on which another job's pod takes all that Kubernetes counts, and
// the submitter that has to place it.
type crowdedJob struct {
	*Submitter
	calls *changes
	kube  *fake.Clientset
	clock time.Time
	key   workload.Key
}

func newCrowdedJob(t *testing.T, limit slurm.Number) *crowdedJob {
	t.Helper()
	pod := func(name, node, cpu string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name), ResourceVersion: "1", Annotations: map[string]string{v1beta1.AnnotationExclusive: "false"}},
			Spec: corev1.PodSpec{SchedulerName: "bridge", NodeName: node, Containers: []corev1.Container{{
				Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}}},
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	waits := pod("waits", "", "1")
	mark := workload.Mark{Cluster: "c", Workload: waits.UID, Pods: []types.UID{waits.UID}}
	job := slurm.Job{
		ID: 7, SLUID: "s7", Partition: "p", Nodes: "n1", States: slurm.StatesOf(slurm.JobRunning), Flags: []string{slurm.FlagExternalJob}, TimeLimit: limit,
		AdminComment: workload.Comment{Pods: []string{"ml/waits"}, Mark: &mark}.Encode(),
	}
	c := &crowdedJob{
		kube: fake.NewClientset(node, waits, pod("fills", "n1", "4")), clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		calls: &changes{},
	}
	view := &oneJob{heldView: heldView{heldSlurm{[]slurm.Job{job}}}, node: slurm.Node{
		Name: "n1", CPUs: 4, EffectiveCPUs: 4, Threads: 1, RealMemory: 8192, Partitions: []string{"p"}, States: slurm.StatesOf(slurm.NodeMixed), AllocCPUs: 1,
	}}
	factory := informers.NewSharedInformerFactory(c.kube, 0)
	var err error
	c.Submitter, err = New(Config{
		SchedulerName: "bridge", Policy: workload.Policy{Cluster: "c", Partition: "p"}, Slurm: c.calls, View: view, Index: jobs.NewIndex("c"),
		Table: scheduler.NewTable(), Client: c.kube, Events: noEvents{}, Activate: func(...*corev1.Pod) {}, Now: func() time.Time { return c.clock }, GiveBack: time.Hour,
		Sources: Sources{
			Pods: factory.Core().V1().Pods(), Nodes: factory.Core().V1().Nodes(), Jobs: factory.Batch().V1().Jobs(), Namespaces: factory.Core().V1().Namespaces(),
			Claims: factory.Core().V1().PersistentVolumeClaims(), Volumes: factory.Core().V1().PersistentVolumes(), Classes: factory.Storage().V1().StorageClasses(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); factory.Shutdown() })
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		t.Fatal("the informers have never read all")
	}
	c.key = c.Kinds.KeyOf(waits)
	c.taken(t, 4)
	return c
}

// step brings the pod a step further and returns the node that was written to it, "" for none.
func (c *crowdedJob) step(t *testing.T) string {
	t.Helper()
	if _, err := c.reconcile(t.Context(), c.key); err != nil {
		t.Fatal(err)
	}
	pod, err := c.kube.CoreV1().Pods("ml").Get(t.Context(), "waits", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod.Annotations[v1beta1.AnnotationNode]
}

// taken waits until the submitter knows that pods have so many CPUs of the node.
func (c *crowdedJob) taken(t *testing.T, cpus int64) {
	t.Helper()
	apitest.Eventually(t, time.Minute, fmt.Sprintf("%d CPUs of the node are taken", cpus), func() error {
		if sum, _ := c.occupants.taken("n1"); sum.Cpu().Value() != cpus {
			return fmt.Errorf("%s are", sum.Cpu())
		}
		return nil
	})
}

// roomComes ends the pod that has the node.
func (c *crowdedJob) roomComes(t *testing.T) {
	t.Helper()
	if err := c.kube.CoreV1().Pods("ml").Delete(t.Context(), "fills", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.taken(t, 1) // by the one that waits
}

// TestTimeLimitIsGivenBack: a job whose pod has waited for room on its node gets the time back, in whole minutes and no
// less than it has lost, once and when the pod is placed.
func TestTimeLimitIsGivenBack(t *testing.T) {
	for name, c := range map[string]struct {
		limit  slurm.Number
		waited time.Duration
		want   uint64 // minutes, 0 for no change
	}{
		"less than a minute":     {limit: slurm.NumberOf(10), waited: time.Minute - time.Second},
		"a minute":               {limit: slurm.NumberOf(10), waited: time.Minute, want: 12},
		"a minute and a half":    {limit: slurm.NumberOf(10), waited: 90 * time.Second, want: 12},
		"longer than it may run": {limit: slurm.NumberOf(10), waited: 3*time.Hour + time.Second, want: 191},
		"no time limit":          {waited: time.Hour},
		"an infinite one":        {limit: slurm.Infinite(), waited: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCrowdedJob(t, c.limit)
			// It is looked at while it waits, too: what counts is from when on.
			for _, wait := range []time.Duration{0, c.waited / 2, c.waited - c.waited/2} {
				w.clock = w.clock.Add(wait)
				if node := w.step(t); node != "" {
					t.Fatalf("the pod has node %s, on which there is no room", node)
				}
			}
			if len(w.calls.made) > 0 {
				t.Errorf("the job gets %+v while its pod waits", w.calls.made)
			}
			w.roomComes(t)
			var want []change
			if c.want != 0 {
				want = []change{{7, slurm.JobRequest{TimeLimit: slurm.NumberOf(c.want)}}}
			}
			for _, when := range []string{"at once", "a minute later"} {
				if node := w.step(t); node != "n1" {
					t.Fatalf("%s the pod has node %q, want n1", when, node)
				}
				if diff := cmp.Diff(want, w.calls.made); diff != "" {
					t.Errorf("%s the job was changed so (-want +got):\n%s", when, diff)
				}
				w.clock = w.clock.Add(time.Minute)
			}
		})
	}
}

// TestPlacedWithoutTheTime: that Slurm doesn't take the new time limit is no reason to keep the pod waiting.
func TestPlacedWithoutTheTime(t *testing.T) {
	w := newCrowdedJob(t, slurm.NumberOf(10))
	w.calls.fail = errors.New("slurmrestd is away")
	w.step(t)
	w.clock = w.clock.Add(time.Hour)
	w.roomComes(t)
	if node := w.step(t); node != "n1" || len(w.calls.made) != 1 {
		t.Errorf("the pod has node %q, want n1, and the job was asked for %+v", node, w.calls.made)
	}
}
