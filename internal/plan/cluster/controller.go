package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
	"github.com/slinky-hpc/slinky/slurm/conf"
)

// ControllerFacts is what a Controller's objects depend on.
type ControllerFacts struct {
	Controller *v1beta1.Controller
	// Accounting is the referenced one; nil where there is none.
	Accounting *v1beta1.Accounting
	// NodeSets are those of the cluster, in any order.
	NodeSets []v1beta1.NodeSet
	// SlurmKey and JwtKey are the contents of the referenced keys; nil where they don't exist.
	SlurmKey, JwtKey []byte
	// Keys is what the Secret with the keys of auth/slurm should hold, nil for none; KeysChanged
	// is when it changed last.
	Keys        map[string][]byte
	KeysChanged string
	// ConfigMaps holds the data of all ConfigMaps that the Controller refers to, by name;
	// those that don't exist are absent.
	ConfigMaps map[string]map[string]string
	// Live is slurmctld's StatefulSet as it is, nil where there is none.
	Live *appsv1.StatefulSet
	// Claim is the claim that persistence.existingClaim names; nil where it doesn't exist.
	Claim  *corev1.PersistentVolumeClaim
	Images Images
}

// Controller plans slurmctld.
func Controller(f ControllerFacts) Plan {
	var plan Plan
	c := f.Controller
	f.missing(&plan)
	text, err := f.slurmConf(&plan).Text()
	if err != nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "slurm.conf can't be written and stays as it was: "+oneLine(err))
		return plan
	}
	data := map[string]string{"slurm.conf": text}
	plan.Objects = append(plan.Objects, f.workersService(), f.workersBudget())
	if f.Keys != nil {
		plan.Objects = append(plan.Objects, f.keys())
	}
	if c.Spec.External {
		plan.Objects = append(plan.Objects, f.configMap(data))
		return plan
	}
	if !f.provided("cgroup.conf") {
		// The text is constant: it can't fail.
		data["cgroup.conf"], _ = conf.CgroupConf{Plugin: "cgroup/v2", IgnoreSystemd: true}.Text()
	}
	service, err := f.service()
	if err != nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "spec."+oneLine(err))
	} else {
		plan.Objects = append(plan.Objects, service)
	}
	plan.Objects = append(plan.Objects, f.internalService(), f.configMap(data))
	if !f.canShareState(&plan) || f.Keys == nil || f.JwtKey == nil || len(f.absentConfigMaps()) > 0 {
		return plan
	}
	workload, err := f.statefulSet(data)
	if err != nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "spec."+oneLine(err))
		return plan
	}
	if why := f.mustRecreate(workload); why != nil {
		plan.Recreate = why
		return plan
	}
	plan.Objects = append(plan.Objects, workload)
	return plan
}

// canShareState tells whether several controllers can keep their state where spec says.
func (f ControllerFacts) canShareState(plan *Plan) bool {
	c := f.Controller
	if c.Replicas() == 1 || c.Spec.Persistence == nil {
		return true
	}
	name := c.Spec.Persistence.ExistingClaim
	if f.Claim == nil {
		plan.problem(v1beta1.ReasonReferenceNotFound, fmt.Sprintf("spec.persistence.existingClaim: there is no PersistentVolumeClaim %q in namespace %s: create it; slurmctld's pods wait for it", name, c.Namespace))
		return true
	}
	if !slices.Contains(f.Claim.Spec.AccessModes, corev1.ReadWriteMany) {
		plan.problem(v1beta1.ReasonInvalidSpec, fmt.Sprintf("spec.persistence.existingClaim: PersistentVolumeClaim %q is not ReadWriteMany: with ha all controllers keep their state in it; name a claim with that access mode", name))
		return false
	}
	return true
}

// mustRecreate tells how a live StatefulSet has to go before the wanted one can be made,
// because of a field that Kubernetes doesn't let change; nil if it may stay.
func (f ControllerFacts) mustRecreate(want *appsv1.StatefulSet) *Recreate {
	live := f.Live
	switch {
	case live == nil || live.DeletionTimestamp != nil:
		return nil
	case live.Spec.ServiceName != want.Spec.ServiceName:
		// The pods' own names in DNS follow the Service: they go with it.
		return &Recreate{Object: live, Why: fmt.Sprintf("its Service changes from %s to %s", live.Spec.ServiceName, want.Spec.ServiceName)}
	case want.Spec.PodManagementPolicy == appsv1.ParallelPodManagement && live.Spec.PodManagementPolicy != appsv1.ParallelPodManagement:
		return &Recreate{Object: live, KeepPods: true, Why: "standby controllers have to start while they aren't ready"}
	}
	return nil
}

// missing reports the objects that are referred to and don't exist.
func (f ControllerFacts) missing(plan *Plan) {
	c := f.Controller
	if name := named(c.Spec.AccountingRef); name != "" && f.Accounting == nil {
		plan.problem(v1beta1.ReasonReferenceNotFound, fmt.Sprintf("spec.accountingRef: there is no Accounting %q in namespace %s; the cluster runs without accounting until it exists", name, c.Namespace))
	}
	if c.Spec.External {
		return
	}
	plan.missingKey("spec.slurmKeyRef", c.Namespace, c.Spec.SlurmKeyRef, f.SlurmKey)
	plan.missingKey("spec.jwtKeyRef", c.Namespace, c.JwtKey(), f.JwtKey)
	for _, name := range f.absentConfigMaps() {
		plan.problem(v1beta1.ReasonReferenceNotFound, fmt.Sprintf("there is no ConfigMap %q in namespace %s, which spec refers to: create it", name, c.Namespace))
	}
	f.clashes(plan)
}

// clashes reports files of /etc/slurm that several ConfigMaps hold: of each, the projected
// volume has only the last ConfigMap's.
func (f ControllerFacts) clashes(plan *Plan) {
	holders := map[string][]string{}
	for _, name := range f.references() {
		for file := range f.ConfigMaps[name] {
			holders[file] = append(holders[file], name)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(holders)) {
		if in := holders[file]; len(in) > 1 {
			plan.problem(v1beta1.ReasonInvalidSpec, fmt.Sprintf("ConfigMaps %s of namespace %s, which spec refers to, all have a file %q: only that of %s is used; rename the others", strings.Join(in, ", "), f.Controller.Namespace, file, in[len(in)-1]))
		}
	}
}

func (p *Plan) missingKey(field, namespace string, ref *corev1.SecretKeySelector, content []byte) {
	if content == nil && ref != nil {
		p.problem(v1beta1.ReasonReferenceNotFound, fmt.Sprintf("%s: there is no key %q in a Secret %q of namespace %s: create it", field, ref.Key, ref.Name, namespace))
	}
}

// references lists the ConfigMaps that are mounted, sorted, each once.
func (f ControllerFacts) references() []string {
	s := f.Controller.Spec
	names := map[string]bool{}
	for _, refs := range [][]corev1.LocalObjectReference{s.ConfigFileRefs, s.PrologScriptRefs, s.EpilogScriptRefs, s.PrologSlurmctldScriptRefs, s.EpilogSlurmctldScriptRefs} {
		for _, r := range refs {
			names[r.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (f ControllerFacts) absentConfigMaps() []string {
	names := f.references()
	if f.Controller.Spec.JwksKeyRef != nil {
		names = append(names, f.Controller.Spec.JwksKeyRef.Name)
	}
	return slices.DeleteFunc(names, func(name string) bool { _, ok := f.ConfigMaps[name]; return ok })
}

// provided tells whether a user's ConfigMap holds a file.
func (f ControllerFacts) provided(file string) bool {
	for _, ref := range f.Controller.Spec.ConfigFileRefs {
		if _, ok := f.ConfigMaps[ref.Name][file]; ok {
			return true
		}
	}
	return false
}

// scripts lists the files of ConfigMaps, sorted, each once: a script that two ConfigMaps hold
// must not run twice.
func (f ControllerFacts) scripts(refs []corev1.LocalObjectReference) []string {
	files := map[string]bool{}
	for _, ref := range refs {
		for file := range f.ConfigMaps[ref.Name] {
			files[file] = true
		}
	}
	return slices.Sorted(maps.Keys(files))
}

func (f ControllerFacts) slurmConf(plan *Plan) conf.SlurmConf {
	c := f.Controller
	host, port := c.Address()
	out := conf.SlurmConf{
		ClusterName: c.ClusterName(), ControllerPort: port, ControllerAddress: host,
		Auth: auth(c.Spec.JwksKeyRef), Metrics: c.Spec.Metrics.Enabled, Extra: c.Spec.ExtraConf,
		AnyOption: c.Annotations[v1beta1.AnnotationAnyOption] == "true",
		Prolog:    f.scripts(c.Spec.PrologScriptRefs), Epilog: f.scripts(c.Spec.EpilogScriptRefs),
		PrologSlurmctld: f.scripts(c.Spec.PrologSlurmctldScriptRefs), EpilogSlurmctld: f.scripts(c.Spec.EpilogSlurmctldScriptRefs),
		External: c.Spec.External,
	}
	if f.Accounting != nil {
		host, port := f.Accounting.Address()
		out.Accounting = &conf.AccountingHost{Host: host, Port: port}
	}
	if c.Spec.External {
		out.Controllers = []conf.ControllerHost{{Name: host}}
		return out
	}
	for i := range int(c.Replicas()) {
		pod := c.PodName(i)
		out.Controllers = append(out.Controllers, conf.ControllerHost{
			Name: pod, Address: strings.Join([]string{pod, c.InternalServiceName(), c.Namespace}, ".")})
	}
	out.NodeSets = f.nodeSets(plan)
	out.Contain = slices.ContainsFunc(f.NodeSets, func(n v1beta1.NodeSet) bool { return n.Spec.Ssh != nil && n.Spec.Ssh.Enabled })
	return out
}

// nodeSets leaves out those that would break slurm.conf for all.
func (f ControllerFacts) nodeSets(plan *Plan) []conf.NodeSet {
	sorted := slices.SortedFunc(slices.Values(f.NodeSets), func(a, b v1beta1.NodeSet) int { return strings.Compare(a.Name, b.Name) })
	var out []conf.NodeSet
	owner := map[string]string{}
	for _, n := range sorted {
		name, err := n.SlurmName()
		line := conf.NodeSet{Name: name, Partition: n.Spec.Partition.Enabled, PartitionOptions: n.Spec.Partition.Config}
		if err == nil {
			err = line.Validate()
		}
		if other, taken := owner[name]; taken && err == nil {
			err = fmt.Errorf("its name in Slurm, %q, is already that of NodeSet %s: change spec.template.spec.hostname", name, other)
		}
		if err != nil {
			plan.problem(v1beta1.ReasonInvalidSpec, fmt.Sprintf("NodeSet %s is left out of slurm.conf: %s", n.Name, oneLine(err)))
			continue
		}
		owner[name] = n.Name
		out = append(out, line)
	}
	return out
}

func auth(jwks *corev1.ConfigMapKeySelector) conf.Auth {
	a := conf.Auth{JwtKeyFile: dirEtc + "/" + fileJwtKey}
	if jwks != nil {
		a.JwksFile = dirEtc + "/" + fileJwks
	}
	return a
}

func (f ControllerFacts) meta(name string) metav1.ObjectMeta {
	c := f.Controller
	l, a := overlay.Metadata(c, v1beta1.Metadata{}, labels(v1beta1.NameSlurmctld, c.Name, v1beta1.ComponentController), nil)
	return metav1.ObjectMeta{Name: name, Namespace: c.Namespace, Labels: l, Annotations: a, OwnerReferences: ownedBy(c, v1beta1.KindController)}
}

func (f ControllerFacts) configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: f.meta(f.Controller.ConfigName()), Data: data,
	}
}

// keys is the Secret that all pods of the cluster mount.
func (f ControllerFacts) keys() *corev1.Secret {
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: f.meta(f.Controller.KeysName()), Data: f.Keys}
	if f.KeysChanged != "" {
		s.Annotations[v1beta1.AnnotationKeysChanged] = f.KeysChanged
	}
	return s
}

// service is what clients use. Its one ready endpoint is the active controller: with high
// availability by the pods' readiness, so that nobody has to be there to move a label.
func (f ControllerFacts) service() (*corev1.Service, error) {
	c := f.Controller
	sel := selector(v1beta1.NameSlurmctld, c.Name)
	if c.Replicas() == 1 {
		sel[v1beta1.LabelControllerActive] = "true"
	}
	_, port := c.Address()
	spec, err := overlay.ServiceSpec(c.Spec.Service, sel, servicePort(v1beta1.NameSlurmctld, port, c.Spec.Service.NodePort))
	if err != nil {
		return nil, err
	}
	s := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: f.meta(c.ServiceName()), Spec: spec}
	s.Labels, s.Annotations = overlay.Metadata(c, c.Spec.Service.Metadata, labels(v1beta1.NameSlurmctld, c.Name, v1beta1.ComponentController), nil)
	return s, nil
}

// internalService gives each controller its own name, also before it is ready.
func (f ControllerFacts) internalService() *corev1.Service {
	c := f.Controller
	_, port := c.Address()
	own := f.meta(c.InternalServiceName())
	own.Labels[v1beta1.LabelMetrics] = "true"
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: own,
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
			Selector: selector(v1beta1.NameSlurmctld, c.Name),
			Ports:    []corev1.ServicePort{servicePort(v1beta1.NameSlurmctld, port, 0)},
		},
	}
}

func servicePort(name string, port, nodePort int) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: int32(port), TargetPort: intstr.FromString(name), NodePort: int32(nodePort)}
}

func (f ControllerFacts) statefulSet(data map[string]string) (*appsv1.StatefulSet, error) {
	c := f.Controller
	template, err := f.slurmctldPod(data)
	if err != nil {
		return nil, err
	}
	s := &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: f.meta(c.WorkloadName()),
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr(c.Replicas()), ServiceName: c.InternalServiceName(), RevisionHistoryLimit: ptr[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: selector(v1beta1.NameSlurmctld, c.Name)},
			Template: template,
		},
	}
	if c.Replicas() > 1 {
		// A standby never becomes ready: Kubernetes would wait for it, the operator doesn't.
		s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	} else if f.Live != nil {
		s.Spec.PodManagementPolicy = f.Live.Spec.PodManagementPolicy
	}
	if p := c.Spec.Persistence; p != nil && (p.Enabled == nil || *p.Enabled) && p.ExistingClaim == "" {
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: volumeState}, Spec: withClaimDefaults(p.PersistentVolumeClaimSpec),
		}}
	}
	if f.Live != nil {
		// Kubernetes can't change them.
		s.Spec.VolumeClaimTemplates = f.Live.Spec.VolumeClaimTemplates
	}
	return s, nil
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
