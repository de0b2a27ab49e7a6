package cluster

import (
	"fmt"
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/keyring"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
	"github.com/slinky-hpc/slinky/internal/plan/sidecar"
	"github.com/slinky-hpc/slinky/slurm/conf"
)

func (f ControllerFacts) slurmctldPod(data map[string]string) (corev1.PodTemplateSpec, error) {
	var out corev1.PodTemplateSpec
	c := f.Controller
	main, err := f.slurmctld()
	if err != nil {
		return out, err
	}
	logfile, err := sidecar.Logfile("slurmctld.log", main.Image, c.Spec.LogFile)
	if err != nil {
		return out, err
	}
	inits := []corev1.Container{logfile}
	if c.Spec.InplaceReconfigure {
		reconfigure, err := sidecar.Reconfigure(main.Image, c.Spec.Reconfigure,
			mountReadOnly(volumeEtc, dirEtc), mountReadOnly(volumeSocket, dirAuthSocket))
		if err != nil {
			return out, err
		}
		inits = append([]corev1.Container{reconfigure}, inits...)
	}
	base := corev1.PodSpec{
		AutomountServiceAccountToken: ptr(false),
		SecurityContext:              runAs(uidSlurm),
		InitContainers:               inits,
		Containers:                   []corev1.Container{main},
		Volumes:                      f.volumes(),
	}
	own := labels(v1beta1.NameSlurmctld, c.Name, v1beta1.ComponentController)
	if c.Replicas() > 1 {
		base.Affinity = apart(selector(v1beta1.NameSlurmctld, c.Name))
	} else {
		own[v1beta1.LabelControllerActive] = "true"
	}
	spec, err := overlay.PodSpec(base, c.Spec.Template.PodSpec)
	if err != nil {
		return out, fmt.Errorf("template.spec: %w", err)
	}
	l, a := overlay.Metadata(c, c.Spec.Template.Metadata, own, f.annotations(data))
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l, Annotations: a}, Spec: spec}, nil
}

func (f ControllerFacts) annotations(data map[string]string) map[string]string {
	a := map[string]string{
		v1beta1.AnnotationDefaultContainer: v1beta1.NameSlurmctld,
		v1beta1.AnnotationSlurmKeyHash:     keyring.ServerHash(f.Keys),
		v1beta1.AnnotationJwtKeyHash:       checksum(f.JwtKey),
	}
	if !f.Controller.Spec.InplaceReconfigure {
		a[v1beta1.AnnotationSlurmConfigHash] = f.configHash(data)
	}
	return a
}

// configHash covers every file that slurmctld reads, names and contents. Without any
// referenced ConfigMap it is the published hash.
func (f ControllerFacts) configHash(data map[string]string) string {
	hash := checksumOfMap(data)
	add := func(files map[string]string) {
		for _, file := range slices.Sorted(maps.Keys(files)) {
			hash = checksum([]byte(hash + checksum([]byte(file)) + checksum([]byte(files[file]))))
		}
	}
	for _, name := range f.references() {
		add(f.ConfigMaps[name])
	}
	if ref := f.Controller.Spec.JwksKeyRef; ref != nil {
		add(map[string]string{fileJwks: f.ConfigMaps[ref.Name][ref.Key]})
	}
	return hash
}

// apart keeps pods with the same labels on different nodes.
func apart(labels map[string]string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
		}},
	}}
}

func (f ControllerFacts) slurmctld() (corev1.Container, error) {
	_, port := f.Controller.Address()
	main := corev1.Container{
		Name:  v1beta1.NameSlurmctld,
		Image: f.Images.Slurmctld,
		// What a daemon says last tells why it has ended.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Ports:                    []corev1.ContainerPort{{Name: v1beta1.NameSlurmctld, ContainerPort: int32(port), Protocol: corev1.ProtocolTCP}},

		StartupProbe:   httpProbe("/livez", v1beta1.NameSlurmctld),
		LivenessProbe:  httpProbe("/livez", v1beta1.NameSlurmctld),
		ReadinessProbe: often(httpProbe("/readyz", v1beta1.NameSlurmctld)),
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: ptr(true), RunAsUser: ptr[int64](uidSlurm), RunAsGroup: ptr[int64](uidSlurm),
			AllowPrivilegeEscalation: ptr(false),
		},
		VolumeMounts: []corev1.VolumeMount{
			mountReadOnly(volumeEtc, dirEtc), mount(sidecar.VolumeLog, conf.LogDir), mount(volumeRun, dirRun),
			mount(volumeSocket, dirAuthSocket), mount(volumeState, path.Join("/var/spool/slurmctld", f.Controller.ClusterName())),
		},
	}
	if p := f.Controller.Spec.Persistence; p != nil && (p.Enabled == nil || *p.Enabled) {
		// The image keeps the last configuration that works there, for when slurmctld refuses the next one.
		main.Env = []corev1.EnvVar{{Name: "SLINKY_LAST_CONFIG", Value: path.Join("/var/spool/slurmctld", f.Controller.ClusterName(), "slinky-config")}}
	}
	if f.Controller.Replicas() > 1 {
		// The image passes control from one slurmctld to the other there.
		main.Env = append(main.Env, corev1.EnvVar{Name: "SLINKY_HANDOVER", Value: path.Join("/var/spool/slurmctld", f.Controller.ClusterName(), "slinky-handover")})
	}
	main.StartupProbe.PeriodSeconds, main.StartupProbe.FailureThreshold = 2, 30
	main, err := overlay.Container(main, f.Controller.Spec.Slurmctld)
	if err != nil {
		return main, fmt.Errorf("slurmctld: %w", err)
	}
	return main, nil
}

func (f ControllerFacts) volumes() []corev1.Volume {
	c := f.Controller
	sources := append([]corev1.VolumeProjection{fromConfigMap(c.ConfigName())}, keyring.Projections(c)...)
	sources = append(sources, fromSecret(c.JwtKey(), fileJwtKey))
	for _, name := range f.references() {
		sources = append(sources, fromConfigMap(name))
	}
	if c.Spec.JwksKeyRef != nil {
		sources = append(sources, fromJwks(c.Spec.JwksKeyRef))
	}
	volumes := []corev1.Volume{etcVolume(0o610, sources...), memoryVolume(sidecar.VolumeLog), memoryVolume(volumeRun), emptyVolume(volumeSocket)}
	switch p := c.Spec.Persistence; {
	case p == nil, p.Enabled != nil && !*p.Enabled:
		volumes = append(volumes, emptyVolume(volumeState))
	case p.ExistingClaim != "":
		volumes = append(volumes, corev1.Volume{Name: volumeState, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.ExistingClaim}}})
	}
	return volumes
}

// withClaimDefaults fills in what a claim can't be without.
func withClaimDefaults(spec corev1.PersistentVolumeClaimSpec) corev1.PersistentVolumeClaimSpec {
	spec = *spec.DeepCopy()
	if len(spec.AccessModes) == 0 {
		spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	if _, ok := spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		if spec.Resources.Requests == nil {
			spec.Resources.Requests = corev1.ResourceList{}
		}
		spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("4Gi")
	}
	slices.Sort(spec.AccessModes)
	return spec
}
