package worlds

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// thing is an object in a line of YAML.
func thing(t *testing.T, c client.Client, text string) types.UID {
	t.Helper()
	var uid types.UID
	for _, o := range apitest.Objects(t, "the test", []byte(text)) {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatalf("create %s %s: %v", o.GetKind(), o.GetName(), err)
		}
		uid = o.GetUID()
	}
	return uid
}

// TestSnapshotSaysWhichRightIsMissing takes snapshots with more and more rights: each part that can't be read is named
// with the right that it takes, its planner says so in place of a plan, and with the role of the docs all is there.
func TestSnapshotSaysWhichRightIsMissing(t *testing.T) {
	server := apitest.Start(t)
	admin, err := client.New(server.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ml", "slinky", "slurm"} {
		server.Namespace(t, name)
		thing(t, admin, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: "+name+"}}")
	}
	thing(t, admin, `{apiVersion: v1, kind: ConfigMap, metadata: {name: slurm-bridge-config, namespace: slinky}, data: {config.yaml: "slurmRestApi: http://slurm-restapi.slurm:6820\npolicyConfigMap: slurm-bridge-policy"}}`)
	thing(t, admin, `{apiVersion: slinky.slurm.net/v1beta1, kind: Controller, metadata: {name: slurm, namespace: slurm}, spec: {slurmKeyRef: {name: k, key: k}, jwtKeyRef: {name: k, key: k}}}`)
	thing(t, admin, `{apiVersion: slinky.slurm.net/v1beta1, kind: RestApi, metadata: {name: slurm, namespace: slurm}, spec: {controllerRef: {name: slurm}}}`)
	thing(t, admin, `{apiVersion: slinky.slurm.net/v1beta1, kind: NodeSet, metadata: {name: cpu, namespace: slurm}, spec: {controllerRef: {name: slurm}, replicas: 1, ssh: {enabled: true, sssdConfRef: {name: sssd, key: conf}}, `+
		`volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}`)
	job := thing(t, admin, `{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: ml}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`)
	thing(t, admin, `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ml, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: `+string(job)+
		`, controller: true}]}, spec: {schedulerName: slurm-bridge-scheduler, restartPolicy: Never, containers: [{name: c, image: i}]}}`)

	grant := func(name string, rules ...rbacv1.PolicyRule) {
		t.Helper()
		if err := admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}); err != nil {
			t.Fatal(err)
		}
		server.Bind(t, "ml", "eve", name)
	}
	look := func() (*view.Model, []string) {
		t.Helper()
		var s Sources
		if err := Connect(t.Context(), server.As("ml", "eve"), Slurmrestd{}, &s); err != nil {
			t.Fatal(err)
		}
		s.Slurm, s.SlurmError = quiet{}, nil
		f := s.Read(t.Context(), Want{Planners: true, Salt: []byte("salt"), Fallback: "ml"})
		var file bytes.Buffer
		if err := Write(&file, f); err != nil {
			t.Fatal(err)
		}
		read, err := Load(&file)
		if err != nil {
			t.Fatal(err)
		}
		return view.New(read), read.NotInFile()
	}
	unplanned := func(m *view.Model, planner string) string {
		for _, p := range m.Plans() {
			if p.Planner == planner && p.Unplanned != "" {
				return p.Unplanned
			}
		}
		return ""
	}
	says := func(m *view.Model, lacks []string, planner, why string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !slices.Contains(lacks, part) {
				t.Errorf("it isn't said: %s\nbut\n%s", part, strings.Join(lacks, "\n"))
			}
		}
		if got := unplanned(m, planner); got != why {
			t.Errorf("planner %s says %q, want %q", planner, got, why)
		}
	}

	m, lacks := look()
	says(m, lacks, view.PlannerWorkloads, "the file lacks settings of the bridge: you may not list configmaps in all namespaces",
		"The file lacks settings of the bridge: you may not list configmaps in all namespaces",
		"The file lacks pods: you may not list pods in namespace ml", "The file lacks nodes: you may not list nodes of the cluster")
	says(m, lacks, view.PlannerNodeSets, "the file lacks specs of NodeSets: you may not list nodesets.slinky.slurm.net in namespace ml")

	rule := func(group, verbs string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: strings.Split(verbs, ",")}
	}
	grant("basic", rule("", "list", "configmaps", "pods", "nodes"), rule("slinky.slurm.net", "list", "controllers", "nodesets", "restapis"))
	m, lacks = look()
	says(m, lacks, view.PlannerNodes, "the file lacks identity of the Kubernetes cluster: you may not get namespace kube-system",
		"The file lacks rules of namespaces: you may not list namespaces of the cluster",
		"The file lacks rules of namespaces: you may not get configmaps in namespace slinky",
		"The file lacks ResourceSlices: you may not list resourceslices.resource.k8s.io of the cluster",
		"The file lacks Jobs that own pods: you may not list jobs.batch in all namespaces",
		"The file lacks ControllerRevisions of namespace slurm: you may not list controllerrevisions.apps in namespace slurm",
		"The file lacks PersistentVolumeClaims of NodeSets of namespace slurm: you may not list persistentvolumeclaims in namespace slurm",
		"The file lacks sssd.conf of NodeSets of namespace slurm: you may not get secrets in namespace slurm",
		"The file lacks settings of the operator: you may not list deployments.apps in all namespaces")
	says(m, lacks, view.PlannerNodeSets, "the file lacks ControllerRevisions: you may not list controllerrevisions.apps in namespace slurm")

	grant("more", rule("", "get,list", "namespaces"), rule("", "get", "configmaps"), rule("apps", "list", "controllerrevisions"))
	m, lacks = look()
	says(m, lacks, view.PlannerNodes, "the file lacks ResourceSlices: you may not list resourceslices.resource.k8s.io of the cluster")
	says(m, lacks, view.PlannerWorkloads, "the file lacks Jobs that own pods: you may not list jobs.batch in all namespaces")
	says(m, lacks, view.PlannerNodeSets, "the file lacks PersistentVolumeClaims of NodeSets: you may not list persistentvolumeclaims in namespace slurm")

	// Jobs of one namespace are enough for the pods of that one.
	server.BindRole(t, "ml", "eve", "jobs")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "jobs"}, Rules: []rbacv1.PolicyRule{rule("batch", "list", "jobs")}}
	if err := admin.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	m, _ = look()
	says(m, nil, view.PlannerWorkloads, "the file lacks Jobs that own pods: you may not list jobs.batch in all namespaces")

	thing(t, admin, documented(t, "kind: ClusterRole\n"))
	server.Bind(t, "ml", "eve", "slinky-snapshot")
	m, lacks = look()
	if want := []string{"The file lacks sssd.conf of NodeSets of namespace slurm: you may not get secrets in namespace slurm"}; !slices.Equal(lacks, want) {
		t.Errorf("with the role of the docs is missing\n%s", strings.Join(lacks, "\n"))
	}
	for _, planner := range []string{view.PlannerNodes, view.PlannerWorkloads} {
		if got := unplanned(m, planner); got != "" {
			t.Errorf("with the role of the docs, planner %s says %q", planner, got)
		}
	}
}

// documented returns the YAML of docs/cli.md that has a line.
func documented(t *testing.T, line string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		if yaml, _, _ := strings.Cut(block, "```"); strings.Contains(yaml, line) {
			return yaml
		}
	}
	t.Fatalf("docs/cli.md shows no %s", line)
	return ""
}
