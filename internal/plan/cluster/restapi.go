package cluster

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/keyring"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
)

// RestApiFacts is what a RestApi's objects depend on.
type RestApiFacts struct {
	RestApi *v1beta1.RestApi
	// Controller is the referenced one; nil where it doesn't exist.
	Controller *v1beta1.Controller
	// SlurmKey is the content of the Controller's key; nil where it doesn't exist.
	SlurmKey []byte
	// Keys is the data of the Secret that the Controller keeps its keys in; nil where it doesn't exist yet.
	Keys map[string][]byte
	// Config is the data of the Controller's ConfigMap; nil where it doesn't exist.
	Config map[string]string
	Images Images
}

// RestApi plans slurmrestd.
func RestApi(f RestApiFacts) Plan {
	var plan Plan
	r := f.RestApi
	service, err := f.service()
	if err != nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "spec."+oneLine(err))
	} else {
		plan.Objects = append(plan.Objects, service)
	}
	if f.Controller == nil {
		plan.problem(v1beta1.ReasonReferenceNotFound, fmt.Sprintf("spec.controllerRef: there is no Controller %q in namespace %s: create it", r.Spec.ControllerRef.Name, r.Namespace))
		return plan
	}
	plan.missingKey("slurmKeyRef of Controller "+f.Controller.Name, r.Namespace, f.Controller.Spec.SlurmKeyRef, f.SlurmKey)
	if f.Controller.Spec.SlurmKeyRef == nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "Controller "+f.Controller.Name+" has no slurmKeyRef: slurmrestd needs the key to reach slurmctld")
	}
	if f.Keys == nil || f.Config == nil {
		return plan
	}
	workload, err := f.deployment()
	if err != nil {
		plan.problem(v1beta1.ReasonInvalidSpec, "spec."+oneLine(err))
		return plan
	}
	plan.Objects = append(plan.Objects, workload)
	return plan
}

func (f RestApiFacts) meta(user v1beta1.Metadata) metav1.ObjectMeta {
	r := f.RestApi
	l, a := overlay.Metadata(r, user, labels(v1beta1.NameSlurmrestd, r.Name, v1beta1.ComponentRestApi), nil)
	return metav1.ObjectMeta{Name: r.WorkloadName(), Namespace: r.Namespace, Labels: l, Annotations: a, OwnerReferences: ownedBy(r, v1beta1.KindRestApi)}
}

func (f RestApiFacts) service() (*corev1.Service, error) {
	r := f.RestApi
	port := r.Spec.Service.Port
	if port == 0 {
		port = v1beta1.PortSlurmrestd
	}
	spec, err := overlay.ServiceSpec(r.Spec.Service, selector(v1beta1.NameSlurmrestd, r.Name), servicePort(v1beta1.NameSlurmrestd, port, r.Spec.Service.NodePort))
	if err != nil {
		return nil, err
	}
	return &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: f.meta(r.Spec.Service.Metadata), Spec: spec}, nil
}

func (f RestApiFacts) deployment() (*appsv1.Deployment, error) {
	r := f.RestApi
	main, err := f.slurmrestd()
	if err != nil {
		return nil, err
	}
	spec, err := overlay.PodSpec(corev1.PodSpec{
		AutomountServiceAccountToken: ptr(false),
		SecurityContext:              runAs(uidNobody),
		Containers:                   []corev1.Container{main},
		Volumes: []corev1.Volume{etcVolume(0o600, append([]corev1.VolumeProjection{
			fromConfigMap(f.Controller.ConfigName(), corev1.KeyToPath{Key: "slurm.conf", Path: "slurm.conf"})},
			keyring.Projections(f.Controller)...)...)},
	}, r.Spec.Template.PodSpec)
	if err != nil {
		return nil, fmt.Errorf("template.spec: %w", err)
	}
	// slurmrestd reads neither again, so it is replaced on a change of either.
	l, a := overlay.Metadata(r, r.Spec.Template.Metadata, labels(v1beta1.NameSlurmrestd, r.Name, v1beta1.ComponentRestApi), map[string]string{
		v1beta1.AnnotationDefaultContainer: v1beta1.NameSlurmrestd,
		v1beta1.AnnotationSlurmKeyHash:     keyring.ClientHash(f.Keys),
		v1beta1.AnnotationSlurmConfigHash:  checksum([]byte(f.Config["slurm.conf"])),
	})
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: f.meta(v1beta1.Metadata{}),
		Spec: appsv1.DeploymentSpec{
			Replicas: r.Spec.Replicas, RevisionHistoryLimit: ptr[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: selector(v1beta1.NameSlurmrestd, r.Name)},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l, Annotations: a}, Spec: spec},
		},
	}, nil
}

func (f RestApiFacts) slurmrestd() (corev1.Container, error) {
	main := corev1.Container{
		Name:  v1beta1.NameSlurmrestd,
		Image: f.Images.Slurmrestd,
		// What a daemon says last tells why it has ended.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Env: []corev1.EnvVar{
			{Name: "SLURM_JWT", Value: "daemon"},
			{Name: "SLURMRESTD_JSON", Value: "compact"},
			{Name: "SLURMRESTD_SECURITY", Value: "disable_unshare_files,disable_unshare_sysv"},
		},
		Ports:          []corev1.ContainerPort{{Name: v1beta1.NameSlurmrestd, ContainerPort: v1beta1.PortSlurmrestd, Protocol: corev1.ProtocolTCP}},
		StartupProbe:   often(tcpProbe(v1beta1.NameSlurmrestd)),
		LivenessProbe:  tcpProbe(v1beta1.NameSlurmrestd),
		ReadinessProbe: often(tcpProbe(v1beta1.NameSlurmrestd)),
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: ptr(true), RunAsUser: ptr[int64](uidNobody), RunAsGroup: ptr[int64](uidNobody),
			AllowPrivilegeEscalation: ptr(false),
		},
		VolumeMounts: []corev1.VolumeMount{mountReadOnly(volumeEtc, dirEtc)},
	}
	main.StartupProbe.FailureThreshold = 30
	if named(f.Controller.Spec.AccountingRef) == "" {
		// The plugin for slurmdbd ends slurmrestd where there is none.
		main.Args = []string{"-s", "openapi/slurmctld"}
	}
	main, err := overlay.Container(main, f.RestApi.Spec.Slurmrestd)
	if err != nil {
		return main, fmt.Errorf("slurmrestd: %w", err)
	}
	main.Args = append(main.Args, fmt.Sprintf("0.0.0.0:%d", v1beta1.PortSlurmrestd))
	return main, nil
}
