package dracpu

import (
	"fmt"
	"strings"
)

// pods are some pods of a namespace, by a label; without one, all of the namespace. The namespace is what makes it safe: a label is
// anybody's to set, and what is left alone may run on CPUs of others.
type pods struct{ namespace, label, value string }

// parsePods reads them; whole namespaces are only taken where all is true.
func parsePods(texts []string, all bool) ([]pods, error) {
	var out []pods
	for _, text := range texts {
		namespace, rest, labelled := strings.Cut(text, "/")
		if all && !labelled && namespace != "" && !strings.Contains(namespace, "=") {
			out = append(out, pods{namespace: namespace})
			continue
		}
		// A label's name may have a slash, its value has none.
		i := strings.LastIndex(rest, "=")
		if namespace == "" || i < 1 || i == len(rest)-1 {
			form := "namespace/label=value, such as slurm/app.kubernetes.io/name=slurmd"
			if all {
				form = "a namespace, such as kube-system, or " + form
			}
			return nil, fmt.Errorf("%q is not %s", text, form)
		}
		out = append(out, pods{namespace, rest[:i], rest[i+1:]})
	}
	return out, nil
}
