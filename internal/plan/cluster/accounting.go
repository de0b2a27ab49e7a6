package cluster

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/keyring"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
	"github.com/slinky-hpc/slinky/slurm/conf"
)

// AccountingFacts is what an Accounting's objects depend on.
type AccountingFacts struct {
	Accounting *v1beta1.Accounting
	// SlurmKey, JwtKey and Password are the contents of the references; nil where they don't exist.
	SlurmKey, JwtKey, Password []byte
	// Controller is the cluster that reports to it with the same key of auth/slurm, and leads
	// changes of that key; nil for none. Keys is the data of the Secret that it keeps its keys in.
	Controller *v1beta1.Controller
	Keys       map[string][]byte
	Images     Images
}

const fileSlurmdbdConf = "slurmdbd.conf"

// Accounting plans slurmdbd.
func Accounting(f AccountingFacts) Plan {
	var plan Plan
	a := f.Accounting
	if a.Spec.External {
		return plan
	}
	service, err := f.service()
	if err != nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "spec."+oneLine(err))
	} else {
		plan.Objects = append(plan.Objects, service)
	}
	plan.missingKey("spec.slurmKeyRef", a.Namespace, a.Spec.SlurmKeyRef, f.SlurmKey)
	plan.missingKey("spec.jwtKeyRef", a.Namespace, a.JwtKey(), f.JwtKey)
	if a.Spec.StorageConfig == nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "spec.storageConfig: slurmdbd needs a database: set host and passwordKeyRef")
		return plan
	}
	plan.missingKey("spec.storageConfig.passwordKeyRef", a.Namespace, &a.Spec.StorageConfig.PasswordKeyRef, f.Password)
	if f.SlurmKey == nil || f.JwtKey == nil || f.Password == nil || (f.Controller != nil && f.Keys == nil) {
		return plan
	}
	text, err := f.slurmdbdConf().Text()
	if err != nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "slurmdbd.conf can't be written and stays as it was: "+oneLine(err))
		return plan
	}
	workload, err := f.statefulSet(text)
	if err != nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "spec."+oneLine(err))
		return plan
	}
	plan.Objects = append(plan.Objects, f.secret(text), workload)
	return plan
}

func (f AccountingFacts) slurmdbdConf() conf.SlurmdbdConf {
	a := f.Accounting
	s := a.Spec.StorageConfig
	_, port := a.Address()
	return conf.SlurmdbdConf{
		Host: a.WorkloadName() + "-0", Port: port, Auth: auth(a.Spec.JwksKeyRef),
		StorageHost: s.Host, StoragePort: s.Port, StorageDatabase: s.Database, StorageUser: s.Username,
		StoragePassword: string(f.Password), Extra: a.Spec.ExtraConf,
	}
}

func (f AccountingFacts) meta(user v1beta1.Metadata) metav1.ObjectMeta {
	a := f.Accounting
	l, n := overlay.Metadata(a, user, labels(v1beta1.NameSlurmdbd, a.Name, v1beta1.ComponentAccounting), nil)
	return metav1.ObjectMeta{Name: a.WorkloadName(), Namespace: a.Namespace, Labels: l, Annotations: n, OwnerReferences: ownedBy(a, v1beta1.KindAccounting)}
}

func (f AccountingFacts) service() (*corev1.Service, error) {
	a := f.Accounting
	_, port := a.Address()
	spec, err := overlay.ServiceSpec(a.Spec.Service, selector(v1beta1.NameSlurmdbd, a.Name), servicePort(v1beta1.NameSlurmdbd, port, a.Spec.Service.NodePort))
	if err != nil {
		return nil, err
	}
	return &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: f.meta(a.Spec.Service.Metadata), Spec: spec}, nil
}

func (f AccountingFacts) secret(text string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: f.meta(v1beta1.Metadata{}),
		Data: map[string][]byte{fileSlurmdbdConf: []byte(text)},
	}
}

// keys are the keys of auth/slurm, and their hash.
func (f AccountingFacts) keys() ([]corev1.VolumeProjection, string) {
	if f.Controller != nil {
		return keyring.Projections(f.Controller), keyring.ServerHash(f.Keys)
	}
	return []corev1.VolumeProjection{fromSecret(f.Accounting.Spec.SlurmKeyRef, fileSlurmKey)}, checksum(f.SlurmKey)
}

func (f AccountingFacts) statefulSet(text string) (*appsv1.StatefulSet, error) {
	a := f.Accounting
	_, port := a.Address()
	main, err := overlay.Container(corev1.Container{
		Name:  v1beta1.NameSlurmdbd,
		Image: f.Images.Slurmdbd,
		// What a daemon says last tells why it has ended.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Ports:                    []corev1.ContainerPort{{Name: v1beta1.NameSlurmdbd, ContainerPort: int32(port), Protocol: corev1.ProtocolTCP}},
		ReadinessProbe:           often(tcpProbe(v1beta1.NameSlurmdbd)),
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: ptr(true), RunAsUser: ptr[int64](uidSlurm), RunAsGroup: ptr[int64](uidSlurm),
			AllowPrivilegeEscalation: ptr(false),
		},
		VolumeMounts: []corev1.VolumeMount{mountReadOnly(volumeEtc, dirEtc), mount(volumeRun, dirRun)},
	}, a.Spec.Slurmdbd)
	if err != nil {
		return nil, fmt.Errorf("slurmdbd: %w", err)
	}
	own := corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: a.WorkloadName()}, Key: fileSlurmdbdConf}
	keys, keyHash := f.keys()
	sources := append([]corev1.VolumeProjection{fromSecret(&own, fileSlurmdbdConf)}, keys...)
	sources = append(sources, fromSecret(a.JwtKey(), fileJwtKey))
	if a.Spec.JwksKeyRef != nil {
		sources = append(sources, fromJwks(a.Spec.JwksKeyRef))
	}
	spec, err := overlay.PodSpec(corev1.PodSpec{
		AutomountServiceAccountToken: ptr(false),
		SecurityContext:              runAs(uidSlurm),
		Containers:                   []corev1.Container{main},
		Volumes:                      []corev1.Volume{etcVolume(0o600, sources...), memoryVolume(volumeRun)},
	}, a.Spec.Template.PodSpec)
	if err != nil {
		return nil, fmt.Errorf("template.spec: %w", err)
	}
	l, n := overlay.Metadata(a, a.Spec.Template.Metadata, labels(v1beta1.NameSlurmdbd, a.Name, v1beta1.ComponentAccounting), map[string]string{
		v1beta1.AnnotationDefaultContainer: v1beta1.NameSlurmdbd,
		v1beta1.AnnotationSlurmKeyHash:     keyHash,
		v1beta1.AnnotationJwtKeyHash:       checksum(f.JwtKey),
		v1beta1.AnnotationSlurmdbdConfHash: checksum([]byte(text)),
	})
	return &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: f.meta(v1beta1.Metadata{}),
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr[int32](1), ServiceName: a.WorkloadName(), RevisionHistoryLimit: ptr[int32](0),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            &metav1.LabelSelector{MatchLabels: selector(v1beta1.NameSlurmdbd, a.Name)},
			Template:            corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l, Annotations: n}, Spec: spec},
		},
	}, nil
}
