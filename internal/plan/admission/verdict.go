// Package admission decides whether a custom resource is taken: what the rules in the CRDs
// can't know, because it is about other objects or about text within text.
package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Verdict is what is wrong with an object, and what its author should know. Without errors
// the object is taken.
type Verdict struct {
	Errors   field.ErrorList
	Warnings []string
}

func (v *Verdict) refuse(path *field.Path, value any, format string, args ...any) {
	v.Errors = append(v.Errors, field.Invalid(path, value, fmt.Sprintf(format, args...)))
}

func (v *Verdict) warn(path *field.Path, format string, args ...any) {
	v.Warnings = append(v.Warnings, path.String()+": "+fmt.Sprintf(format, args...))
}

func spec(names ...string) *field.Path {
	p := field.NewPath("spec")
	for _, n := range names {
		p = p.Child(n)
	}
	return p
}

// changed tells whether a part of an object is new: what was taken before stays valid, so
// that the rest of the object can be changed.
func changed[T comparable](create bool, was, now T) bool { return create || was != now }

// fragment checks a part that is laid over what the operator builds. was is the same part of the old object.
func fragment[T any](v *Verdict, path *field.Path, was, now v1beta1.RawObject) {
	if now.IsEmpty() || bytes.Equal(was.JSON, now.JSON) {
		return
	}
	var out T
	if err := now.Decode(&out); err != nil {
		v.refuse(path, string(now.JSON), "is no %s: %s", strings.TrimPrefix(fmt.Sprintf("%T", out), "v1."), plainJSON(err))
		return
	}
	strict := json.NewDecoder(bytes.NewReader(now.JSON))
	strict.DisallowUnknownFields()
	if err := strict.Decode(new(T)); err != nil && !errors.Is(err, io.EOF) {
		v.warn(path, "%s: it has no effect", plainJSON(err))
	}
}

func plainJSON(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Sprintf("%s can't be a %s", wrong.Field, wrong.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func template(v *Verdict, was, now v1beta1.PodTemplate) {
	fragment[corev1.PodSpec](v, spec("template", "spec"), was.PodSpec, now.PodSpec)
}

// service checks a part that is laid over a Service.
func service(v *Verdict, was, now v1beta1.ServiceSpec) {
	fragment[corev1.ServiceSpec](v, spec("service", "spec"), was.ServiceSpec, now.ServiceSpec)
	var s corev1.ServiceSpec
	if now.ServiceSpec.Decode(&s) == nil && len(s.ExternalIPs) > 0 {
		v.warn(spec("service", "spec", "externalIPs"), "has no effect: whoever could set it could take over any address (CVE-2020-8554)")
	}
}

// fits refuses names from which Kubernetes couldn't make those of the objects.
func fits(v *Verdict, create bool, name string, longest int, of string) {
	if !create {
		return
	}
	path := field.NewPath("metadata", "name")
	if len(name) > longest {
		v.refuse(path, name, "has %d characters; %s leave room for %d", len(name), of, longest)
	}
	if strings.Contains(name, ".") {
		v.refuse(path, name, "has a dot, which %s can't have", of)
	}
}
