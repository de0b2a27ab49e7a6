package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm/conf"
)

// NodeSetFacts is what stands beside a NodeSet in its namespace.
type NodeSetFacts struct {
	NodeSets    []v1beta1.NodeSet
	Controllers []v1beta1.Controller
	Accountings []v1beta1.Accounting
}

// NodeSet judges a new NodeSet, or the change of one; old is nil for a new one.
func NodeSet(n, old *v1beta1.NodeSet, facts NodeSetFacts) Verdict {
	var v Verdict
	create := old == nil
	if create {
		old = &v1beta1.NodeSet{}
	}
	if !slices.ContainsFunc(facts.Controllers, func(c v1beta1.Controller) bool { return c.Name == n.Spec.ControllerRef.Name }) {
		v.warn(spec("controllerRef"), "there is no Controller %q in namespace %s yet: no worker is started until it exists", n.Spec.ControllerRef.Name, n.Namespace)
	}
	fragment[corev1.Container](&v, spec("slurmd"), old.Spec.Slurmd, n.Spec.Slurmd)
	fragment[corev1.Container](&v, spec("logfile"), old.Spec.LogFile, n.Spec.LogFile)
	template(&v, old.Spec.Template, n.Spec.Template)
	nodeSetWords(&v, n, old, create)
	nodeSetNames(&v, n, old, create, facts)
	nodeSetClaims(&v, n, create)
	if d := n.Spec.UpdateStrategy.ScheduledUpdate; d != nil && d.Duration != nil && d.Duration.Minutes() < 1 {
		v.refuse(spec("updateStrategy", "scheduledUpdate", "duration"), d.Duration.Duration.String(), "must be at least 1m")
	}
	if changed(create, string(old.Spec.Slurmd.JSON), string(n.Spec.Slurmd.JSON)) {
		devices(&v, n)
	}
	return v
}

// nodeSetWords checks text that becomes Slurm's.
func nodeSetWords(v *Verdict, n, old *v1beta1.NodeSet, create bool) {
	if changed(create, old.Spec.ExtraConf, n.Spec.ExtraConf) {
		if _, err := conf.ParsePairs(strings.TrimSpace(n.Spec.ExtraConf)); err != nil {
			v.refuse(spec("extraConf"), n.Spec.ExtraConf, "%s: write Key=Value words with blanks between them", err)
		}
	}
	if p := n.Spec.Partition; changed(create, old.Spec.Partition, p) && p.Enabled {
		name, err := n.SlurmName()
		if err == nil {
			err = conf.NodeSet{Name: name, Partition: true, PartitionOptions: p.Config}.Validate()
		}
		if err != nil {
			v.refuse(spec("partition", "config"), p.Config, "%s", err)
		}
	}
}

// nodeSetNames checks the names of pods and Slurm nodes, and that nobody else has them.
func nodeSetNames(v *Verdict, n, old *v1beta1.NodeSet, create bool, facts NodeSetFacts) {
	prefix, err := n.HostnamePrefix()
	was, oldErr := old.HostnamePrefix()
	if err != nil {
		return // the template was refused, or was taken long ago and is the same
	}
	isNew := create || oldErr != nil || prefix != was
	path, name := field.NewPath("metadata", "name"), n.Name
	if prefix != "" {
		path, name = spec("template", "spec", "hostname"), prefix
	}
	if isNew && prefix != "" {
		if problems := apivalidation.NameIsDNSLabel(prefix, true); len(problems) > 0 {
			v.refuse(path, prefix, "begins the host names of the workers: %s", strings.Join(problems, "; "))
			return
		}
	}
	grew := isNew || workers(n) > workers(old) || n.Spec.OrdinalPadding != old.Spec.OrdinalPadding
	if grew && n.Spec.ScalingMode != v1beta1.ScalingModeDaemonSet {
		longest := hostname(n, prefix, max(0, workers(n)-1))
		if problems := validation.IsDNS1123Label(longest); len(problems) > 0 {
			v.refuse(path, name, "gives a worker the host name %q: %s", longest, strings.Join(problems, "; "))
		} else if pod := hostname(n, "", max(0, workers(n)-1)); len(pod) > validation.LabelValueMaxLength {
			v.refuse(field.NewPath("metadata", "name"), n.Name, "gives a pod the name %q, which a label holds: %d characters at most", pod, validation.LabelValueMaxLength)
		}
	}
	if create && n.Spec.ScalingMode == v1beta1.ScalingModeDaemonSet && len(n.Name) > validation.LabelValueMaxLength {
		v.refuse(field.NewPath("metadata", "name"), n.Name, "is the value of a label of its pods: %d characters at most", validation.LabelValueMaxLength)
	}
	if create {
		for _, c := range facts.Controllers {
			if c.WorkloadName() == n.Name {
				v.refuse(field.NewPath("metadata", "name"), n.Name, "gives workers the names of the pods of Controller %s: choose another", c.Name)
			}
		}
		for _, a := range facts.Accountings {
			if a.WorkloadName() == n.Name {
				v.refuse(field.NewPath("metadata", "name"), n.Name, "gives workers the names of the pods of Accounting %s: choose another", a.Name)
			}
		}
	}
	if grew {
		taken(v, path, n, prefix, facts.NodeSets)
	}
}

// taken refuses names that another NodeSet of the cluster has in Slurm.
func taken(v *Verdict, path *field.Path, n *v1beta1.NodeSet, prefix string, others []v1beta1.NodeSet) {
	name, err := n.SlurmName()
	if err != nil {
		return
	}
	for i := range others {
		o := &others[i]
		theirs, err := o.SlurmName()
		if err != nil || o.Name == n.Name || o.Spec.ControllerRef.Name != n.Spec.ControllerRef.Name {
			continue
		}
		if theirs == name {
			v.refuse(path, name, "is the name of NodeSet %s in Slurm already: set another spec.template.spec.hostname", o.Name)
			continue
		}
		if host := sharedHost(n, prefix, o); host != "" {
			v.refuse(path, name, "both this NodeSet and NodeSet %s would have a Slurm node %s: set another spec.template.spec.hostname", o.Name, host)
		}
	}
}

// sharedHost returns a host name that workers of both have, empty for none.
func sharedHost(n *v1beta1.NodeSet, prefix string, other *v1beta1.NodeSet) string {
	theirs, err := other.HostnamePrefix()
	if err != nil || n.Spec.ScalingMode == v1beta1.ScalingModeDaemonSet || other.Spec.ScalingMode == v1beta1.ScalingModeDaemonSet {
		return ""
	}
	if theirs == "" {
		theirs = other.Name + "-"
	}
	mine := prefix
	if mine == "" {
		mine = n.Name + "-"
	}
	// One of the prefixes begins the other, or no name can be shared.
	if !strings.HasPrefix(mine, theirs) && !strings.HasPrefix(theirs, mine) {
		return ""
	}
	for i := range workers(n) {
		host := hostname(n, prefix, i)
		digits, ok := strings.CutPrefix(host, theirs)
		if !ok {
			continue
		}
		ordinal, err := strconv.Atoi(digits)
		if err == nil && ordinal >= 0 && ordinal < workers(other) && digits == padded(other, ordinal) {
			return host
		}
	}
	return ""
}

func hostname(n *v1beta1.NodeSet, prefix string, ordinal int) string {
	if prefix == "" {
		prefix = n.Name + "-"
	}
	return prefix + padded(n, ordinal)
}

// padded is an ordinal as names have it. A padding that no name has room for is cut: the name is too long with it in any case.
func padded(n *v1beta1.NodeSet, ordinal int) string {
	return fmt.Sprintf("%0*d", min(n.Spec.OrdinalPadding, 64), ordinal)
}

func workers(n *v1beta1.NodeSet) int {
	if n.Spec.Replicas == nil {
		return 1
	}
	return int(*n.Spec.Replicas)
}

// nodeSetClaims checks the claim templates of a new NodeSet: they can't be changed later.
func nodeSetClaims(v *Verdict, n *v1beta1.NodeSet, create bool) {
	if !create {
		return
	}
	seen := map[string]bool{}
	for i, raw := range n.Spec.VolumeClaimTemplates {
		path := spec("volumeClaimTemplates").Index(i)
		fragment[corev1.PersistentVolumeClaim](v, path, v1beta1.RawObject{}, raw)
		var claim corev1.PersistentVolumeClaim
		if raw.Decode(&claim) != nil {
			continue
		}
		if problems := validation.IsDNS1123Label(claim.Name); len(problems) > 0 {
			v.refuse(path.Child("metadata", "name"), claim.Name, "names the volume: %s", strings.Join(problems, "; "))
		}
		if seen[claim.Name] {
			v.refuse(path.Child("metadata", "name"), claim.Name, "is the name of another claim template of this NodeSet")
		}
		seen[claim.Name] = true
	}
}

// devices warns where Slurm must confine jobs because the container doesn't.
func devices(v *Verdict, n *v1beta1.NodeSet) {
	var c corev1.Container
	if n.Spec.Slurmd.Decode(&c) != nil {
		return
	}
	if s := c.SecurityContext; s != nil && s.Privileged != nil && !*s.Privileged {
		return
	}
	for name := range c.Resources.Limits {
		if strings.Contains(string(name), "/") && !strings.HasPrefix(string(name), "kubernetes.io/") {
			v.warn(spec("slurmd", "resources", "limits").Key(string(name)), "slurmd runs privileged and opens all devices of its Kubernetes node, whatever this limit says: "+
				"set ConstrainDevices=yes in cgroup.conf, or securityContext.privileged: false")
			return
		}
	}
}
