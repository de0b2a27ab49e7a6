package redact

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

const secret = "hunter2"

// template has a secret wherever users may put one, also under keys that look harmless.
const template = `{"hostname":"cpu-","nodeSelector":{"pool":"a"},"tolerations":[{"key":"k","operator":"Exists"}],"securityContext":{"runAsUser":7},
 "containers":[{"name":"c","image":"registry.example.com/hunter2","command":["hunter2"],"args":["-p","hunter2"],"workingDir":"/hunter2",
  "env":[{"name":"resources","value":"hunter2"},{"name":"A","value":""},{"name":"B","valueFrom":{"resourceFieldRef":{"resource":"hunter2","divisor":"1Mi"}}}],
  "resources":{"limits":{"cpu":"1500m","memory":"1Gi"}},"ports":[{"containerPort":80,"name":"web"}],"volumeMounts":[{"name":"v","mountPath":"/data"}],
  "livenessProbe":{"httpGet":{"port":"web","path":"/hunter2","httpHeaders":[{"name":"h","value":"hunter2"}]}},"lifecycle":{"preStop":{"exec":{"command":["hunter2"]}}}}],
 "volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi"}},{"name":"w","csi":{"driver":"hunter2","volumeAttributes":{"name":"hunter2","resources":"hunter2"}}},
  {"name":"x","ephemeral":{"volumeClaimTemplate":{"metadata":{"annotations":{"name":"hunter2","hostname":"hunter2","nodeset.slinky.slurm.net/kept":"yes"}},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}}},
  {"name":"y","flexVolume":{"driver":"hunter2","options":{"limits":"hunter2"}}}],"hostAliases":[{"ip":"10.0.0.1","hostnames":["hunter2"]}]}`

func decode(t *testing.T, text []byte) corev1.PodSpec {
	t.Helper()
	var spec corev1.PodSpec
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatalf("what is redacted is no pod any more: %v\n%s", err, text)
	}
	return spec
}

// What may be secret is gone, and the template is still one of a pod, with all that planners read.
func TestTemplate(t *testing.T) {
	got := New([]byte("salt")).JSON([]byte(template))
	if strings.Contains(string(got), secret) {
		t.Errorf("a secret is left:\n%s", got)
	}
	before, after := decode(t, []byte(template)), decode(t, got)
	for name, pair := range map[string][2]any{
		"hostname": {before.Hostname, after.Hostname}, "node selector": {before.NodeSelector, after.NodeSelector}, "tolerations": {before.Tolerations, after.Tolerations},
		"security": {before.SecurityContext, after.SecurityContext}, "resources": {before.Containers[0].Resources, after.Containers[0].Resources},
		"mounts": {before.Containers[0].VolumeMounts, after.Containers[0].VolumeMounts}, "ports": {before.Containers[0].Ports, after.Containers[0].Ports},
		"an empty value": {"", after.Containers[0].Env[1].Value}, "a size": {before.Volumes[0].EmptyDir.SizeLimit, after.Volumes[0].EmptyDir.SizeLimit},
		"an annotation of ours": {"yes", after.Volumes[2].Ephemeral.VolumeClaimTemplate.Annotations["nodeset.slinky.slurm.net/kept"]},
		"a storage request":     {before.Volumes[2].Ephemeral.VolumeClaimTemplate.Spec.Resources, after.Volumes[2].Ephemeral.VolumeClaimTemplate.Spec.Resources},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
}

// Alike texts stay alike and others differ, within a file; sums of two files say nothing about each other.
func TestSums(t *testing.T) {
	a, b := New([]byte("a")), New([]byte("b"))
	if x := New([]byte("a")).Text("x"); x != a.Text("x") || x == a.Text("y") || a.Text("") != "" {
		t.Errorf("sums are %q, %q, %q, %q", x, a.Text("x"), a.Text("y"), a.Text(""))
	}
	if a.Text("x") == b.Text("x") {
		t.Error("two salts give one sum")
	}
	if got := string(a.JSON([]byte("not JSON: " + secret))); !strings.HasPrefix(got, `"redacted-`) {
		t.Errorf("what isn't JSON becomes %s", got)
	}
	if got := a.JSON(nil); got != nil {
		t.Errorf("nothing becomes %s", got)
	}
}

// A NodeSet and its revisions are redacted alike, so that what has changed since shows and what hasn't doesn't.
func TestNodeSetAndRevision(t *testing.T) {
	r := New([]byte("salt"))
	n := &v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Name: "cpu", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: secret}}}
	n.Spec.Slurmd.JSON = []byte(`{"env":[{"name":"P","value":"hunter2"}]}`)
	n.Spec.LogFile.JSON = []byte(`{"args":["hunter2"]}`)
	n.Spec.Template.PodSpec.JSON = []byte(template)
	n.Spec.Template.Metadata.Annotations = map[string]string{"vault/token": secret, v1beta1.AnnotationTopology: "t:s"}
	n.Spec.ExtraConf = "Weight=2"
	n.Spec.Ssh = &v1beta1.NodeSetSsh{ExtraSshdConfig: secret, SssdConfRef: corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "sssd"}, Key: "conf"}}
	n.Spec.VolumeClaimTemplates = []v1beta1.RawObject{{JSON: []byte(`{"metadata":{"name":"d","annotations":{"name":"hunter2"}},"spec":{"storageClassName":"hunter2"}}`)}}
	before := n.DeepCopy()
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "cpu-1"}, Revision: 3}
	data := map[string]any{"extraConf": n.Spec.ExtraConf, "ssh": n.Spec.Ssh, "slurmd": json.RawMessage(n.Spec.Slurmd.JSON), "logfile": json.RawMessage(n.Spec.LogFile.JSON),
		"template": map[string]any{"$patch": "replace", "metadata": n.Spec.Template.Metadata, "spec": json.RawMessage(n.Spec.Template.PodSpec.JSON)}}
	revision.Data.Raw, _ = json.Marshal(map[string]any{"spec": data})

	set, rev := r.NodeSet(n), r.Revision(revision)
	text, err := json.Marshal([]any{set, rev})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) {
		t.Errorf("a secret is left:\n%s", text)
	}
	if diff := cmp.Diff(before, n); diff != "" {
		t.Errorf("the NodeSet itself is changed:\n%s", diff)
	}
	var of struct {
		Spec struct {
			ExtraConf       string
			Ssh             v1beta1.NodeSetSsh
			Slurmd, LogFile any
			Template        struct {
				Metadata v1beta1.Metadata
				Spec     any
				Patch    string `json:"$patch"`
			}
		}
	}
	if err := json.Unmarshal(rev.Data.Raw, &of); err != nil {
		t.Fatal(err)
	}
	says := func(o v1beta1.RawObject) (v any) { _ = json.Unmarshal(o.JSON, &v); return v }
	for name, pair := range map[string][2]any{
		"extraConf": {set.Spec.ExtraConf, of.Spec.ExtraConf}, "ssh": {*set.Spec.Ssh, of.Spec.Ssh}, "slurmd": {says(set.Spec.Slurmd), of.Spec.Slurmd},
		"logfile": {says(set.Spec.LogFile), of.Spec.LogFile}, "metadata": {set.Spec.Template.Metadata, of.Spec.Template.Metadata}, "spec": {says(set.Spec.Template.PodSpec), of.Spec.Template.Spec},
		"topology": {"t:s", set.Spec.Template.Metadata.Annotations[v1beta1.AnnotationTopology]}, "Secret's name": {"sssd", set.Spec.Ssh.SssdConfRef.Name},
		"$patch": {"replace", of.Spec.Template.Patch}, "number": {int64(3), rev.Revision},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-NodeSet +revision):\n%s", name, diff)
		}
	}
}

// Of a Controller only what tells where it is is left.
func TestController(t *testing.T) {
	c := &v1beta1.Controller{ObjectMeta: metav1.ObjectMeta{Name: "slurm", Namespace: "slurm"}}
	c.Spec.ExtraConf, c.Spec.Slurmctld.JSON = "StorageParameters="+secret, []byte(`{"env":[{"name":"P","value":"hunter2"}]}`)
	c.Spec.Service.Port = 7000
	got := Controller(c)
	text, err := json.Marshal(got)
	if err != nil || strings.Contains(string(text), secret) {
		t.Errorf("a secret is left: %s (%v)", text, err)
	}
	host, port := got.Address()
	if wantHost, wantPort := c.Address(); host != wantHost || port != wantPort {
		t.Errorf("it is at %s:%d, want %s:%d", host, port, wantHost, wantPort)
	}
}
