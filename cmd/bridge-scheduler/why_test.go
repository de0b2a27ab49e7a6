package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// why is what "slinky why" says.
func (w *world) why(t *testing.T, target string) string {
	t.Helper()
	s := worlds.Sources{Kube: w.kube, Slurm: w.slurm, SchedulerName: w.settings.SchedulerName}
	found, err := view.New(s.Read(t.Context(), worlds.Want{Namespace: namespace, Limits: true})).Find(namespace, target)
	if err != nil {
		t.Fatal(err)
	}
	return explain.Why(found.Facts).Text()
}

func (w *world) fullIsExplained(t *testing.T) {
	for i := range 3 {
		w.pod(fmt.Sprintf("full-%d", i), func(p *corev1.Pod) { p.Annotations[v1beta1.AnnotationTimeLimit] = "60" })
	}
	first := w.job(t, w.bound(t, "full-0"))
	w.bound(t, "full-1")
	w.bound(t, "full-2")
	w.pod("next", nil)
	w.held(t, "next", "QueuedInSlurm")
	w.eventually(t, "Slurm has a reason and a plan", func() error {
		text := w.why(t, "next")
		for _, want := range []string{
			"no suitable nodes are free now (Resources)", "  pod            default/next\n", "has its nodes  job ", " of slurm, pods default/full-", ", until ",
			"place          1 of 1 in partition ext", "start          expected at ", "What to do:\n  - nothing: it starts when nodes are free\n",
		} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("%w: %q is not in\n%s", errWait, want, text)
			}
		}
		return nil
	})
	if text := w.why(t, fmt.Sprint(first.ID)); !strings.HasPrefix(text, fmt.Sprintf("The pod is on node %s, in Slurm job %d.\n", first.Nodes, first.ID)) {
		t.Errorf("of a job that runs it says\n%s", text)
	}
	w.kubelet(t, "full-0", corev1.PodSucceeded)
	w.bound(t, "next")
	w.jobEnds(t, first.ID)
	if text := w.why(t, fmt.Sprint(first.ID)); !strings.Contains(text, "pods ended     1 pod succeeded") {
		t.Errorf("of a job that has ended it says\n%s", text)
	}
}

func (w *world) limitIsExplained(t *testing.T) {
	w.cluster.Run(t, "sacctmgr", "-i", "modify", "account", "pods", "set", "GrpTRES=cpu=4")
	defer w.cluster.Run(t, "sacctmgr", "-i", "modify", "account", "pods", "set", "GrpTRES=cpu=-1")
	w.eventually(t, "slurmctld knows the limit", func() error {
		if text := w.cluster.Run(t, "scontrol", "-o", "show", "assoc_mgr", "accounts=pods", "flags=assoc"); !strings.Contains(text, "GrpTRES=cpu=4(") {
			return fmt.Errorf("%w: %s", errWait, text)
		}
		return nil
	})
	w.pod("within", nil)
	w.bound(t, "within")
	w.pod("beyond", nil)
	w.held(t, "beyond", "QueuedInSlurm")
	w.eventually(t, "the limit is explained", func() error {
		text := w.why(t, "beyond")
		for _, want := range []string{
			"waits: account pods has reached its limit of CPUs (AssocGrpCpuLimit).", "limit          CPUs, at most 4, 4 in use",
			"counts there   job ", "sacctmgr show assoc where account=pods",
		} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("%w: %q is not in\n%s", errWait, want, text)
			}
		}
		return nil
	})
}

// throughAPIServer lets "slinky why" find slurmrestd as it is in a cluster: by the
// bridge's configuration and Secret, as a Service that only the API server reaches.
func (w *world) throughAPIServer(t *testing.T) {
	ctx := t.Context()
	address := w.forward(t, strings.TrimPrefix(w.cluster.URL, "http://"))
	for _, err := range []error{
		create(w.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "slurm"}}, metav1.CreateOptions{})),
		create(w.kube.CoreV1().Services("slurm").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "slurm-restapi"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "rest", Port: 6820}}},
		}, metav1.CreateOptions{})),
		create(w.kube.CoreV1().Pods("slurm").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "slurm-restapi-0"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "slurmrestd", Image: "none"}}},
		}, metav1.CreateOptions{})),
		create(w.kube.CoreV1().Pods("slurm").Patch(ctx, "slurm-restapi-0", types.MergePatchType,
			fmt.Appendf(nil, `{"status":{"podIP":%q,"podIPs":[{"ip":%q}]}}`, address.IP, address.IP), metav1.PatchOptions{}, "status")),
		// The API server leads to addresses of pods alone.
		create(w.kube.DiscoveryV1().EndpointSlices("slurm").Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "slurm-restapi-1", Labels: map[string]string{discoveryv1.LabelServiceName: "slurm-restapi"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{address.IP.String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "slurm", Name: "slurm-restapi-0"},
			}},
			Ports: []discoveryv1.EndpointPort{{Name: new("rest"), Port: new(int32(address.Port)), Protocol: new(corev1.ProtocolTCP)}},
		}, metav1.CreateOptions{})),
		create(w.kube.CoreV1().Secrets("slinky").Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "slurm-jwt"}, Data: map[string][]byte{"jwt.key": w.cluster.Key},
		}, metav1.CreateOptions{})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.pod("seen", nil)
	j := w.job(t, w.bound(t, "seen"))
	w.eventually(t, "the job is explained", func() error {
		var s worlds.Sources
		if err := worlds.Connect(ctx, w.admin, worlds.Slurmrestd{}, &s); err != nil {
			return err
		}
		found, err := view.New(s.Read(ctx, worlds.Want{})).Find(namespace, "seen")
		if err != nil {
			return err
		}
		facts := found.Facts
		if facts.Job == nil || facts.Job.ID != j.ID {
			return fmt.Errorf("%w: %s\n%s", errWait, facts.SlurmError, explain.Why(facts).Text())
		}
		return nil
	})
}

func create[T any](_ T, err error) error { return err }

// forward makes a port of this machine lead to an address of 127.0.0.1, to which an API server doesn't go.
func (w *world) forward(t *testing.T, to string) *net.TCPAddr {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.IsLoopback() || ip.IP.To4() == nil || ip.IP.IsLinkLocalUnicast() {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(ip.IP.String(), "0"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		server := &http.Server{Handler: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to}), ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(l) }() // until the listener is closed
		return l.Addr().(*net.TCPAddr)
	}
	t.Fatal("this machine has no address but that of itself")
	return nil
}
