package dracpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// pods are some pods of a namespace, by a label. The namespace is what makes it safe: a label is
// anybody's to set, and what is left alone may run on CPUs of others.
type pods struct{ namespace, label, value string }

func parsePods(texts []string) ([]pods, error) {
	var out []pods
	for _, text := range texts {
		namespace, rest, _ := strings.Cut(text, "/")
		// A label's name may have a slash, its value has none.
		i := strings.LastIndex(rest, "=")
		if namespace == "" || i < 1 || i == len(rest)-1 {
			return nil, fmt.Errorf("%q is not namespace/label=value, such as slurm/app.kubernetes.io/name=slurmd", text)
		}
		out = append(out, pods{namespace, rest[:i], rest[i+1:]})
	}
	return out, nil
}

// alone tells whether a pod's containers are left alone.
func (p *plugin) alone(pod *api.PodSandbox) bool {
	return slices.ContainsFunc(p.selfManaged, func(s pods) bool {
		return pod.GetNamespace() == s.namespace && pod.GetLabels()[s.label] == s.value
	})
}
