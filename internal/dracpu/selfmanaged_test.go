package dracpu

import (
	"testing"

	"github.com/containerd/nri/pkg/api"
)

func TestSelfManaged(t *testing.T) {
	p := &plugin{}
	var err error
	if p.selfManaged, err = parsePods([]string{"slurm/app.kubernetes.io/name=slurmd"}, false); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		namespace, name string
		want            bool
	}{{"slurm", "slurmd", true}, {"tenant", "slurmd", false}, {"slurm", "other", false}} {
		pod := &api.PodSandbox{Namespace: tc.namespace, Labels: map[string]string{"app.kubernetes.io/name": tc.name}}
		if got := p.alone(pod); got != tc.want {
			t.Errorf("a pod of %s with name %s is left alone: %t", tc.namespace, tc.name, got)
		}
	}
	for _, bad := range []string{"", "slurm", "slurm/app", "slurm/app=", "/app=slurmd", "slurm/=slurmd"} {
		if _, err := parsePods([]string{bad}, false); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
