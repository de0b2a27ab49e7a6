// Package policy decides what the jobs of a namespace may ask Slurm for: as which user, on
// whose account, where, how long and how urgently. Rules are the administrator's; a tenant
// can write neither annotations of a Namespace nor the ConfigMap that they are in.
package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// Entry is what an administrator writes for a namespace, by names of job annotations without
// their prefix.
type Entry struct {
	Allowed, Default map[string]string
}

// DefaultEntry is the name of the entry in a Book for all namespaces. No namespace can have it.
const DefaultEntry = "_default"

// Book holds the entries of the administrator's ConfigMap, by namespace.
type Book struct {
	// Name is where it is from, as "ConfigMap slinky/slurm-bridge-policy".
	Name    string
	Entries map[string]Entry
	// Errors are about entries that can't be read, by namespace: nothing is allowed there.
	Errors map[string]string
	// Missing tells that the ConfigMap doesn't exist, so that nothing is allowed anywhere.
	Missing bool
}

// Settings are what an administrator set for all namespaces.
type Settings struct {
	// Restricted: what no rule allows is refused. Otherwise it is allowed.
	Restricted bool
	// Partition takes the jobs that name no other.
	Partition string
}

// Rules are what counts for one namespace.
type Rules struct {
	namespace string
	settings  Settings
	allowed   map[string]rule
	defaults  map[string]rule
	// broken is why there are no rules; everything is refused then.
	broken error
}

// rule is one sentence of an administrator's, and where it stands.
type rule struct{ value, from string }

// For returns the rules of a namespace. What the book says about it counts more than the
// namespace's annotations, and those more than the book's entry for all. Book may be nil.
func For(s Settings, namespace string, annotations map[string]string, book *Book) Rules {
	r := Rules{namespace: namespace, settings: s, allowed: map[string]rule{}, defaults: map[string]rule{}}
	var errs []error
	if book != nil {
		errs = append(errs, r.take(book, DefaultEntry))
	}
	errs = append(errs, r.annotated(annotations))
	if book != nil {
		errs = append(errs, r.take(book, namespace))
	}
	if err := errors.Join(errs...); err != nil {
		r.broken = err
		return r
	}
	r.broken = r.check()
	return r
}

func (r *Rules) take(book *Book, name string) error {
	from := fmt.Sprintf("key %s of %s", name, book.Name)
	if book.Missing {
		return fmt.Errorf("%s, which the bridge's configuration names, doesn't exist", book.Name)
	}
	if text := book.Errors[name]; text != "" {
		return fmt.Errorf("%s: %s", from, text)
	}
	e := book.Entries[name]
	var errs []error
	for _, suffix := range slices.Sorted(maps.Keys(e.Allowed)) {
		errs = append(errs, r.set(r.allowed, limited, "allowed", suffix, rule{e.Allowed[suffix], from}))
	}
	for _, suffix := range slices.Sorted(maps.Keys(e.Default)) {
		errs = append(errs, r.set(r.defaults, known, "default", suffix, rule{e.Default[suffix], from}))
	}
	return errors.Join(errs...)
}

func (r *Rules) annotated(annotations map[string]string) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value := rule{annotations[key], fmt.Sprintf("annotation %s of Namespace %s", key, r.namespace)}
		if suffix, ok := strings.CutPrefix(key, v1beta1.PolicyAllowedPrefix); ok {
			errs = append(errs, r.set(r.allowed, limited, "allowed", suffix, value))
		}
		if suffix, ok := strings.CutPrefix(key, v1beta1.PolicyDefaultPrefix); ok {
			errs = append(errs, r.set(r.defaults, known, "default", suffix, value))
		}
	}
	return errors.Join(errs...)
}

func (r *Rules) set(into map[string]rule, may func(string) bool, kind, suffix string, value rule) error {
	if !may(suffix) {
		return fmt.Errorf("%s: there is no rule %s for %q", value.from, kind, suffix)
	}
	into[suffix] = value
	return nil
}

// check finds rules that say nothing that can be followed: a typing error must not open a door.
func (r *Rules) check() error {
	var errs []error
	for _, suffix := range slices.Sorted(maps.Keys(r.allowed)) {
		value := r.allowed[suffix]
		switch kindOf(suffix) {
		case number:
			n, err := parseNumber(value.value)
			if err == nil && n == 0 && suffix == "timelimit" {
				err = errors.New("0 minutes is no time limit; * is for no bound")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", value.from, err))
			}
		case counted:
			if _, err := parseLicenses(value.value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", value.from, err))
			}
		}
	}
	for _, suffix := range slices.Sorted(maps.Keys(r.defaults)) {
		d := r.defaults[suffix]
		if _, err := workload.ParseAnnotations(map[string]string{v1beta1.JobAnnotationPrefix + suffix: d.value}); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.from, err))
		}
	}
	return errors.Join(errs...)
}

// kind is how a job annotation is compared with a rule.
type kind int

const (
	// free: there is no rule for it.
	free kind = iota
	// single: one value, that is one of the list.
	single
	// several: a comma list, all of which are in the rule's list.
	several
	// counted: licences with numbers.
	counted
	// number: at most the rule's value.
	number
)

func kindOf(suffix string) kind {
	switch v1beta1.JobAnnotationPrefix + suffix {
	case v1beta1.AnnotationUserID, v1beta1.AnnotationGroupID, v1beta1.AnnotationAccount, v1beta1.AnnotationWCKey:
		return single
	case v1beta1.AnnotationPartition, v1beta1.AnnotationQOS, v1beta1.AnnotationReservation:
		return several
	case v1beta1.AnnotationLicenses:
		return counted
	case v1beta1.AnnotationTimeLimit, v1beta1.AnnotationPriority:
		return number
	}
	return free
}

func limited(suffix string) bool { return kindOf(suffix) != free }

func known(suffix string) bool {
	switch v1beta1.JobAnnotationPrefix + suffix {
	case v1beta1.AnnotationConstraints, v1beta1.AnnotationCPUPerTask, v1beta1.AnnotationExclusive, v1beta1.AnnotationGRES,
		v1beta1.AnnotationMaxNodes, v1beta1.AnnotationMemPerNode, v1beta1.AnnotationMinNodes:
		return true
	}
	return limited(suffix)
}

// parseNumber reads a greatest value; "*" is no bound.
func parseNumber(text string) (limit uint64, err error) {
	if text = strings.TrimSpace(text); text == "*" {
		return unbounded, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is neither a whole number nor *", text)
	}
	return n, nil
}

const unbounded = ^uint64(0)

// list splits a comma list.
func list(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
