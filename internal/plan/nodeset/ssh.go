package nodeset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
	"github.com/slinky-hpc/slinky/internal/plan/sshd"
)

const (
	volumeSshConfig = "ssh-config"
	volumeSssd      = "sssd-conf"
	portSsh         = "ssh"
)

// sshEnabled tells whether sshd runs in the workers.
func sshEnabled(n *v1beta1.NodeSet) bool { return n.Spec.Ssh != nil && n.Spec.Ssh.Enabled }

// SssdConf selects the workers' sssd.conf; nil without ssh.
func SssdConf(n *v1beta1.NodeSet) *corev1.SecretKeySelector {
	if !sshEnabled(n) {
		return nil
	}
	return &n.Spec.Ssh.SssdConfRef
}

// SshConfig is the ConfigMap with the workers' sshd_config; nil without ssh.
func SshConfig(n *v1beta1.NodeSet) *corev1.ConfigMap {
	if !sshEnabled(n) {
		return nil
	}
	labels, annotations := overlay.Metadata(n, v1beta1.Metadata{}, map[string]string{
		v1beta1.LabelName: v1beta1.NameSlurmd, v1beta1.LabelInstance: n.Name, v1beta1.LabelComponent: v1beta1.ComponentWorker,
		v1beta1.LabelCluster: n.Spec.ControllerRef.Name,
	}, nil)
	yes := true
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name: n.SshConfigName(), Namespace: n.Namespace, Labels: labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindNodeSet, Name: n.Name, UID: n.UID,
				Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Data: map[string]string{sshd.FileConfig: sshd.WorkerConfig(n.Spec.Ssh.ExtraSshdConfig)},
	}
}

// addSsh lets sshd and sssd run in a worker.
func (p *planner) addSsh(main *corev1.Container) {
	if !sshEnabled(p.NodeSet) {
		return
	}
	main.Ports = append(main.Ports, corev1.ContainerPort{Name: portSsh, ContainerPort: v1beta1.PortSsh, Protocol: corev1.ProtocolTCP})
	main.VolumeMounts = append(main.VolumeMounts,
		corev1.VolumeMount{Name: volumeSshConfig, MountPath: path.Join(sshd.Dir, sshd.FileConfig), SubPath: sshd.FileConfig, ReadOnly: true},
		corev1.VolumeMount{Name: volumeSssd, MountPath: sshd.PathSssd, SubPath: sshd.FileSssd, ReadOnly: true})
}

func (p *planner) sshVolumes() []corev1.Volume {
	if !sshEnabled(p.NodeSet) {
		return nil
	}
	mode := int32(0o600)
	ref := p.NodeSet.Spec.Ssh.SssdConfRef
	return []corev1.Volume{
		{Name: volumeSshConfig, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: p.NodeSet.SshConfigName()}, DefaultMode: &mode}}},
		{Name: volumeSssd, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: ref.Name, DefaultMode: &mode, Items: []corev1.KeyToPath{{Key: ref.Key, Path: sshd.FileSssd}}}}},
	}
}

// sshAnnotations are the hashes of what sshd and sssd read; an sssd.conf that isn't there has none.
func (p *planner) sshAnnotations() map[string]string {
	if !sshEnabled(p.NodeSet) {
		return nil
	}
	out := map[string]string{v1beta1.AnnotationSshdConfHash: Checksum([]byte(sshd.WorkerConfig(p.NodeSet.Spec.Ssh.ExtraSshdConfig)))}
	if p.SssdHash != "" {
		out[v1beta1.AnnotationSssdConfHash] = p.SssdHash
	}
	return out
}

// staleSsh tells whether a pod was made with another sssd.conf. One that can't be read now says nothing about the pods, and neither
// does one that couldn't be read when the pod was made: the pod has waited for it.
func (p *planner) staleSsh(pod *corev1.Pod) bool {
	made := pod.Annotations[v1beta1.AnnotationSssdConfHash]
	return sshEnabled(p.NodeSet) && p.SssdHash != "" && made != "" && made != p.SssdHash
}

func (p *planner) sshProblems() {
	if !sshEnabled(p.NodeSet) || p.SssdHash != "" || p.SssdUnread {
		return
	}
	ref := p.NodeSet.Spec.Ssh.SssdConfRef
	p.problem(v1beta1.ReasonReferenceNotFound, fmt.Sprintf("spec.ssh.sssdConfRef: there is no key %q in a Secret %q of namespace %s: create it; new workers wait for it",
		ref.Key, ref.Name, p.NodeSet.Namespace))
}

// Checksum is what a pod says of a file that its daemons read; "" of none.
func Checksum(data []byte) string {
	if data == nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
