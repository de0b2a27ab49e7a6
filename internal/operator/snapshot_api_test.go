package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/internal/observe/worlds/worldstest"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/internal/plan/redact"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/slurm"
)

// readSlurm answers what a snapshot asks, too.
type readSlurm struct{ *reservingSlurm }

func (readSlurm) Partitions(context.Context) ([]slurm.Partition, error) { return nil, nil }
func (readSlurm) Ping(context.Context) ([]slurm.Ping, error)            { return nil, nil }
func (readSlurm) QOSes(context.Context) ([]slurm.QOS, error)            { return nil, nil }
func (readSlurm) Allocation(context.Context, uint32) (slurm.Allocation, error) {
	return slurm.Allocation{}, nil
}
func (readSlurm) Associations(context.Context, slurm.AssociationFilter) ([]slurm.Association, error) {
	return nil, nil
}

// planted is in all that is secret.
const planted = "hunter2"

// testSnapshot is the contract of snapshots: the planner's facts from a file are those that the
// operator has of the same objects, but for what is redacted, and the plan made of them is the same.
func (s *suite) testSnapshot(t *testing.T) {
	q := s.newSets(t, "snapshot")
	s.create(t, &v1beta1.RestApi{ObjectMeta: metav1.ObjectMeta{Namespace: "snapshot", Name: "slurm"},
		Spec: v1beta1.RestApiSpec{ControllerRef: corev1.LocalObjectReference{Name: "slurm"}}})
	sssd := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "snapshot", Name: "sssd"}, StringData: map[string]string{"sssd.conf": planted + "1"}}
	s.create(t, sssd)
	s.readyNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "snap.example.com", Labels: map[string]string{"pool": "snapshot"}}})
	secretive := func(n *v1beta1.NodeSet) {
		n.Spec.Slurmd = rawObject(`{"image":"slurmd:1","args":["--token=` + planted + `"],"env":[{"name":"PASSWORD","value":"` + planted + `-a"},{"name":"EMPTY","value":""}],` +
			`"resources":{"limits":{"cpu":"1000m"}},"livenessProbe":{"httpGet":{"path":"/livez","port":80,"httpHeaders":[{"name":"Authorization","value":"Bearer ` + planted + `"}]}}}`)
		n.Spec.Template.Metadata.Annotations = map[string]string{"vault.example.com/token": planted, "name": planted}
		n.Spec.Template.PodSpec = rawObject(`{"tolerations":[{"operator":"Exists"}],"containers":[{"name":"side","image":"side","command":["sh","-c","` + planted + `"],` +
			`"env":[{"name":"resources","value":"` + planted + `"}]}],"volumes":[{"name":"v","csi":{"driver":"d","volumeAttributes":{"name":"` + planted + `"}}},` +
			`{"name":"tmp","emptyDir":{"sizeLimit":"1Gi"}}]}`)
	}
	q.add(t, "roll", 3, func(n *v1beta1.NodeSet) {
		secretive(n)
		n.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdate{MaxUnavailable: new(intstr.FromInt32(1))}
	})
	q.add(t, "claims", 2, func(n *v1beta1.NodeSet) {
		n.Spec.VolumeClaimTemplates = []v1beta1.RawObject{rawObject(`{"metadata":{"name":"data","annotations":{"a":"` + planted +
			`"}},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)}
		n.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = v1beta1.ClaimDelete
	})
	q.add(t, "window", 1, func(n *v1beta1.NodeSet) {
		start := metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second))
		n.Spec.UpdateStrategy = v1beta1.NodeSetUpdateStrategy{Type: v1beta1.UpdateScheduled, ScheduledUpdate: &v1beta1.ScheduledUpdate{StartTime: &start}}
	})
	q.add(t, "ssh", 1, func(n *v1beta1.NodeSet) {
		n.Spec.Ssh = &v1beta1.NodeSetSsh{Enabled: true, ExtraSshdConfig: "# " + planted + "\nPermitRootLogin no\n",
			SssdConfRef: corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "sssd"}, Key: "sssd.conf"}}
	})
	q.add(t, "each", 1, func(n *v1beta1.NodeSet) {
		n.Spec.ScalingMode = v1beta1.ScalingModeDaemonSet
		n.Spec.Template.PodSpec = rawObject(`{"nodeSelector":{"pool":"snapshot"}}`)
	})
	q.add(t, "broken", 1, func(n *v1beta1.NodeSet) { n.Spec.Slurmd = rawObject(`{"resources":{"limits":{"memory":"500m"}}}`) })
	sets := []string{"roll", "claims", "window", "ssh", "each", "broken"}
	seen := map[nodeset.Action]bool{}
	same := func(when string) {
		t.Helper()
		for action := range q.sameFromFile(t, when, sets) {
			seen[action] = true
		}
	}
	same("nothing is there yet")
	for _, name := range sets {
		q.reconcile(t, name, 2)
		q.ready(t, name, slurm.NodeIdle)
	}
	same("all workers are ready")
	for _, name := range sets {
		q.reconcile(t, name, 1)
	}
	same("all is settled")
	for _, name := range []string{"roll-0", "roll-1", "roll-2"} {
		q.hasNode(t, name, slurm.NodeAllocated)
	}
	q.runJob(t, slurm.Job{ID: 7, Nodes: "roll-[0-1]", States: slurm.StatesOf(slurm.JobRunning), StartTime: time.Now().Truncate(time.Second), TimeLimit: slurm.NumberOf(30)}, "roll-1")
	q.bind(t, "roll-0", "snap.example.com")
	q.change(t, "roll", func(n *v1beta1.NodeSet) {
		n.Spec.Slurmd = rawObject("%s", strings.ReplaceAll(string(n.Spec.Slurmd.JSON), planted+"-a", planted+"-b"))
	})
	q.change(t, "claims", func(n *v1beta1.NodeSet) { n.Spec.Replicas = new(int32(1)) })
	q.change(t, "window", func(n *v1beta1.NodeSet) { n.Spec.ExtraConf = "Weight=2" })
	sssd.StringData = map[string]string{"sssd.conf": planted + "2"}
	if err := s.admin.Update(t.Context(), sssd); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		same("updates go on")
		for _, name := range sets {
			q.reconcile(t, name, 1)
		}
	}
	for _, action := range []nodeset.Action{nodeset.CreatePod, nodeset.CreateClaim, nodeset.CreateRevision, nodeset.CreateReservation, nodeset.Drain, nodeset.DeletePod, nodeset.Wait, nodeset.Describe, nodeset.Mark} {
		if !seen[action] {
			t.Errorf("no plan had %q, so nothing is known of it; there were %v", action, seen)
		}
	}
}

// runJob lets Slurm have a job, and the operator see it on a node.
func (q *setSuite) runJob(t *testing.T, j slurm.Job, node string) {
	t.Helper()
	q.slurm.resMu.Lock()
	q.slurm.jobs = []slurm.Job{j}
	q.slurm.resMu.Unlock()
	apitest.Eventually(t, time.Minute, "the job is seen", func() error {
		if len(q.clusters.View(q.cluster, time.Minute).JobsOn(node)) == 0 {
			return errors.New("no job is on " + node)
		}
		return nil
	})
}

// bind plays kube-scheduler.
func (q *setSuite) bind(t *testing.T, pod, node string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: q.cluster.Namespace, Name: pod}}
	if err := q.admin.SubResource("binding").Create(t.Context(), p, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}); err != nil {
		t.Fatal(err)
	}
}

// sameFromFile compares plans and facts from a file with the operator's, and returns the actions of the plans.
func (q *setSuite) sameFromFile(t *testing.T, when string, sets []string) map[nodeset.Action]bool {
	t.Helper()
	kube, err := kubernetes.NewForConfig(q.server.Config)
	if err != nil {
		t.Fatal(err)
	}
	salt := []byte("the salt of a test")
	sources := worlds.Sources{Kube: kube, Slurm: readSlurm{q.slurm}, SlurmURL: "http://slurm-restapi.snapshot:6820"}
	m := view.New(worldstest.ThroughFile(t, sources.Read(t.Context(), worlds.Want{Planners: true, Salt: salt}),
		planted, nodeset.Checksum([]byte(planted+"1")), nodeset.Checksum([]byte(planted+"2"))))
	actions := map[nodeset.Action]bool{}
	for _, name := range sets {
		n, c := q.nodeSet(t, name), &v1beta1.Controller{}
		q.get(t, q.cluster.Namespace, q.cluster.Name, c)
		live, err := q.reconciler.observe(t.Context(), n, c, q.clusters.View(q.cluster, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(m.Operator.NodeSets, func(n v1beta1.NodeSet) bool { return n.Namespace == "snapshot" && n.Name == name })
		filed, why := m.NodeSetFacts(&m.Operator.NodeSets[i])
		if why != "" {
			t.Fatalf("%s: NodeSet %s isn't planned: %s", when, name, why)
		}
		filed.Now = live.Now
		want := nodeset.Make(live)
		if diff := gocmp.Diff(redacted(live, redact.New(salt)), filed, alike()...); diff != "" {
			t.Errorf("%s: facts of NodeSet %s (-operator's +from the file):\n%s", when, name, diff)
		}
		got := nodeset.Make(filed)
		for _, step := range want.Steps {
			actions[step.Action] = true
		}
		if diff := gocmp.Diff(stepsOf(want), stepsOf(got)); diff != "" {
			t.Errorf("%s: plan of NodeSet %s (-operator's +from the file):\n%s", when, name, diff)
		}
	}
	return actions
}

// stepsOf are the steps and problems of a plan. A revision that isn't there yet has a name of its own in a
// file, made of what is redacted.
func stepsOf(p nodeset.Plan) []string {
	var out []string
	for _, step := range p.Steps {
		text := step.String()
		if step.Action == nodeset.CreateRevision {
			text = string(step.Action) + ": " + step.Reason
		}
		out = append(out, text)
	}
	for _, problem := range p.Problems {
		out = append(out, problem.Reason+": "+problem.Message)
	}
	return out
}

// redacted are the operator's facts as a file may hold them.
func redacted(f nodeset.Facts, r redact.Redactor) nodeset.Facts {
	n, c := r.NodeSet(f.NodeSet), redact.Controller(f.Controller)
	f.NodeSet, f.Controller, f.Image, f.ClusterDomain, f.NotBefore, f.SssdHash = &n, &c, "", "", nil, r.Text(f.SssdHash)
	for i := range f.Pods {
		f.Pods[i] = view.SlimPod(&f.Pods[i])
		f.Pods[i].Annotations = r.SssdHash(f.Pods[i].Annotations)
	}
	for i := range f.Revisions {
		f.Revisions[i] = r.Revision(&f.Revisions[i])
	}
	for name, claim := range f.Claims {
		f.Claims[name] = &corev1.PersistentVolumeClaim{ObjectMeta: redact.Meta(claim.ObjectMeta)}
	}
	for name, node := range f.Nodes {
		slim := view.SlimNode(node)
		f.Nodes[name] = &slim
	}
	return f
}

// alike are how facts are compared: in any order, and JSON by what it says.
func alike() []gocmp.Option {
	says := func(text []byte) (v any) {
		_ = json.Unmarshal(text, &v)
		return v
	}
	return []gocmp.Option{
		cmpopts.EquateEmpty(),
		cmpopts.SortSlices(func(a, b corev1.Pod) bool { return cmp.Less(a.Name, b.Name) }),
		gocmp.Transformer("object", func(o v1beta1.RawObject) any { return says(o.JSON) }),
		gocmp.Transformer("data", func(o runtime.RawExtension) any { return says(o.Raw) }),
	}
}
