package submit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
)

func TestPlacementPatch(t *testing.T) {
	a := scheduler.Allocation{Grant: placement.Grant{Node: "n1", Cores: []int{0, 1, 5}}, JobID: 7}
	toleration := func(e corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: "slinky.slurm.net/managed-node", Operator: corev1.TolerationOpEqual, Value: "us", Effect: e}
	}
	both := []corev1.Toleration{toleration(corev1.TaintEffectNoExecute), toleration(corev1.TaintEffectNoSchedule)}
	meta := metav1.ObjectMeta{UID: "u", ResourceVersion: "5"}
	done := meta
	done.Labels = map[string]string{"scheduler.slinky.slurm.net/slurm-jobid": "7"}
	done.Annotations = map[string]string{"slinky.slurm.net/slurm-node": "n1", "slinky.slurm.net/slurm-cores": "0-1,5"}
	done.Finalizers = []string{"x/y", "scheduler.slinky.slurm.net/finalizer"}
	moved := *done.DeepCopy()
	moved.Annotations["slinky.slurm.net/slurm-node"] = "n9"
	kept := meta
	kept.Finalizers = []string{"x/y"}
	const tolerations = `{"key":"slinky.slurm.net/managed-node","operator":"Equal","value":"us","effect":"NoExecute"},` +
		`{"key":"slinky.slurm.net/managed-node","operator":"Equal","value":"us","effect":"NoSchedule"}`
	for name, c := range map[string]struct {
		pod  corev1.Pod
		told map[string]string
		want string
	}{
		"a new pod": {corev1.Pod{ObjectMeta: meta}, nil, `{"metadata":{"annotations":{"slinky.slurm.net/slurm-cores":"0-1,5","slinky.slurm.net/slurm-node":"n1"},` +
			`"finalizers":["scheduler.slinky.slurm.net/finalizer"],"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"7"},` +
			`"resourceVersion":"5","uid":"u"},"spec":{"tolerations":[` + tolerations + `]}}`},
		"others' entries are kept": {
			corev1.Pod{ObjectMeta: kept, Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}}}, nil,
			`{"metadata":{"annotations":{"slinky.slurm.net/slurm-cores":"0-1,5","slinky.slurm.net/slurm-node":"n1"},` +
				`"finalizers":["x/y","scheduler.slinky.slurm.net/finalizer"],"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"7"},` +
				`"resourceVersion":"5","uid":"u"},"spec":{"tolerations":[{"key":"k","operator":"Exists"},` + tolerations + `]}}`,
		},
		"nothing to do":       {corev1.Pod{ObjectMeta: done, Spec: corev1.PodSpec{Tolerations: both}}, nil, ""},
		"it tolerates all":    {corev1.Pod{ObjectMeta: done, Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}}, nil, ""},
		"only the node moved": {corev1.Pod{ObjectMeta: moved, Spec: corev1.PodSpec{Tolerations: both}}, nil, `{"metadata":{"annotations":{"slinky.slurm.net/slurm-node":"n1"},"resourceVersion":"5","uid":"u"}}`},
		"its rank is new": {
			corev1.Pod{ObjectMeta: done, Spec: corev1.PodSpec{Tolerations: both}}, map[string]string{"slinky.slurm.net/slurm-procid": "0"},
			`{"metadata":{"annotations":{"slinky.slurm.net/slurm-procid":"0"},"resourceVersion":"5","uid":"u"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, string(placementPatch(&c.pod, a, c.told, "us"))); d != "" {
				t.Error(d)
			}
		})
	}
}
