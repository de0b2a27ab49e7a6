package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The users of the daemons in the images.
const (
	uidSlurm  = 401
	uidNobody = 65534
)

// Volumes and the folders they are mounted on.
const (
	volumeEtc     = "slurm-etc"
	volumeRun     = "run"
	volumeSocket  = "slurm-authsocket"
	volumeState   = "statesave"
	dirEtc        = "/etc/slurm"
	dirRun        = "/run"
	dirAuthSocket = "/run/slurmctld"

	fileSlurmKey = "slurm.key"
	fileJwtKey   = "jwt.key"
	fileJwks     = "jwks.json"
)

func ptr[T any](v T) *T { return &v }

// httpProbe asks a Slurm daemon on its own port.
func httpProbe(path, port string) *corev1.Probe {
	return &corev1.Probe{
		PeriodSeconds: 10, FailureThreshold: 6,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(port)}},
	}
}

func tcpProbe(port string) *corev1.Probe {
	return &corev1.Probe{
		PeriodSeconds: 10, FailureThreshold: 6,
		ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(port)}},
	}
}

// often makes a readiness probe notice a daemon that has come up within a second or two.
func often(p *corev1.Probe) *corev1.Probe {
	p.PeriodSeconds, p.FailureThreshold = 2, 3
	return p
}

func memoryVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}
}

func emptyVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

func mount(volume, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: path}
}

func mountReadOnly(volume, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: true}
}

// etcVolume holds the configuration in one folder.
func etcVolume(mode int32, sources ...corev1.VolumeProjection) corev1.Volume {
	return corev1.Volume{Name: volumeEtc, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr(mode), Sources: sources}}}
}

func fromConfigMap(name string, items ...corev1.KeyToPath) corev1.VolumeProjection {
	return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items}}
}

func fromSecret(ref *corev1.SecretKeySelector, file string) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name},
		Items:                []corev1.KeyToPath{{Key: ref.Key, Path: file}}}}
}

func fromJwks(ref *corev1.ConfigMapKeySelector) corev1.VolumeProjection {
	return fromConfigMap(ref.Name, corev1.KeyToPath{Key: ref.Key, Path: fileJwks})
}

// runAs is a pod's security context for one unprivileged user.
func runAs(uid int64) *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{RunAsNonRoot: ptr(true), RunAsUser: ptr(uid), RunAsGroup: ptr(uid), FSGroup: ptr(uid)}
}
