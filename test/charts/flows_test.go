package charts

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// end is one end of a connection: a pod, or something outside of the cluster's network such as
// the API server or a kubelet, which has no labels.
type end struct {
	namespace string
	labels    map[string]string
	ports     map[string]int32
}

func (e end) outside() bool { return e.namespace == "" }

// policies are NetworkPolicies, read as Kubernetes' documentation says: a pod that no policy selects for a
// direction is open in it; one that is selected is open for what any rule of them allows.
type policies []networkingv1.NetworkPolicy

func policiesOf(t *testing.T, all []*unstructured.Unstructured) policies {
	t.Helper()
	var out policies
	for _, u := range all {
		if u.GetKind() != "NetworkPolicy" {
			continue
		}
		var p networkingv1.NetworkPolicy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// allow tells whether a connection from one end to a port of another may be made.
func (all policies) allow(t *testing.T, from, to end, port int32) bool {
	t.Helper()
	return all.open(t, networkingv1.PolicyTypeIngress, to, from, to, port) && all.open(t, networkingv1.PolicyTypeEgress, from, to, to, port)
}

func (all policies) open(t *testing.T, direction networkingv1.PolicyType, mine, other, target end, port int32) bool {
	t.Helper()
	selected := false
	for _, p := range all {
		if mine.outside() || p.Namespace != mine.namespace || !slices.Contains(p.Spec.PolicyTypes, direction) || !selects(t, &p.Spec.PodSelector, mine.labels) {
			continue
		}
		selected = true
		if direction == networkingv1.PolicyTypeIngress {
			for _, r := range p.Spec.Ingress {
				if through(r.Ports, target, port) && among(t, r.From, p.Namespace, other) {
					return true
				}
			}
			continue
		}
		for _, r := range p.Spec.Egress {
			if through(r.Ports, target, port) && among(t, r.To, p.Namespace, other) {
				return true
			}
		}
	}
	return !selected
}

func through(ports []networkingv1.NetworkPolicyPort, target end, port int32) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		if p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
			return false
		}
		if p.Port != nil && p.Port.Type == intstr.String {
			return target.ports[p.Port.StrVal] == port
		}
		return p.Port == nil || p.Port.IntVal == port
	})
}

// among tells whether an end is one of the peers. The labels of namespaces are their names.
func among(t *testing.T, peers []networkingv1.NetworkPolicyPeer, namespace string, e end) bool {
	t.Helper()
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if e.outside() || p.IPBlock != nil {
			return e.outside() && p.IPBlock != nil
		}
		if p.NamespaceSelector == nil && e.namespace != namespace {
			return false
		}
		if p.NamespaceSelector != nil && !selects(t, p.NamespaceSelector, map[string]string{corev1.LabelMetadataName: e.namespace}) {
			return false
		}
		return p.PodSelector == nil || selects(t, p.PodSelector, e.labels)
	})
}

func selects(t *testing.T, s *metav1.LabelSelector, set map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(labels.Set(set))
}

// podsOf are the pods of a rendered Deployment, with the ports that they name.
func podsOf(t *testing.T, all []*unstructured.Unstructured, name string) end {
	t.Helper()
	u := find(t, all, "Deployment", name)
	e := end{namespace: u.GetNamespace(), ports: map[string]int32{}}
	var spec corev1.PodTemplateSpec
	template, _ := at(t, u, "spec", "template").(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &spec); err != nil {
		t.Fatal(err)
	}
	e.labels = spec.Labels
	for _, c := range spec.Spec.Containers {
		for _, p := range c.Ports {
			e.ports[p.Name] = p.ContainerPort
		}
	}
	return e
}

// With the network policies of both charts, what has to speak to each other can, and nobody else: the box's network
// has no policies, so that what was rendered is read here as a network would.
func TestFlows(t *testing.T) {
	bridge := render(t, "slurm-bridge", "networkPolicy: {enabled: true}")
	slurm := policiesOf(t, render(t, "slurm", "networkPolicy: {enabled: true}"))
	narrow := policiesOf(t, render(t, "slurm", `networkPolicy: {enabled: true, restapiPeers: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: slinky}}}]}`))
	own := policiesOf(t, bridge)
	if len(own) < 3 || len(slurm) < 3 {
		t.Fatalf("%d and %d policies are rendered", len(own), len(slurm))
	}
	outside := end{} // the API server, a kubelet, a load balancer
	scheduler, controllers, admission := podsOf(t, bridge, "slurm-bridge-scheduler"), podsOf(t, bridge, "slurm-bridge-controllers"), podsOf(t, bridge, "slurm-bridge-admission")
	prometheus := end{namespace: "monitoring", labels: map[string]string{"app.kubernetes.io/name": "prometheus"}}
	dns := end{namespace: "kube-system", labels: map[string]string{"k8s-app": "kube-dns"}}
	tenant := end{namespace: "tenant", labels: map[string]string{"app": "any"}}
	daemon := func(name, port string, number int32) end {
		return end{namespace: "slurm", labels: map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/instance": "slurm"}, ports: map[string]int32{port: number}}
	}
	slurmrestd, slurmctld := daemon("slurmrestd", "slurmrestd", 6820), daemon("slurmctld", "slurmctld", 6817)
	for name, f := range map[string]struct {
		policies policies
		from, to end
		port     int32
		want     bool
	}{
		"scheduler to the API server":                      {own, scheduler, outside, 6443, true},
		"controllers to the API server":                    {own, controllers, outside, 6443, true},
		"admission to the API server":                      {own, admission, outside, 6443, true},
		"scheduler to DNS":                                 {own, scheduler, dns, 53, true},
		"scheduler to slurmrestd":                          {slices.Concat(own, slurm), scheduler, slurmrestd, 6820, true},
		"controllers to slurmrestd":                        {slices.Concat(own, slurm), controllers, slurmrestd, 6820, true},
		"scheduler to slurmrestd, which has narrow peers":  {slices.Concat(own, narrow), scheduler, slurmrestd, 6820, true},
		"a tenant to slurmrestd, which has narrow peers":   {slices.Concat(own, narrow), tenant, slurmrestd, 6820, false},
		"a tenant to slurmctld":                            {slurm, tenant, slurmctld, 6817, false},
		"slurmrestd to slurmctld":                          {slurm, slurmrestd, slurmctld, 6817, true},
		"the API server to the webhooks":                   {own, outside, admission, 9443, true},
		"kubelet to the scheduler's probes":                {own, outside, scheduler, 10259, true},
		"kubelet to the controllers' probes":               {own, outside, controllers, 8081, true},
		"kubelet to admission's probes":                    {own, outside, admission, 8081, true},
		"Prometheus to the scheduler":                      {own, prometheus, scheduler, 10259, true},
		"Prometheus to the controllers":                    {own, prometheus, controllers, 8080, true},
		"a tenant to another port of the scheduler":        {own, tenant, scheduler, 10251, false},
		"a tenant to another port of the controllers":      {own, tenant, controllers, 9443, false},
		"a tenant to admission's metrics, which it hasn't": {own, tenant, admission, 8080, false},
		"a tenant to others":                               {own, tenant, prometheus, 9090, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := f.policies.allow(t, f.from, f.to, f.port); got != f.want {
				t.Errorf("allowed: %t", got)
			}
		})
	}
}
