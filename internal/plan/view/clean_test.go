package view

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/slurm"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                   "plain",
		"a\nb\tc\r":               "a b c ",
		"\x1b[2Jgone":             "·[2Jgone",
		"\u202eevil":              "·evil",
		"zero\u200bwidth":         "zero·width",
		"bad \xff byte":           "bad · byte",
		"Größe 日本":                "Größe 日本",
		"\u009b31m":               "·31m",
		strings.Repeat("x", 2000): strings.Repeat("x", longest) + "…",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b]0;title\x07b")
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if !utf8.ValidString(got) || len(got) > longest+len("…") {
			t.Errorf("%q becomes %q", s, got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Errorf("%q keeps %U", s, r)
			}
		}
		if Text(got) != got && len(got) <= longest {
			t.Errorf("%q isn't clean yet", got)
		}
	})
}

func TestCleanReachesEverything(t *testing.T) {
	const evil = "x\x1b[31m"
	f := world()
	f.pod(evil, func(p *corev1.Pod) {
		p.Labels = map[string]string{evil: evil}
		p.Status.Conditions = []corev1.PodCondition{{Message: evil}}
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new(evil)}
	})
	f.job(7, slurm.JobRunning, both(bridged(evil), on("k1"), func(j *slurm.Job) { j.Name = evil }))
	Clean(&f)
	m := New(f)
	text, err := json.Marshal([]any{f.Kubernetes, m.Status(), m.Queue(true), m.Nodes(), m.Plans()})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `\u001b`) {
		t.Errorf("an escape is left in\n%s", text)
	}
}

// TestNoSecretsAreKept: what a pod and a job may carry in secret stays behind.
func TestNoSecretsAreKept(t *testing.T) {
	const secret = "hunter2"
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: secret, "vault/x": secret},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: secret}}},
		Spec: corev1.PodSpec{
			Volumes:          []corev1.Volume{{Name: secret}},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: secret}},
			Containers: []corev1.Container{{Name: "c", Image: secret, Command: []string{secret}, Args: []string{secret}, Env: []corev1.EnvVar{{Name: "P", Value: secret}},
				LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{secret}}}}}},
			InitContainers: []corev1.Container{{Name: "i", Env: []corev1.EnvVar{{Name: "P", Value: secret}}}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: secret}}}}},
	}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"csi/x": secret}}}
	job := slurm.Job{ID: 1, Comment: secret, AdminComment: `{"token":"` + secret + `"}`}
	of := SlimPod(&pod)
	on := SlimNode(&node)
	text, err := json.Marshal([]any{of, on, SlimJob(job), SlimSlurmNode(slurm.Node{Name: "n", Extra: secret, Comment: secret})})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) {
		t.Errorf("a secret is kept:\n%s", text)
	}
}
