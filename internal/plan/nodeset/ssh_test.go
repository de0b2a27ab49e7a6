package nodeset

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

func sshFacts() Facts {
	f := facts(1)
	f.NodeSet.Spec.Ssh = &v1beta1.NodeSetSsh{Enabled: true, ExtraSshdConfig: "MaxSessions 3",
		SssdConfRef: corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "sssd"}, Key: "conf"}}
	f.SssdHash = Checksum([]byte("[sssd]\n"))
	return f
}

// firstPod is the pod that a plan without problems makes.
func firstPod(t *testing.T, f Facts) *corev1.Pod {
	t.Helper()
	plan := Make(f)
	i := slices.IndexFunc(plan.Steps, func(s Step) bool { return s.Action == CreatePod })
	if i < 0 || len(plan.Problems) != 0 {
		t.Fatalf("got %v, %v", plan.Steps, plan.Problems)
	}
	return plan.Steps[i].Pod
}

func TestWorkerWithSsh(t *testing.T) {
	f := sshFacts()
	want := "Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\nSubsystem sftp internal-sftp\nAuthenticationMethods publickey password\nMaxSessions 3\n"
	if diff := cmp.Diff(want, SshConfig(f.NodeSet).Data["sshd_config"]); diff != "" {
		t.Errorf("sshd_config (-want +got):\n%s", diff)
	}
	pod := firstPod(t, f)
	mounts := map[string]string{}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		mounts[m.MountPath] = m.Name + "/" + m.SubPath
	}
	if mounts["/etc/ssh/sshd_config"] != "ssh-config/sshd_config" || mounts["/etc/sssd/sssd.conf"] != "sssd-conf/sssd.conf" {
		t.Errorf("mounts are %v", mounts)
	}
	ports := pod.Spec.Containers[0].Ports
	if i := len(ports) - 1; ports[i].Name != "ssh" || ports[i].ContainerPort != 22 {
		t.Errorf("ports are %v", ports)
	}
	for _, v := range pod.Spec.Volumes {
		if v.Name == volumeSssd && (v.Secret.SecretName != "sssd" || *v.Secret.DefaultMode != 0o600 || v.Secret.Items[0].Key != "conf") {
			t.Errorf("volume %+v", v.Secret)
		}
	}
	for _, a := range []string{v1beta1.AnnotationSshdConfHash, v1beta1.AnnotationSssdConfHash} {
		if len(pod.Annotations[a]) != 64 {
			t.Errorf("annotation %s is %q", a, pod.Annotations[a])
		}
	}
	f.NodeSet.Spec.Ssh.Enabled = false
	if plain := firstPod(t, f); SshConfig(f.NodeSet) != nil || SssdConf(f.NodeSet) != nil || len(plain.Spec.Volumes) != 2 || len(plain.Spec.Containers[0].Ports) != 1 {
		t.Errorf("without ssh: %+v", plain.Spec)
	}
}

// A changed sssd.conf replaces workers as any change does; one that is missing replaces nothing.
func TestSssdConfReachesWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		made, now string
		updated   int32
	}{
		"same": {"a", "a", 1}, "changed": {"a", "b", 0}, "missing now": {"a", "", 1}, "was missing": {"", "a", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := sshFacts()
			f = f.withPod("cpu-0", "IDLE")
			if c.made != "" {
				f.Pods[0].Annotations = map[string]string{v1beta1.AnnotationSssdConfHash: Checksum([]byte(c.made))}
			}
			if f.SssdHash = ""; c.now != "" {
				f.SssdHash = Checksum([]byte(c.now))
			}
			plan := Make(f)
			if got := plan.Status.UpdatedReplicas; got != c.updated {
				t.Errorf("%d workers are up to date, want %d", got, c.updated)
			}
			missing := len(plan.Problems) == 1 && strings.Contains(plan.Problems[0].Message, `spec.ssh.sssdConfRef: there is no key "conf" in a Secret "sssd"`)
			if missing != (c.now == "") {
				t.Errorf("problems are %v", plan.Problems)
			}
		})
	}
}
