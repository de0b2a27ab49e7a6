package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPlace(t *testing.T) {
	labelled := map[string]string{"slinky.slurm.net/slurm-nodename": "s3"}
	names := Names([]*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "k1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "k3", Labels: labelled}},
		{ObjectMeta: metav1.ObjectMeta{Name: "s3"}},
	})
	for name, c := range map[string]struct {
		pods  []types.UID
		nodes []string
		want  map[types.UID]string
		err   string
	}{
		"in the job's order": {[]types.UID{"a", "b"}, []string{"s3", "k1"}, map[types.UID]string{"a": "k3", "b": "k1"}, ""},
		"more nodes":         {[]types.UID{"a"}, []string{"k1", "s3"}, map[types.UID]string{"a": "k1"}, ""},
		"fewer nodes":        {[]types.UID{"a", "b"}, []string{"k1"}, nil, "the job has 1 nodes for 2 pods"},
		"an unknown node": {[]types.UID{"a"}, []string{"x"}, nil,
			"Slurm node x is no Kubernetes node: give the Kubernetes node that it is the label slinky.slurm.net/slurm-nodename=x"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Place(c.pods, c.nodes, names)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("error %v", err)
			}
		})
	}
}
