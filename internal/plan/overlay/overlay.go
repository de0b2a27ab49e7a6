// Package overlay lays what users write in a custom resource over what the operator
// builds, by Kubernetes' strategic merge.
//
// Scalars that a user sets win, even false and 0. Nulls, empty strings, empty lists and
// empty maps add nothing and remove nothing, since charts render them for absent values.
package overlay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Container lays user over base. User args come after the base's; a probe or a hook
// keeps the base's thresholds but has one handler, the user's where there is one.
func Container(base corev1.Container, user v1beta1.ContainerWrapper) (corev1.Container, error) {
	patch, err := fields(user)
	if err != nil || len(patch) == 0 {
		return base, err
	}
	args, _ := patch["args"].([]any)
	delete(patch, "args")
	delete(patch, "name")
	base = *base.DeepCopy()
	dropReplacedHandlers(&base, patch)
	merged, err := merge(base, patch)
	if err != nil {
		return base, err
	}
	for _, a := range args {
		text, ok := a.(string)
		if !ok {
			return base, fmt.Errorf("args: want strings, got %v", a)
		}
		merged.Args = append(slices.Clip(merged.Args), text)
	}
	return merged, nil
}

// PodSpec lays user over base. Lists that Kubernetes merges by key are merged so, the
// base's tolerations, DNS search domains and required pod anti-affinity are kept beside the user's.
func PodSpec(base corev1.PodSpec, user v1beta1.RawObject) (corev1.PodSpec, error) {
	patch, err := fields(user)
	if err != nil || len(patch) == 0 {
		return base, err
	}
	merged, err := merge(*base.DeepCopy(), patch)
	if err != nil {
		return base, err
	}
	merged.Containers = baseFirst(merged.Containers, base.Containers)
	merged.InitContainers = baseFirst(merged.InitContainers, base.InitContainers)
	merged.Tolerations = union(merged.Tolerations, base.Tolerations)
	if base.DNSConfig != nil && merged.DNSConfig != nil {
		merged.DNSConfig.Searches = union(merged.DNSConfig.Searches, base.DNSConfig.Searches)
	}
	if terms := antiAffinity(base); len(terms) > 0 {
		merged.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution =
			union(antiAffinity(merged), terms)
	}
	return merged, nil
}

// ServiceSpec lays base over user: the user's ServiceSpec is where it starts, but
// selector and port are the operator's, and external addresses are never set.
func ServiceSpec(user v1beta1.ServiceSpec, selector map[string]string, port corev1.ServicePort) (corev1.ServiceSpec, error) {
	var spec corev1.ServiceSpec
	if err := user.ServiceSpec.Decode(&spec); err != nil {
		return spec, fmt.Errorf("service.spec: %w", err)
	}
	spec.ExternalIPs = nil
	if spec.Selector == nil {
		spec.Selector = map[string]string{}
	}
	maps.Copy(spec.Selector, selector)
	for _, p := range spec.Ports {
		if p.Name == port.Name || p.Port == port.Port {
			return spec, fmt.Errorf("service.spec.ports: port %q %d clashes with the operator's %q %d", p.Name, p.Port, port.Name, port.Port)
		}
	}
	spec.Ports = append(spec.Ports, port)
	return spec, nil
}

// baseFirst puts the containers that base has first: the order of init containers matters.
func baseFirst(all, base []corev1.Container) []corev1.Container {
	rank := func(c corev1.Container) int {
		i := slices.IndexFunc(base, func(b corev1.Container) bool { return b.Name == c.Name })
		if i < 0 {
			return len(base)
		}
		return i
	}
	slices.SortStableFunc(all, func(a, b corev1.Container) int { return rank(a) - rank(b) })
	return all
}

func antiAffinity(spec corev1.PodSpec) []corev1.PodAffinityTerm {
	if spec.Affinity == nil || spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// union returns a followed by those of b that a lacks.
func union[T any](a, b []T) []T {
	out := slices.Clone(a)
	for _, item := range b {
		if !slices.ContainsFunc(out, func(have T) bool { return sameJSON(have, item) }) {
			out = append(out, item)
		}
	}
	return out
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// fields reads user without the values that mean nothing.
func fields(user v1beta1.RawObject) (map[string]any, error) {
	var patch map[string]any
	if err := user.Decode(&patch); err != nil {
		return nil, err
	}
	prune(patch)
	return patch, nil
}

// prune removes empty values from maps at any depth; lists keep their elements.
func prune(m map[string]any) {
	for key, value := range m {
		switch v := value.(type) {
		case nil:
			delete(m, key)
		case string:
			if v == "" {
				delete(m, key)
			}
		case []any:
			if len(v) == 0 {
				delete(m, key)
			}
		case map[string]any:
			prune(v)
			if len(v) == 0 {
				delete(m, key)
			}
		}
	}
}

func merge[T any](base T, patch map[string]any) (T, error) {
	var merged T
	original, err := json.Marshal(base)
	if err != nil {
		return merged, err
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return merged, err
	}
	result, err := strategicpatch.StrategicMergePatch(original, text, base)
	if err != nil {
		return merged, fmt.Errorf("merge: %w", err)
	}
	if err := json.Unmarshal(result, &merged); err != nil {
		return merged, fmt.Errorf("is no valid %T: %w", merged, err)
	}
	return merged, nil
}

// dropReplacedHandlers removes the handlers of base for which patch brings another one.
func dropReplacedHandlers(base *corev1.Container, patch map[string]any) {
	for field, probe := range map[string]*corev1.Probe{
		"startupProbe": base.StartupProbe, "livenessProbe": base.LivenessProbe, "readinessProbe": base.ReadinessProbe,
	} {
		if probe != nil && hasHandler(patch[field]) {
			probe.ProbeHandler = corev1.ProbeHandler{}
		}
	}
	lifecycle, _ := patch["lifecycle"].(map[string]any)
	if base.Lifecycle == nil {
		return
	}
	if hasHandler(lifecycle["preStop"]) {
		base.Lifecycle.PreStop = nil
	}
	if hasHandler(lifecycle["postStart"]) {
		base.Lifecycle.PostStart = nil
	}
}

func hasHandler(v any) bool {
	m, _ := v.(map[string]any)
	for _, handler := range []string{"exec", "httpGet", "tcpSocket", "grpc", "sleep"} {
		if _, ok := m[handler]; ok {
			return true
		}
	}
	return false
}
