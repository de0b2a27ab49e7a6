package cluster

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/keyring"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
	"github.com/slinky-hpc/slinky/internal/plan/sshd"
)

// Volumes of login pods, and the folders that only they have.
const (
	volumeHostKeys  = "ssh-host-keys"
	volumeSshConfig = "ssh-config"
	volumeRootKeys  = "authorized-keys"
	volumeSssd      = "sssd-conf"
	volumeSource    = "slurm-config"
	volumeRunSlurm  = "run-slurm"
	dirSource       = "/mnt/slurm"
	dirCopy         = "/mnt/etc/slurm"
	dirRunSlurm     = "/run/slurm"

	variableSackd = "SACKD_OPTIONS"
)

func (f LoginSetFacts) login() (corev1.Container, error) {
	host, port := f.Controller.Address()
	server := fmt.Sprintf("--conf-server %s:%d", host, port)
	listen, err := f.port()
	if err != nil {
		return corev1.Container{}, err
	}
	main := corev1.Container{
		Name:  v1beta1.NameLogin,
		Image: f.Images.Login,
		Env:   []corev1.EnvVar{{Name: variableSackd, Value: server}},
		Ports: []corev1.ContainerPort{{Name: v1beta1.NameLogin, ContainerPort: listen, Protocol: corev1.ProtocolTCP}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 2, FailureThreshold: 3, ProbeHandler: corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{"test", "-S", dirRunSlurm + "/sack.socket"}}}},
		VolumeMounts: f.mounts(),
	}
	if main, err = overlay.Container(main, f.LoginSet.Spec.Login); err != nil {
		return main, fmt.Errorf("login: %w", err)
	}
	withServer(main.Env, server)
	return main, nil
}

// withServer puts the address of slurmctld before the options that a user gave to sackd: they are laid over the
// operator's, and sackd can do nothing without it.
func withServer(env []corev1.EnvVar, server string) {
	for i := range env {
		e := &env[i]
		switch {
		case e.Name != variableSackd:
		case e.ValueFrom != nil:
			e.Value = ""
		case !strings.Contains(e.Value, "--conf-server"):
			e.Value = server + " " + e.Value
		}
	}
}

// port is where sshd listens: the number of a port of the user's that has the name of ours, else ssh's own.
func (f LoginSetFacts) port() (int32, error) {
	var user struct {
		Ports []corev1.ContainerPort `json:"ports"`
	}
	if err := f.LoginSet.Spec.Login.Decode(&user); err != nil {
		return 0, fmt.Errorf("login.ports: %w", err)
	}
	i := slices.IndexFunc(user.Ports, func(p corev1.ContainerPort) bool { return p.Name == v1beta1.NameLogin })
	if i < 0 || user.Ports[i].ContainerPort == 0 {
		return v1beta1.PortSsh, nil
	}
	return user.Ports[i].ContainerPort, nil
}

func (f LoginSetFacts) mounts() []corev1.VolumeMount {
	mounts := []corev1.VolumeMount{
		mount(volumeEtc, dirEtc), mount(volumeRunSlurm, dirRunSlurm),
		fileMount(volumeSshConfig, sshd.FileConfig, path.Join(sshd.Dir, sshd.FileConfig)),
		mountReadOnly(volumeRootKeys, sshd.DirRootKeys),
		fileMount(volumeSssd, sshd.FileSssd, sshd.PathSssd),
	}
	for _, file := range f.hostKeyFiles() {
		mounts = append(mounts, fileMount(volumeHostKeys, file, path.Join(sshd.Dir, file)))
	}
	return mounts
}

// fileMount puts one file of a volume into a folder of the image.
func fileMount(volume, file, target string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: target, SubPath: file, ReadOnly: true}
}

// initconf makes /etc/slurm of files that sackd, which is not root, may read and nobody else may.
func (f LoginSetFacts) initconf(image string) (corev1.Container, error) {
	init := corev1.Container{
		Name:  "initconf",
		Image: image,
		Command: []string{"sh", "-c", strings.Join([]string{
			"set -e",
			"cd " + dirSource,
			"for f in *.conf *.key *.jwks; do",
			"  [ -e \"$f\" ] || continue",
			"  case $f in *.key | *.jwks) mode=600 ;; *) mode=644 ;; esac",
			fmt.Sprintf("  install -m $mode -o %d -g %d \"$f\" %s/", uidSlurm, uidSlurm, dirCopy),
			"done",
			fmt.Sprintf("chown %d:%d %s", uidSlurm, uidSlurm, dirCopy),
		}, "\n")},
		VolumeMounts: []corev1.VolumeMount{mountReadOnly(volumeSource, dirSource), mount(volumeEtc, dirCopy)},
	}
	init, err := overlay.Container(init, f.LoginSet.Spec.InitConf)
	if err != nil {
		return init, fmt.Errorf("initconf: %w", err)
	}
	return init, nil
}

func (f LoginSetFacts) volumes() []corev1.Volume {
	l := f.LoginSet
	config := func(name, file string, mode int32) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: l.SshConfigName()}, DefaultMode: ptr(mode),
			Items: []corev1.KeyToPath{{Key: file, Path: file}}}}}
	}
	secret := func(name, secret string, mode int32, items ...corev1.KeyToPath) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: secret, DefaultMode: ptr(mode), Items: items}}}
	}
	var keys []corev1.KeyToPath
	for _, file := range f.hostKeyFiles() {
		item := corev1.KeyToPath{Key: file, Path: file}
		if strings.HasSuffix(file, ".pub") {
			item.Mode = ptr[int32](0o644)
		}
		keys = append(keys, item)
	}
	source := etcVolume(0o600, keyring.Projections(f.Controller)...)
	source.Name = volumeSource
	return []corev1.Volume{
		memoryVolume(volumeEtc), source, emptyVolume(volumeRunSlurm),
		config(volumeSshConfig, sshd.FileConfig, 0o600),
		config(volumeRootKeys, sshd.FileAuthorized, 0o600),
		secret(volumeSssd, l.Spec.SssdConfRef.Name, 0o600, corev1.KeyToPath{Key: l.Spec.SssdConfRef.Key, Path: sshd.FileSssd}),
		secret(volumeHostKeys, l.HostKeysName(), 0o600, keys...),
	}
}
