package admission

import (
	"maps"
	"slices"

	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm/conf"
)

// longestClusterName is what Slurm's database takes.
const longestClusterName = 40

// ControllerFacts is what a Controller refers to.
type ControllerFacts struct {
	// ConfigMaps holds the sorted names of the files in each ConfigMap that exists, by the ConfigMap's name.
	ConfigMaps map[string][]string
	// Claim is persistence.existingClaim; nil where it doesn't exist.
	Claim *corev1.PersistentVolumeClaim
	// Accounting tells whether accountingRef exists.
	Accounting bool
}

// ControllerConfigMaps lists the ConfigMaps that facts must tell of.
func ControllerConfigMaps(c *v1beta1.Controller) []string {
	names := map[string]bool{}
	for _, r := range references(c) {
		for _, ref := range r.refs {
			names[ref.Name] = true
		}
	}
	if c.Spec.JwksKeyRef != nil {
		names[c.Spec.JwksKeyRef.Name] = true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

type reference struct {
	field string
	refs  []corev1.LocalObjectReference
}

func references(c *v1beta1.Controller) []reference {
	s := c.Spec
	return []reference{
		{"configFileRefs", s.ConfigFileRefs},
		{"prologScriptRefs", s.PrologScriptRefs}, {"epilogScriptRefs", s.EpilogScriptRefs},
		{"prologSlurmctldScriptRefs", s.PrologSlurmctldScriptRefs}, {"epilogSlurmctldScriptRefs", s.EpilogSlurmctldScriptRefs},
	}
}

// Controller judges a new Controller, or the change of one; old is nil for a new one.
func Controller(c, old *v1beta1.Controller, facts ControllerFacts) Verdict {
	var v Verdict
	create := old == nil
	if create {
		old = &v1beta1.Controller{}
	}
	if c.Spec.External {
		fits(&v, create, c.Name, 63-len("slurm-workers-"), "the names of its Services")
	} else {
		fits(&v, create, c.Name, 52-len("-controller"), "the names of its StatefulSet and Services")
	}
	clusterName(&v, c, old, create)
	controllerFiles(&v, c, old, facts)
	controllerState(&v, c, old, create, facts)
	if ref := c.Spec.AccountingRef; ref != nil && !facts.Accounting {
		v.warn(spec("accountingRef"), "there is no Accounting %q in namespace %s yet; the cluster runs without accounting until it exists", ref.Name, c.Namespace)
	}
	if !c.Spec.External {
		slurmConf(&v, c, old, create)
	}
	fragment[corev1.Container](&v, spec("slurmctld"), old.Spec.Slurmctld, c.Spec.Slurmctld)
	fragment[corev1.Container](&v, spec("reconfigure"), old.Spec.Reconfigure, c.Spec.Reconfigure)
	fragment[corev1.Container](&v, spec("logfile"), old.Spec.LogFile, c.Spec.LogFile)
	template(&v, old.Spec.Template, c.Spec.Template)
	service(&v, old.Spec.Service, c.Spec.Service)
	return v
}

func clusterName(v *Verdict, c, old *v1beta1.Controller, create bool) {
	name := c.ClusterName()
	switch path := spec("clusterName"); {
	case !create && name != old.ClusterName():
		v.refuse(path, name, "can't be changed from %q: Slurm's state and accounting are kept under it; make a new Controller", old.ClusterName())
	case create && len(name) > longestClusterName && c.Spec.ClusterName == "":
		v.refuse(path, name, "the default, <namespace>_<name>, has %d characters and Slurm takes %d: set a shorter one", len(name), longestClusterName)
	case create && len(name) > longestClusterName:
		v.refuse(path, name, "has %d characters and Slurm takes %d", len(name), longestClusterName)
	}
}

// controllerFiles checks the ConfigMaps whose files go to /etc/slurm.
func controllerFiles(v *Verdict, c, old *v1beta1.Controller, facts ControllerFacts) {
	before := references(old)
	owner := map[string]string{}
	for i, r := range references(c) {
		for k, ref := range r.refs {
			path := spec(r.field).Index(k).Child("name")
			files, exists := facts.ConfigMaps[ref.Name]
			switch {
			case exists:
			case i == 0 && !slices.Contains(before[i].refs, ref):
				v.refuse(path, ref.Name, "there is no ConfigMap of this name in namespace %s: create it first", c.Namespace)
			default:
				v.warn(path, "there is no ConfigMap %q in namespace %s: create it", ref.Name, c.Namespace)
			}
			for _, f := range files {
				if other, taken := owner[f]; taken && other != ref.Name {
					v.warn(path, "ConfigMaps %s and %s both have a file %s: only one of them counts", other, ref.Name, f)
				}
				owner[f] = ref.Name
				if i == 0 {
					configFile(v, path, ref.Name, f)
				}
			}
		}
	}
	if ref := c.Spec.JwksKeyRef; ref != nil {
		if files, exists := facts.ConfigMaps[ref.Name]; !exists || !slices.Contains(files, ref.Key) {
			v.warn(spec("jwksKeyRef"), "there is no key %q in a ConfigMap %q of namespace %s: create it", ref.Key, ref.Name, c.Namespace)
		}
	}
}

func configFile(v *Verdict, path *field.Path, configMap, file string) {
	switch file {
	case "slurm.conf", "slurmdbd.conf":
		v.refuse(path, configMap, "has a file %s, which the operator writes: put your lines into extraConf", file)
	case "acct_gather.conf", "burst_buffer.conf", "cgroup.conf", "cli_filter.lua", "gres.conf", "helpers.conf", "job_container.conf",
		"job_submit.lua", "mpi.conf", "namespace.yaml", "oci.conf", "plugstack.conf", "topology.conf", "topology.yaml":
	default:
		v.warn(path, "ConfigMap %s has a file %s, which Slurm doesn't read by itself", configMap, file)
	}
}

// controllerState checks where slurmctld keeps its state.
func controllerState(v *Verdict, c, old *v1beta1.Controller, create bool, facts ControllerFacts) {
	if c.Spec.HA != nil && c.Spec.HA.Enabled && facts.Claim != nil && !slices.Contains(facts.Claim.Spec.AccessModes, corev1.ReadWriteMany) {
		v.refuse(spec("persistence", "existingClaim"), facts.Claim.Name,
			"several controllers write to this claim, and its access modes are %v: it must have ReadWriteMany", facts.Claim.Spec.AccessModes)
	}
	if create || c.Spec.Persistence == nil || old.Spec.Persistence == nil {
		return
	}
	if !reflect.DeepEqual(c.Spec.Persistence.PersistentVolumeClaimSpec, old.Spec.Persistence.PersistentVolumeClaimSpec) {
		v.warn(spec("persistence"), "the claim exists already and stays as it is: change the claim itself")
	}
}

// slurmConf checks lines that the operator would refuse to write, or that fight with its own.
func slurmConf(v *Verdict, c, old *v1beta1.Controller, create bool) {
	anyOption := c.Annotations[v1beta1.AnnotationAnyOption] == "true"
	if !changed(create, old.Spec.ExtraConf, c.Spec.ExtraConf) {
		return
	}
	path := spec("extraConf")
	var d conf.Document
	d.Verbatim("extraConf", c.Spec.ExtraConf)
	if _, err := d.Text(); err != nil {
		v.refuse(path, c.Spec.ExtraConf, "%s", err)
		return
	}
	for _, u := range conf.Unreadables(c.Spec.ExtraConf) {
		if !anyOption {
			v.warn(path, "%s, so slurm.conf stays as it is until this is put right; for a newer Slurm, set the annotation %s to \"true\"", u, v1beta1.AnnotationAnyOption)
		}
	}
	for _, name := range conf.Overridden(c.Spec.ExtraConf) {
		v.warn(path, "%s is the operator's: another value may cut the cluster's parts off from each other", name)
	}
}
