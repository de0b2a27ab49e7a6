package nodeset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// revise finds or makes the revision of the current spec, and lets go of old ones. What counts
// is what a revision says, not how it was written: pods and revisions of another version of
// the operator, or of the published one, stay as they are while they mean the same.
func (p *planner) revise() {
	p.equal = map[string]bool{}
	data, err := revisionData(p.NodeSet)
	if err == nil {
		err = p.buildable()
	}
	if err != nil {
		p.problem(v1beta1.ReasonInvalidSpec, "spec."+err.Error())
		return
	}
	p.collisions = p.NodeSet.Status.CollisionCount
	sorted := slices.Clone(p.Revisions)
	slices.SortFunc(sorted, func(a, b appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	same := sameMeaning(data)
	var current *appsv1.ControllerRevision
	for i := range sorted {
		r := &sorted[i]
		if r.DeletionTimestamp != nil || !same(r.Data.Raw) {
			continue
		}
		p.equal[r.Labels[v1beta1.LabelRevisionHash]] = true
		// Of several the newest counts, but pods shall keep the one that they had.
		if current == nil || current.Labels[v1beta1.LabelRevisionHash] != p.NodeSet.Status.NodeSetHash {
			current = r
		}
	}
	newest := int64(0)
	if len(sorted) > 0 {
		newest = sorted[len(sorted)-1].Revision
	}
	if current == nil {
		p.newRevision(data, newest+1)
	} else {
		p.hash = current.Labels[v1beta1.LabelRevisionHash]
		p.keepRevision(current, newest)
	}
	p.equal[p.hash] = true
	p.truncate(sorted)
}

// newRevision plans a revision that there was none of before.
func (p *planner) newRevision(data []byte, number int64) {
	names := map[string]bool{}
	for _, r := range p.Revisions {
		names[r.Name] = true
	}
	n := p.NodeSet
	p.hash = revisionHash(data, p.collisions)
	for names[n.Name+"-"+p.hash] {
		more := int32(1)
		if p.collisions != nil {
			more += *p.collisions
		}
		p.collisions = &more
		p.hash = revisionHash(data, p.collisions)
	}
	if p.deleting() {
		return
	}
	labels := map[string]string{}
	maps.Copy(labels, n.Spec.Template.Metadata.Labels)
	maps.Copy(labels, Selector(n.Name))
	labels[v1beta1.LabelRevisionHash] = p.hash
	yes := true
	p.step(Step{Action: CreateRevision, Reason: "the pod template is new", Revision: &appsv1.ControllerRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name + "-" + p.hash, Namespace: n.Namespace, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindNodeSet, Name: n.Name, UID: n.UID, Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}})
}

// keepRevision makes a revision the newest again after a rollback, and gives one that lacks
// them the labels by which it is found.
func (p *planner) keepRevision(r *appsv1.ControllerRevision, newest int64) {
	changed := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: r.UID, Labels: map[string]string{}}, Revision: r.Revision}
	for key, value := range Selector(p.NodeSet.Name) {
		if r.Labels[key] != value {
			changed.Labels[key] = value
		}
	}
	highest := 0
	for _, other := range p.Revisions {
		if other.Revision >= newest {
			highest++
		}
	}
	if r.Revision < newest || highest > 1 {
		changed.Revision = newest + 1
	}
	if len(changed.Labels) > 0 || changed.Revision != r.Revision {
		p.step(Step{Action: UpdateRevision, Revision: changed, Reason: "it is what the spec says"})
	}
}

// truncate deletes the oldest revisions that no pod has, but for as many as the user keeps.
func (p *planner) truncate(sorted []appsv1.ControllerRevision) {
	used := maps.Clone(p.equal)
	for i := range p.Pods {
		used[p.Pods[i].Labels[v1beta1.LabelRevisionHash]] = true
	}
	history := slices.DeleteFunc(slices.Clone(sorted), func(r appsv1.ControllerRevision) bool {
		return used[r.Labels[v1beta1.LabelRevisionHash]] || r.DeletionTimestamp != nil
	})
	for i := range max(0, len(history)-int(p.NodeSet.Spec.RevisionHistoryLimit)) {
		r := history[i]
		p.step(Step{Action: DeleteRevision, Reason: "no pod has it",
			Revision: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: r.UID}}})
	}
}

// revision is the hash of those fields whose change replaces pods.
func revision(n *v1beta1.NodeSet) (string, error) {
	data, err := revisionData(n)
	return revisionHash(data, n.Status.CollisionCount), err
}

// revisionData is what a ControllerRevision keeps of a NodeSet, in the published form.
func revisionData(n *v1beta1.NodeSet) ([]byte, error) {
	s := n.Spec
	metadata, err := asMap(s.Template.Metadata)
	if err != nil {
		return nil, fmt.Errorf("template.metadata: %w", err)
	}
	spec := map[string]any{"ordinalPadding": s.OrdinalPadding, "oversubscribeNode": s.OversubscribeNode}
	template := map[string]any{"metadata": metadata}
	if template["spec"], err = typed[corev1.PodSpec](s.Template.PodSpec); err != nil {
		return nil, fmt.Errorf("template.spec: %w", err)
	}
	spec["template"] = template
	if spec["slurmd"], err = typed[corev1.Container](s.Slurmd); err != nil {
		return nil, fmt.Errorf("slurmd: %w", err)
	}
	if spec["logfile"], err = typed[corev1.Container](s.LogFile); err != nil {
		return nil, fmt.Errorf("logfile: %w", err)
	}
	if s.ExtraConf != "" {
		spec["extraConf"] = s.ExtraConf
	}
	if s.Ssh != nil {
		if spec["ssh"], err = asMap(s.Ssh); err != nil {
			return nil, fmt.Errorf("ssh: %w", err)
		}
	}
	for _, part := range []string{"template", "slurmd", "logfile", "ssh"} {
		if m, ok := spec[part].(map[string]any); ok {
			m["$patch"] = "replace"
		}
	}
	return json.Marshal(map[string]any{"spec": spec})
}

// typed is a user's object in the form that Kubernetes' type gives it. One that isn't of that
// type stays as it was written: it is refused where it is used.
func typed[T any](o v1beta1.RawObject) (map[string]any, error) {
	var value T
	if err := o.Decode(&value); err != nil {
		return asMap(o)
	}
	return asMap(value)
}

func asMap(v any) (map[string]any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal(text, &out)
}

// revisionHash is Kubernetes' hash of a ControllerRevision.
func revisionHash(data []byte, collisions *int32) string {
	h := fnv.New32()
	h.Write(data)
	count := int32(0)
	if collisions != nil {
		count = *collisions
	}
	h.Write([]byte(strconv.Itoa(int(count))))
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// sameMeaning compares revisions with one. Most of the time they are the same to the letter.
func sameMeaning(data []byte) func(other []byte) bool {
	meaning := sync.OnceValue(func() string { return meaningOf(data) })
	return func(other []byte) bool { return bytes.Equal(data, other) || meaningOf(other) == meaning() }
}

// meaningOf is a revision's content without what says nothing: versions of Kubernetes'
// types differ in which empty fields they write.
func meaningOf(data []byte) string {
	var content struct {
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(data, &content); err != nil || content.Spec == nil {
		return "unreadable: " + string(data)
	}
	retype[corev1.Container](content.Spec, "slurmd")
	retype[corev1.Container](content.Spec, "logfile")
	if template, ok := content.Spec["template"].(map[string]any); ok {
		retype[corev1.PodSpec](template, "spec")
	}
	text, err := json.Marshal(meaningful(content.Spec))
	if err != nil {
		return "unreadable: " + string(data)
	}
	return string(text)
}

// retype brings a part into the form that our version of Kubernetes' type has.
func retype[T any](in map[string]any, key string) {
	part, ok := in[key].(map[string]any)
	if !ok {
		return
	}
	text, err := json.Marshal(part)
	if err != nil {
		return
	}
	if now, err := typed[T](v1beta1.RawObject{JSON: text}); err == nil {
		in[key] = now
	}
}

// meaningful drops what is empty. An explicit false or 0 stays.
func meaningful(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if value = meaningful(value); value != nil && key != "$patch" {
				out[key] = value
			}
		}
		if len(out) > 0 {
			return out
		}
		return nil
	case []any:
		out := make([]any, 0, len(v))
		for _, value := range v {
			out = append(out, meaningful(value)) // a place in a list counts, even an empty one
		}
		if len(out) > 0 {
			return out
		}
		return nil
	case string:
		if v == "" {
			return nil
		}
	}
	return v
}
