package admission

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm/conf"
)

// Accounting judges a new Accounting, or the change of one; old is nil for a new one.
func Accounting(a, old *v1beta1.Accounting) Verdict {
	var v Verdict
	create := old == nil
	if create {
		old = &v1beta1.Accounting{}
	}
	fits(&v, create, a.Name, 52-len("-accounting"), "the names of its StatefulSet and Service")
	if !a.Spec.External && a.Spec.StorageConfig == nil {
		v.warn(spec("storageConfig"), "is missing: slurmdbd needs a database")
	}
	if changed(create, old.Spec.ExtraConf, a.Spec.ExtraConf) {
		var d conf.Document
		d.Verbatim("extraConf", a.Spec.ExtraConf)
		if _, err := d.Text(); err != nil {
			v.refuse(spec("extraConf"), a.Spec.ExtraConf, "%s", err)
		}
	}
	fragment[corev1.Container](&v, spec("slurmdbd"), old.Spec.Slurmdbd, a.Spec.Slurmdbd)
	template(&v, old.Spec.Template, a.Spec.Template)
	service(&v, old.Spec.Service, a.Spec.Service)
	return v
}

// ClusterFacts is what stands beside an object that refers to a Controller.
type ClusterFacts struct {
	// Controller tells whether the Controller exists.
	Controller bool
	// RestApis are those of the namespace.
	RestApis []v1beta1.RestApi
}

// RestApi judges a new RestApi, or the change of one; old is nil for a new one.
func RestApi(r, old *v1beta1.RestApi, facts ClusterFacts) Verdict {
	var v Verdict
	create := old == nil
	if create {
		old = &v1beta1.RestApi{}
	}
	fits(&v, create, r.Name, 63-len("-restapi"), "the names of its Deployment and Service")
	if !facts.Controller {
		v.warn(spec("controllerRef"), "there is no Controller %q in namespace %s yet: slurmrestd is not started until it exists", r.Spec.ControllerRef.Name, r.Namespace)
	}
	if changed(create, old.Spec.ControllerRef, r.Spec.ControllerRef) {
		for _, o := range facts.RestApis {
			if o.Name != r.Name && o.Spec.ControllerRef.Name == r.Spec.ControllerRef.Name {
				v.warn(spec("controllerRef"), "RestApi %s serves this Controller already; the operator uses the older of the two", o.Name)
			}
		}
	}
	fragment[corev1.Container](&v, spec("slurmrestd"), old.Spec.Slurmrestd, r.Spec.Slurmrestd)
	template(&v, old.Spec.Template, r.Spec.Template)
	service(&v, old.Spec.Service, r.Spec.Service)
	return v
}

// LoginSet judges a new LoginSet, or the change of one; old is nil for a new one.
func LoginSet(l, old *v1beta1.LoginSet, facts ClusterFacts) Verdict {
	var v Verdict
	create := old == nil
	if create {
		old = &v1beta1.LoginSet{}
	}
	fits(&v, create, l.Name, 63, "the names of its Deployment and Service")
	if !facts.Controller {
		v.warn(spec("controllerRef"), "there is no Controller %q in namespace %s yet: no login pod is started until it exists", l.Spec.ControllerRef.Name, l.Namespace)
	}
	fragment[corev1.Container](&v, spec("login"), old.Spec.Login, l.Spec.Login)
	fragment[corev1.Container](&v, spec("initconf"), old.Spec.InitConf, l.Spec.InitConf)
	template(&v, old.Spec.Template, l.Spec.Template)
	service(&v, old.Spec.Service, l.Spec.Service)
	return v
}

// Token judges a new Token, or the change of one; old is nil for a new one.
func Token(t, old *v1beta1.Token) Verdict {
	var v Verdict
	if old != nil && old.Spec.Username == t.Spec.Username && old.Spec.SecretRef != nil == (t.Spec.SecretRef != nil) {
		return v
	}
	if ref := t.Spec.SecretRef; ref != nil && ref.Name != "" {
		if ref.Name == secretOf(t.JwtKey()) {
			v.refuse(spec("secretRef", "name"), ref.Name, "is the Secret with the signing key: the token would stand beside it; name another Secret")
		}
		return v
	}
	user := t.Spec.Username
	if user == "" {
		user = "nobody"
	}
	name := t.Name + "-jwt-" + user
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		v.refuse(spec("username"), t.Spec.Username, "gives the token's Secret the name %q, which Kubernetes doesn't take (%s): set spec.secretRef", name, strings.Join(problems, "; "))
	}
	return v
}

func secretOf(ref *corev1.SecretKeySelector) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}
