// Package redact takes out of objects what may be secret, and leaves what planners go by. Each
// text that is taken out becomes one that stands for it: alike texts stay alike, so that a
// changed one still shows, and nobody can find out what it was.
package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Redactor replaces texts by sums with a salt. Whoever has the salt can guess what a text was,
// so it is to be random, and to be forgotten.
type Redactor struct{ salt []byte }

// New returns a Redactor with a salt, which must not be empty.
func New(salt []byte) Redactor { return Redactor{salt} }

// prefix is before a sum, so that readers see what it is.
const prefix = "redacted-"

// Text stands for a text; "" stays.
func (r Redactor) Text(s string) string {
	if s == "" {
		return ""
	}
	sum := hmac.New(sha256.New, r.salt)
	sum.Write([]byte(s))
	return prefix + hex.EncodeToString(sum.Sum(nil)[:16])
}

// plain are the keys of a pod template below which texts stay as they are: planners read them, they are
// quantities, or they name parts of the template.
var plain = map[string]bool{
	"name": true, "mountPath": true, "hostname": true, "nodeName": true, "schedulerName": true, "nodeSelector": true, "affinity": true,
	"tolerations": true, "topologySpreadConstraints": true, "topologyKey": true, "labels": true, "ip": true, "devicePath": true,
	"resources": true, "limits": true, "requests": true, "sizeLimit": true, "divisor": true, "overhead": true,
	"$patch": true, "$retainKeys": true, "restartPolicy": true, "protocol": true,
	"controllerRef": true, "sssdConfRef": true, "extraConf": true,
}

// free are the keys below which users choose the keys: one of them that looks like one above says nothing.
var free = map[string]bool{"annotations": true, "volumeAttributes": true, "options": true, "data": true, "stringData": true}

// JSON returns the text of a JSON object with its texts replaced. What isn't JSON is replaced as a whole.
func (r Redactor) JSON(text []byte) []byte {
	if len(text) == 0 {
		return text
	}
	var v any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var out []byte
	err := d.Decode(&v)
	if err == nil {
		out, err = json.Marshal(r.value(v, false))
	}
	if err != nil {
		out, _ = json.Marshal(r.Text(string(text))) // a text can always be
	}
	return out
}

func (r Redactor) value(v any, open bool) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			switch {
			case free[key]:
				v[key] = r.chosen(inner)
			default:
				v[key] = r.value(inner, open || plain[key])
			}
		}
	case []any:
		for i := range v {
			v[i] = r.value(v[i], open)
		}
	case string:
		if !open {
			return r.Text(v)
		}
	}
	return v
}

// chosen replaces all texts below keys that a user chose, but those of Slinky's own annotations.
func (r Redactor) chosen(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if !Ours(key) {
				v[key] = r.chosen(inner)
			}
		}
	case []any:
		for i := range v {
			v[i] = r.chosen(v[i])
		}
	case string:
		return r.Text(v)
	}
	return v
}

// Ours tells whether a key of an annotation is Slinky's. Others may hold anything, such as
// the whole manifest that kubectl keeps, with its environment.
func Ours(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && (domain == "slinky.slurm.net" || strings.HasSuffix(domain, ".slinky.slurm.net"))
}

// Meta returns what of an object's metadata planners need.
func Meta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, Labels: m.Labels, Annotations: Annotations(m.Annotations), OwnerReferences: m.OwnerReferences,
		Finalizers: m.Finalizers, CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, Generation: m.Generation,
	}
}

// Annotations are those of Slinky.
func Annotations(all map[string]string) map[string]string {
	var out map[string]string
	for key, value := range all {
		if Ours(key) {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// NodeSet returns a NodeSet with what may be secret in its templates replaced.
func (r Redactor) NodeSet(n *v1beta1.NodeSet) v1beta1.NodeSet {
	out := v1beta1.NodeSet{ObjectMeta: Meta(n.ObjectMeta), Spec: *n.Spec.DeepCopy(), Status: *n.Status.DeepCopy()}
	s := &out.Spec
	for _, o := range []*v1beta1.RawObject{&s.Slurmd, &s.LogFile, &s.Template.PodSpec} {
		o.JSON = r.JSON(o.JSON)
	}
	for i := range s.VolumeClaimTemplates {
		s.VolumeClaimTemplates[i].JSON = r.JSON(s.VolumeClaimTemplates[i].JSON)
	}
	s.Template.Metadata.Annotations = r.annotations(s.Template.Metadata.Annotations)
	if s.Ssh != nil {
		s.Ssh.ExtraSshdConfig = r.Text(s.Ssh.ExtraSshdConfig)
	}
	return out
}

func (r Redactor) annotations(all map[string]string) map[string]string {
	out := maps.Clone(all)
	for key, value := range out {
		if !Ours(key) {
			out[key] = r.Text(value)
		}
	}
	return out
}

// Revision returns a revision of a NodeSet with the same texts replaced as in the NodeSet.
func (r Redactor) Revision(c *appsv1.ControllerRevision) appsv1.ControllerRevision {
	out := appsv1.ControllerRevision{ObjectMeta: Meta(c.ObjectMeta), Revision: c.Revision}
	out.Data.Raw = r.JSON(c.Data.Raw)
	return out
}

// Controller returns what of a Controller tells where it is: names and addresses.
func Controller(c *v1beta1.Controller) v1beta1.Controller {
	out := v1beta1.Controller{ObjectMeta: Meta(c.ObjectMeta)}
	s := c.Spec.DeepCopy()
	out.Spec.ClusterName, out.Spec.External, out.Spec.ExternalConfig = s.ClusterName, s.External, s.ExternalConfig
	out.Spec.SlurmKeyRef, out.Spec.Service.Port = s.SlurmKeyRef, s.Service.Port
	return out
}

// SssdHash stands for what a pod says of its sssd.conf: a plain sum of a file that is known but for a
// password would let that be guessed.
func (r Redactor) SssdHash(annotations map[string]string) map[string]string {
	if annotations[v1beta1.AnnotationSssdConfHash] == "" {
		return annotations
	}
	out := maps.Clone(annotations)
	out[v1beta1.AnnotationSssdConfHash] = r.Text(out[v1beta1.AnnotationSssdConfHash])
	return out
}
