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
	"github.com/slinky-hpc/slinky/internal/plan/keyring"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
	"github.com/slinky-hpc/slinky/internal/plan/sshd"
)

// LoginSetFacts is what a LoginSet's objects depend on.
type LoginSetFacts struct {
	LoginSet *v1beta1.LoginSet
	// Controller is the referenced one; nil where it doesn't exist.
	Controller *v1beta1.Controller
	// SlurmKey and SssdConf are the contents of the referenced keys; nil where they don't exist.
	SlurmKey, SssdConf []byte
	// Keys is the data of the Secret that the Controller keeps its keys in; nil where it doesn't exist yet.
	Keys map[string][]byte
	// HostKeys is the Secret with the ssh host keys; nil where it doesn't exist.
	HostKeys *corev1.Secret
	// Live is the Deployment as it is; nil where it doesn't exist.
	Live *appsv1.Deployment
	// ClusterDomain is Kubernetes' DNS domain.
	ClusterDomain string
	Images        Images
}

// LoginPlan is what should exist for a LoginSet.
type LoginPlan struct {
	Plan
	// MakeHostKeys asks for new ssh host keys in a Secret of the LoginSet. Only their absence does: who has once seen a
	// host key is warned when it changes.
	MakeHostKeys bool
	// Because says which files replace running pods by their change; "" for none.
	Because string
}

// LoginSet plans the login pods.
func LoginSet(f LoginSetFacts) LoginPlan {
	var plan LoginPlan
	l := f.LoginSet
	service, err := f.service()
	if err != nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "spec."+oneLine(err))
	} else {
		plan.Objects = append(plan.Objects, service)
	}
	plan.Objects = append(plan.Objects, f.configMap())
	plan.missingKey("spec.sssdConfRef", l.Namespace, &l.Spec.SssdConfRef, f.SssdConf)
	plan.MakeHostKeys = f.HostKeys == nil
	if problem := f.hostKeysProblem(); problem != "" {
		plan.problem(v1beta1.ReasonInvalidSpec, problem)
		return plan
	}
	if f.Controller == nil {
		plan.problem(v1beta1.ReasonReferenceNotFound, NoController(l))
		return plan
	}
	plan.missingKey("slurmKeyRef of Controller "+f.Controller.Name, l.Namespace, f.Controller.Spec.SlurmKeyRef, f.SlurmKey)
	if f.Controller.Spec.SlurmKeyRef == nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "Controller "+f.Controller.Name+" has no slurmKeyRef: login pods need the key to reach slurmctld")
	}
	if f.Keys == nil || f.SssdConf == nil || f.HostKeys == nil {
		return plan
	}
	workload, err := f.deployment()
	if err != nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "spec."+oneLine(err))
		return plan
	}
	plan.Objects = append(plan.Objects, workload)
	plan.Because = f.because(workload)
	return plan
}

// NoController says that a LoginSet's Controller is missing.
func NoController(l *v1beta1.LoginSet) string {
	return fmt.Sprintf("spec.controllerRef: there is no Controller %q in namespace %s: create it", l.Spec.ControllerRef.Name, l.Namespace)
}

// because names the files whose change replaces running pods.
func (f LoginSetFacts) because(workload *appsv1.Deployment) string {
	if f.Live == nil {
		return ""
	}
	var changed []string
	for _, file := range []struct{ annotation, name string }{
		{v1beta1.AnnotationSlurmKeyHash, "slurm.key"}, {v1beta1.AnnotationSshHostKeysHash, "the ssh host keys"},
		{v1beta1.AnnotationSshdConfHash, sshd.FileConfig}, {v1beta1.AnnotationSssdConfHash, sshd.FileSssd},
	} {
		if f.Live.Spec.Template.Annotations[file.annotation] != workload.Spec.Template.Annotations[file.annotation] {
			changed = append(changed, file.name+" changed")
		}
	}
	return strings.Join(changed, ", ")
}

// LoginSelector selects a LoginSet's pods.
func LoginSelector(l *v1beta1.LoginSet) map[string]string {
	return selector(v1beta1.NameLogin, l.Name)
}

// hostKeysProblem says why a Secret that is there can't be used. One that nobody controls is the user's own keys.
func (f LoginSetFacts) hostKeysProblem() string {
	s := f.HostKeys
	if s == nil {
		return ""
	}
	if owner := metav1.GetControllerOf(s); owner != nil && owner.UID != f.LoginSet.UID {
		return fmt.Sprintf("the Secret %s, which should hold this LoginSet's ssh host keys, belongs to %s %s: rename one of them", s.Name, owner.Kind, owner.Name)
	}
	if len(f.hostKeyFiles()) == 0 {
		return fmt.Sprintf("the Secret %s has no ssh host key, such as ssh_host_ed25519_key: add one, or delete the Secret to have keys made", s.Name)
	}
	return ""
}

// hostKeyFiles are the private keys in the Secret and their public parts, sorted.
func (f LoginSetFacts) hostKeyFiles() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.HostKeys.Data)), func(file string) bool {
		private := strings.TrimSuffix(file, ".pub")
		_, ok := f.HostKeys.Data[private]
		return !ok || !strings.HasPrefix(private, "ssh_host_") || !strings.HasSuffix(private, "_key")
	})
}

func (f LoginSetFacts) meta(name string, user v1beta1.Metadata) metav1.ObjectMeta {
	l, a := overlay.Metadata(f.LoginSet, user, labels(v1beta1.NameLogin, f.LoginSet.Name, v1beta1.ComponentLogin), nil)
	return metav1.ObjectMeta{Name: name, Namespace: f.LoginSet.Namespace, Labels: l, Annotations: a, OwnerReferences: ownedBy(f.LoginSet, v1beta1.KindLoginSet)}
}

// HostKeysSecret is the Secret that new host keys go into. It can't be changed, only deleted.
func (f LoginSetFacts) HostKeysSecret(keys map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: f.meta(f.LoginSet.HostKeysName(), v1beta1.Metadata{}),
		Data: keys, Immutable: ptr(true),
	}
}

func (f LoginSetFacts) service() (*corev1.Service, error) {
	l := f.LoginSet
	port := l.Spec.Service.Port
	if port == 0 {
		port = v1beta1.PortSsh
	}
	spec, err := overlay.ServiceSpec(l.Spec.Service, LoginSelector(l), servicePort(v1beta1.NameLogin, port, l.Spec.Service.NodePort))
	if err != nil {
		return nil, err
	}
	return &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: f.meta(l.WorkloadName(), l.Spec.Service.Metadata), Spec: spec}, nil
}

func (f LoginSetFacts) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: f.meta(f.LoginSet.SshConfigName(), v1beta1.Metadata{}),
		Data: map[string]string{
			sshd.FileConfig:     sshd.LoginConfig(f.LoginSet.Spec.ExtraSshdConfig),
			sshd.FileAuthorized: sshd.AuthorizedKeys(f.LoginSet.Spec.RootSshAuthorizedKeys),
		},
	}
}

func (f LoginSetFacts) deployment() (*appsv1.Deployment, error) {
	l := f.LoginSet
	main, err := f.login()
	if err != nil {
		return nil, err
	}
	initconf, err := f.initconf(main.Image)
	if err != nil {
		return nil, err
	}
	spec, err := overlay.PodSpec(corev1.PodSpec{
		AutomountServiceAccountToken: ptr(false),
		EnableServiceLinks:           ptr(false),
		DNSConfig:                    &corev1.PodDNSConfig{Searches: []string{f.Controller.WorkersServiceName() + "." + l.Namespace + ".svc." + f.ClusterDomain}},
		InitContainers:               []corev1.Container{initconf},
		Containers:                   []corev1.Container{main},
		Volumes:                      f.volumes(),
	}, l.Spec.Template.PodSpec)
	if err != nil {
		return nil, fmt.Errorf("template.spec: %w", err)
	}
	podLabels, a := overlay.Metadata(l, l.Spec.Template.Metadata, labels(v1beta1.NameLogin, l.Name, v1beta1.ComponentLogin), f.annotations())
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: f.meta(l.WorkloadName(), v1beta1.Metadata{}),
		Spec: appsv1.DeploymentSpec{
			Replicas: l.Spec.Replicas, RevisionHistoryLimit: ptr[int32](0), Strategy: strategy(l.Spec.Strategy),
			Selector: &metav1.LabelSelector{MatchLabels: LoginSelector(l)},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels, Annotations: a}, Spec: spec},
		},
	}, nil
}

// strategy says what Kubernetes would fill in: only what the operator has written itself does it take back, and the numbers of a
// rolling update may not stay where Recreate follows it.
func strategy(s appsv1.DeploymentStrategy) appsv1.DeploymentStrategy {
	s = *s.DeepCopy()
	if s.Type == "" {
		s.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if s.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return s
	}
	if s.RollingUpdate == nil {
		s.RollingUpdate = &appsv1.RollingUpdateDeployment{}
	}
	for _, number := range []**intstr.IntOrString{&s.RollingUpdate.MaxSurge, &s.RollingUpdate.MaxUnavailable} {
		if *number == nil {
			*number = ptr(intstr.FromString("25%"))
		}
	}
	return s
}

// annotations replace the pods when what they read changes. Root's authorized keys aren't among it: sshd reads them at each login.
func (f LoginSetFacts) annotations() map[string]string {
	keys := map[string]string{}
	for name, content := range f.HostKeys.Data {
		keys[name] = string(content)
	}
	return map[string]string{
		v1beta1.AnnotationDefaultContainer: v1beta1.NameLogin,
		v1beta1.AnnotationSlurmKeyHash:     keyring.ClientHash(f.Keys),
		v1beta1.AnnotationSshHostKeysHash:  checksumOfMap(keys),
		v1beta1.AnnotationSshdConfHash:     checksum([]byte(sshd.LoginConfig(f.LoginSet.Spec.ExtraSshdConfig))),
		v1beta1.AnnotationSssdConfHash:     checksum(f.SssdConf),
	}
}
