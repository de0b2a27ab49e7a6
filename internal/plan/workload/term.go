package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
)

// Placed is a pod that has a node, or is promised one.
type Placed struct {
	Pod *corev1.Pod
	// Node is the node's name in Kubernetes.
	Node string
}

// Others is what the pods of a job must be seen beside.
type Others struct {
	// Pods have a node and haven't ended.
	Pods []Placed
	// Namespaces are the labels of namespaces.
	Namespaces map[string]map[string]string
}

// term is a pod affinity term, or the selector of a spread constraint, of one pod.
type term struct {
	key        string
	selector   k8slabels.Selector
	namespaces []string
	// anyOf selects namespaces by label; nil for none.
	anyOf k8slabels.Selector
}

func termOf(pod *corev1.Pod, t *corev1.PodAffinityTerm) (term, error) {
	selector, err := selectorOf(pod, t.LabelSelector, t.MatchLabelKeys, t.MismatchLabelKeys)
	if err != nil {
		return term{}, err
	}
	out := term{key: t.TopologyKey, selector: selector, namespaces: t.Namespaces}
	if t.NamespaceSelector != nil {
		if out.anyOf, err = metav1.LabelSelectorAsSelector(t.NamespaceSelector); err != nil {
			return term{}, err
		}
	}
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		out.namespaces = []string{pod.Namespace}
	}
	return out, nil
}

// selectorOf returns a selector with the pod's own values of the keys to match.
func selectorOf(pod *corev1.Pod, s *metav1.LabelSelector, match, mismatch []string) (k8slabels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || s == nil {
		return selector, err
	}
	s = s.DeepCopy()
	for op, keys := range map[metav1.LabelSelectorOperator][]string{
		metav1.LabelSelectorOpIn: match, metav1.LabelSelectorOpNotIn: mismatch,
	} {
		for _, key := range keys {
			if value, ok := pod.Labels[key]; ok {
				s.MatchExpressions = append(s.MatchExpressions,
					metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
			}
		}
	}
	return metav1.LabelSelectorAsSelector(s)
}

// matches tells whether the term means a pod.
func (t *term) matches(pod *corev1.Pod, o *Others) bool {
	in := slices.Contains(t.namespaces, pod.Namespace) ||
		t.anyOf != nil && t.anyOf.Matches(k8slabels.Set(o.Namespaces[pod.Namespace]))
	return in && t.selector.Matches(k8slabels.Set(pod.Labels))
}

// domains counts the pods that the term means by the value of its topology key.
func (t *term) domains(f *Fleet, o *Others) map[string]int {
	out := map[string]int{}
	for _, p := range o.Pods {
		if node := f.byKube[p.Node]; node != nil {
			if domain, ok := node.Node.Labels[t.key]; ok && t.matches(p.Pod, o) {
				out[domain]++
			}
		}
	}
	return out
}

// terms are all demands of a pod on where other pods are.
type terms struct {
	near, apart []term
	spread      []spreadTerm
	softNear    []weighted
	softApart   []weighted
	softSpread  []spreadTerm
	ports       []port
}

type weighted struct {
	term
	weight int
}

type spreadTerm struct {
	term
	maxSkew, minDomains int
}

func termsOf(pod *corev1.Pod) (terms, error) {
	out := terms{ports: portsOf(pod)}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		selector, err := selectorOf(pod, c.LabelSelector, c.MatchLabelKeys, nil)
		if err != nil {
			return out, err
		}
		s := spreadTerm{term: term{key: c.TopologyKey, selector: selector, namespaces: []string{pod.Namespace}}, maxSkew: int(c.MaxSkew), minDomains: 1}
		if c.MinDomains != nil {
			s.minDomains = int(*c.MinDomains)
		}
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			out.spread = append(out.spread, s)
		} else {
			out.softSpread = append(out.softSpread, s)
		}
	}
	a := pod.Spec.Affinity
	if a == nil {
		return out, nil
	}
	var err error
	if p := a.PodAffinity; p != nil {
		if out.near, err = hardTerms(pod, p.RequiredDuringSchedulingIgnoredDuringExecution); err != nil {
			return out, err
		}
		if out.softNear, err = softTerms(pod, p.PreferredDuringSchedulingIgnoredDuringExecution); err != nil {
			return out, err
		}
	}
	if p := a.PodAntiAffinity; p != nil {
		if out.apart, err = hardTerms(pod, p.RequiredDuringSchedulingIgnoredDuringExecution); err != nil {
			return out, err
		}
		if out.softApart, err = softTerms(pod, p.PreferredDuringSchedulingIgnoredDuringExecution); err != nil {
			return out, err
		}
	}
	return out, nil
}

func hardTerms(pod *corev1.Pod, list []corev1.PodAffinityTerm) ([]term, error) {
	var out []term
	for i := range list {
		t, err := termOf(pod, &list[i])
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func softTerms(pod *corev1.Pod, list []corev1.WeightedPodAffinityTerm) ([]weighted, error) {
	var out []weighted
	for i := range list {
		t, err := termOf(pod, &list[i].PodAffinityTerm)
		if err != nil {
			return nil, err
		}
		out = append(out, weighted{t, int(list[i].Weight)})
	}
	return out, nil
}

// port is a port that a pod takes of its node.
type port struct {
	ip, protocol string
	number       int32
}

func portsOf(pod *corev1.Pod) []port {
	var out []port
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, p := range list[i].Ports {
				if p.HostPort <= 0 {
					continue
				}
				ip := p.HostIP
				if ip == "" {
					ip = anyAddress
				}
				out = append(out, port{ip, string(p.Protocol), p.HostPort})
			}
		}
	}
	return out
}

const anyAddress = "0.0.0.0"

// clash tells whether two pods can't be on one node for their ports.
func clash(a, b []port) (port, bool) {
	for _, p := range a {
		for _, q := range b {
			if p.number == q.number && p.protocol == q.protocol && (p.ip == q.ip || p.ip == anyAddress || q.ip == anyAddress) {
				return p, true
			}
		}
	}
	return port{}, false
}
