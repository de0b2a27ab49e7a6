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

// suffixes are the job annotations that rules can be about, in the order of a refusal.
func suffixes() []string {
	keys := []string{
		v1beta1.AnnotationUserID, v1beta1.AnnotationGroupID, v1beta1.AnnotationAccount, v1beta1.AnnotationPartition,
		v1beta1.AnnotationQOS, v1beta1.AnnotationReservation, v1beta1.AnnotationPriority, v1beta1.AnnotationTimeLimit,
		v1beta1.AnnotationLicenses, v1beta1.AnnotationWCKey,
	}
	for i, key := range keys {
		keys[i] = strings.TrimPrefix(key, v1beta1.JobAnnotationPrefix)
	}
	return keys
}

// Complete returns job annotations with the namespace's defaults for what they leave open.
// An empty value leaves it open. What is given stays as it is, the rest isn't copied where
// nothing is added.
func (r Rules) Complete(annotations map[string]string) map[string]string {
	added := r.Added(annotations)
	if len(added) == 0 {
		return annotations
	}
	out := maps.Clone(annotations)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, added)
	return out
}

// Apply gives a workload the defaults, and forbids what the rules don't allow.
func (r Rules) Apply(g *workload.Group) {
	g.Annotations = r.Complete(g.Annotations)
	g.Forbidden = r.Check(g.Annotations, g.DeadlineSeconds)
}

// Added returns the annotations that Complete adds.
func (r Rules) Added(annotations map[string]string) map[string]string {
	out := map[string]string{}
	if r.broken != nil {
		return out
	}
	for _, suffix := range append(suffixes(), slices.Sorted(maps.Keys(r.defaults))...) {
		key := v1beta1.JobAnnotationPrefix + suffix
		if strings.TrimSpace(annotations[key]) != "" {
			continue
		}
		if value := r.fallback(suffix); value != "" {
			out[key] = value
		}
	}
	return out
}

// fallback is what a job gets that doesn't ask: the default, or else the first that is
// allowed, so that it never gets what isn't: Slurm's own default may be something else.
func (r Rules) fallback(suffix string) string {
	if d, ok := r.defaults[suffix]; ok {
		return strings.TrimSpace(d.value)
	}
	allowed, ok := r.allowed[suffix]
	if !ok {
		return ""
	}
	switch v1beta1.JobAnnotationPrefix + suffix {
	case v1beta1.AnnotationTimeLimit:
		if n, err := parseNumber(allowed.value); err == nil && n != unbounded && n != 0 {
			return strconv.FormatUint(n, 10)
		}
		return ""
	case v1beta1.AnnotationPartition:
		if p := r.settings.Partition; p != "" && permits(list(allowed.value), p) {
			return ""
		}
	case v1beta1.AnnotationReservation, v1beta1.AnnotationLicenses, v1beta1.AnnotationPriority:
		return ""
	}
	if all := list(allowed.value); len(all) > 0 && all[0] != "*" {
		return all[0]
	}
	return ""
}

// Check tells what a job with these annotations asks for and may not have: one sentence each,
// with the rule and where it stands. Deadline is how many seconds the workload may run, 0 for no limit.
func (r Rules) Check(annotations map[string]string, deadline int64) error {
	if r.broken != nil {
		return fmt.Errorf("no job of namespace %s may be sent to Slurm until an administrator mends its rules: %s",
			r.namespace, strings.ReplaceAll(r.broken.Error(), "\n", "; "))
	}
	// What can't be read is refused by others.
	s, _ := workload.ParseAnnotations(annotations)
	var errs []error
	for _, suffix := range suffixes() {
		key := v1beta1.JobAnnotationPrefix + suffix
		value, asked := annotations[key]
		switch key {
		case v1beta1.AnnotationTimeLimit:
			errs = append(errs, r.checkTime(s, value, deadline))
		case v1beta1.AnnotationPriority:
			if asked && s.Priority.Set {
				errs = append(errs, r.checkPriority(s, value))
			}
		default:
			if strings.TrimSpace(value) != "" {
				errs = append(errs, r.checkText(suffix, value))
			}
		}
	}
	return errors.Join(errs...)
}

func (r Rules) checkText(suffix, value string) error {
	allowed, ruled := r.allowed[suffix]
	if !ruled {
		return r.unruled(suffix, value)
	}
	if kindOf(suffix) == counted {
		if r.isDefault(suffix, value) {
			return nil
		}
		if err := checkLicenses(allowed.value, value); err != nil {
			return fmt.Errorf("annotation %s%s is %q: %w (%s)", v1beta1.JobAnnotationPrefix, suffix, value, err, allowed.from)
		}
		return nil
	}
	for _, item := range items(suffix, value) {
		if !permits(list(allowed.value), item) && !r.isDefault(suffix, value) {
			return refusal(suffix, value, allowed, r.namespace)
		}
	}
	return nil
}

// unruled decides about what no rule is about.
func (r Rules) unruled(suffix, value string) error {
	if r.isDefault(suffix, value) {
		return nil
	}
	key := v1beta1.JobAnnotationPrefix + suffix
	if user, ok := r.allowed["user-id"]; ok && key == v1beta1.AnnotationGroupID {
		return fmt.Errorf("annotation %s is %q: namespace %s has a rule for user-id and none for group-id, so a job can't choose its group (%s)", key, value, r.namespace, user.from)
	}
	if !r.settings.Restricted || (key == v1beta1.AnnotationPartition && value == r.settings.Partition) {
		return nil
	}
	return fmt.Errorf("annotation %s is %q: the bridge's policy is Restricted and no rule of namespace %s allows it; "+
		"an administrator can, by annotation %s%s of the Namespace", key, value, r.namespace, v1beta1.PolicyAllowedPrefix, suffix)
}

func (r Rules) checkPriority(s workload.Settings, value string) error {
	allowed, ruled := r.allowed["priority"]
	if !ruled {
		return r.unruled("priority", value)
	}
	if limit, err := parseNumber(allowed.value); err == nil && s.Priority.Value <= limit || r.isDefault("priority", value) {
		return nil
	}
	return fmt.Errorf("annotation %s is %s, more than the %s of namespace %s (%s)",
		v1beta1.AnnotationPriority, value, allowed.value, r.namespace, allowed.from)
}

func (r Rules) checkTime(s workload.Settings, value string, deadline int64) error {
	allowed, ruled := r.allowed["timelimit"]
	if !ruled {
		return nil
	}
	limit, err := parseNumber(allowed.value)
	if err != nil || limit == unbounded || r.isDefault("timelimit", value) {
		return nil
	}
	switch minutes := workload.Minutes(deadline); {
	case s.TimeLimit.Set && (s.TimeLimit.Infinite || s.TimeLimit.Value > limit):
		return fmt.Errorf("annotation %s is %s, and namespace %s has %d minutes at most (%s)",
			v1beta1.AnnotationTimeLimit, value, r.namespace, limit, allowed.from)
	case !s.TimeLimit.Set && deadline > 0 && minutes > limit:
		return fmt.Errorf("activeDeadlineSeconds asks for %d minutes, and namespace %s has %d at most (%s)",
			minutes, r.namespace, limit, allowed.from)
	}
	return nil
}

// isDefault: what the administrator gives to those who don't ask may be asked for, too.
func (r Rules) isDefault(suffix, value string) bool {
	d, ok := r.defaults[suffix]
	return ok && d.value == value
}

func refusal(suffix, value string, allowed rule, namespace string) error {
	key := v1beta1.JobAnnotationPrefix + suffix
	all := list(allowed.value)
	if len(all) == 0 {
		return fmt.Errorf("annotation %s is %q: jobs of namespace %s may not set it (%s)", key, value, namespace, allowed.from)
	}
	return fmt.Errorf("annotation %s is %q: jobs of namespace %s may only have %s (%s)", key, value, namespace, strings.Join(all, ", "), allowed.from)
}

// items are the values that a job asks for at once. They are compared as they stand: Slurm
// reads them more freely, but never as more than they say.
func items(suffix, value string) []string {
	if kindOf(suffix) == several {
		return strings.Split(value, ",")
	}
	return []string{value}
}

func permits(allowed []string, value string) bool {
	return slices.Contains(allowed, "*") || slices.Contains(allowed, value)
}

// licence is one term of a list such as "matlab:2,fluent@db".
type licence struct {
	name string
	// count is 1 where a job gives none, and without bound where a rule gives none.
	count uint64
	given bool
}

func parseLicenses(text string) ([]licence, error) {
	var out []licence
	for _, item := range list(text) {
		l := licence{name: item, count: 1}
		if i := strings.LastIndexAny(item, ":="); i >= 0 {
			n, err := strconv.ParseUint(item[i+1:], 10, 32)
			if err != nil {
				return nil, fmt.Errorf("the number of licences in %q is none", item)
			}
			l = licence{name: item[:i], count: n, given: true}
		}
		if l.name == "" || strings.ContainsAny(l.name, ":=;|&()\"' \t") {
			return nil, fmt.Errorf("%q is not a licence such as name, name@server or name:2", item)
		}
		out = append(out, l)
	}
	return out, nil
}

func checkLicenses(rule, value string) error {
	allowed, err := parseLicenses(rule)
	if err != nil {
		return err
	}
	asked, err := parseLicenses(value)
	if err != nil {
		return err
	}
	sum := map[string]uint64{}
	for _, a := range asked {
		sum[a.name] += a.count
		i := slices.IndexFunc(allowed, func(l licence) bool { return l.name == a.name })
		any := slices.ContainsFunc(allowed, func(l licence) bool { return l.name == "*" })
		switch {
		case i < 0 && !any:
			return fmt.Errorf("jobs may only have the licences %s", rule)
		case i >= 0 && allowed[i].given && sum[a.name] > allowed[i].count:
			return fmt.Errorf("jobs may have %d of licence %s at most", allowed[i].count, a.name)
		}
	}
	return nil
}
