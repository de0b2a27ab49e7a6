package worlds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// patient is how long a test waits on a loaded machine.
const patient = 90 * time.Second

// cutter breaks the calls about one resource, as a network or a proxy may.
type cutter struct {
	next http.RoundTripper

	mu       sync.Mutex
	resource string
	// silent lets streams stay open and say nothing; else they end.
	silent bool
}

func (c *cutter) cut(resource string, silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resource, c.silent = resource, silent
}

func (c *cutter) broken(path string) (broken, silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource != "" && strings.HasSuffix(path, "/"+c.resource), c.silent
}

var errCut = errors.New("the connection was reset")

func (c *cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	switch broken, silent := c.broken(r.URL.Path); {
	case broken && silent:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case broken:
		return nil, errCut
	}
	answer, err := c.next.RoundTrip(r)
	if err == nil {
		answer.Body = &stream{ReadCloser: answer.Body, cutter: c, path: r.URL.Path, ctx: r.Context()}
	}
	return answer, err
}

// stream is the body of an answer; what comes while its resource is cut never arrives.
type stream struct {
	io.ReadCloser
	cutter *cutter
	path   string
	//nolint:containedctx // a reader has no other way to end
	ctx context.Context
}

func (s *stream) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	switch broken, silent := s.cutter.broken(s.path); {
	case broken && silent:
		<-s.ctx.Done()
		return 0, s.ctx.Err()
	case broken:
		return 0, errCut
	}
	return n, err
}

// quickLive is a Live with a test's patience, in place of a person's.
func quickLive(t *testing.T, config *restclient.Config, namespace string) *Live {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLive(Sources{Kube: kube, SchedulerName: DefaultSchedulerName, SlurmAbsent: true, Namespace: namespace})
	l.oldest, l.pulse = 4*time.Second, 300*time.Millisecond
	for _, f := range []*follower{l.pods, l.nodes} {
		f.lasts, f.again = time.Second, 300*time.Millisecond
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-done })
	return l
}

func pod(t *testing.T, admin kubernetes.Interface, namespace, name string) {
	t.Helper()
	_, err := admin.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "any"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func names(f view.Facts) (pods []string) {
	for i := range f.Kubernetes.Pods {
		pods = append(pods, f.Kubernetes.Pods[i].Namespace+"/"+f.Kubernetes.Pods[i].Name)
	}
	return pods
}

// sees waits until the facts are as a test wants them.
func sees(t *testing.T, l *Live, what string, pods []string, missing, hidden string) view.Facts {
	t.Helper()
	var last view.Facts
	apitest.Eventually(t, patient, what, func() error {
		last = l.Facts()
		k := last.Kubernetes
		var lacks []string
		for _, p := range k.Missing {
			lacks = append(lacks, p.What)
		}
		switch {
		case !k.Known:
			return fmt.Errorf("nothing is known: %s", k.Error)
		case !slices.Equal(names(last), pods):
			return fmt.Errorf("the pods are %v, want %v; missing %+v; hidden %v", names(last), pods, k.Missing, k.Hidden)
		case strings.Join(lacks, " ") != missing:
			return fmt.Errorf("missing are %v, want %q", k.Missing, missing)
		case !strings.Contains(strings.Join(k.Hidden, "\n"), hidden) || hidden == "" && len(k.Hidden) > 0:
			return fmt.Errorf("hidden are %q, want %q", k.Hidden, hidden)
		}
		return nil
	})
	return last
}

func cluster(t *testing.T) (*apitest.Server, kubernetes.Interface) {
	t.Helper()
	server := apitest.Start(t)
	admin, err := kubernetes.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Namespace(t, "ml")
	for _, ns := range []string{"ml", "default"} {
		if _, err := admin.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pod(t, admin, "default", "a")
	pod(t, admin, "ml", "b")
	return server, admin
}

// Each part is as old as its own last answer: if only pods, or only nodes, or only the operator's
// kinds give none, these aren't shown any more, it is said since when, and the rest is.
func TestPartsGrowOldAlone(t *testing.T) {
	server, admin := cluster(t)
	cut := &cutter{}
	config := restclient.CopyConfig(server.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { cut.next = next; return cut })
	l := quickLive(t, config, "")
	all := []string{"default/a", "ml/b"}
	sees(t, l, "all is there", all, "", "")
	for _, silent := range []bool{false, true} {
		cut.cut("pods", silent)
		f := sees(t, l, "pods are away", nil, "pods", "")
		if p := f.Kubernetes.Missing[0]; p.Error == "" || p.Read.IsZero() || f.Taken.Sub(p.Read) < l.oldest {
			t.Errorf("silent %v: of the pods is said %+v at %v", silent, p, f.Taken)
		}
		if len(f.Kubernetes.Nodes) != 1 {
			t.Errorf("silent %v: %d nodes are shown with the pods away", silent, len(f.Kubernetes.Nodes))
		}
		if p := view.New(f).Status().Problems; len(p) != 1 || !strings.Contains(p[0].What, "pods can't be read") || !strings.Contains(p[0].What, "last read") {
			t.Errorf("silent %v: what is wrong is %+v", silent, p)
		}
		cut.cut("", false)
		sees(t, l, "pods are back", all, "", "")
	}
	cut.cut("nodes", false)
	if f := sees(t, l, "nodes are away", all, "nodes", ""); len(f.Kubernetes.Nodes) != 0 {
		t.Errorf("old nodes are shown: %v", f.Kubernetes.Nodes)
	}
	cut.cut("controllers", false)
	sees(t, l, "Controllers are away", all, "Controllers", "")
	cut.cut("nodesets", false)
	pod(t, admin, "ml", "c")
	sees(t, l, "NodeSets are away", append(all, "ml/c"), "NodeSets", "")
	cut.cut("", false)
	sees(t, l, "all is back", append(all, "ml/c"), "", "")
}

// Who may not see all is shown what they may see, and told which right it takes; what is given
// or taken while somebody looks counts.
func TestRightsOfTheReader(t *testing.T) {
	server, admin := cluster(t)
	rbac := admin.RbacV1()
	role := func(name string, rules ...rbacv1.PolicyRule) {
		t.Helper()
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		if _, err := rbac.ClusterRoles().Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rule := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
	}
	l := quickLive(t, server.As("ml", "eve"), "ml")
	apitest.Eventually(t, patient, "nothing may be seen", func() error {
		k := l.Facts().Kubernetes
		for _, want := range []string{
			"pods are not shown: you may not list pods in all namespaces", "nodes are not shown: you may not list nodes of the cluster",
			"Controllers are not shown: you may not list controllers.slinky.slurm.net in namespace ml",
		} {
			if !slices.Contains(k.Hidden, want) {
				return fmt.Errorf("hidden are %q, missing %v, want %q", k.Hidden, k.Missing, want)
			}
		}
		return nil
	})
	server.BindRole(t, "ml", "eve", "local")
	local := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "local"}, Rules: []rbacv1.PolicyRule{
		rule("pods", "list", "watch"), {APIGroups: []string{"slinky.slurm.net"}, Resources: []string{"controllers", "nodesets"}, Verbs: []string{"list"}},
	}}
	if _, err := rbac.Roles("ml").Create(t.Context(), local, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f := sees(t, l, "pods of the namespace", []string{"ml/b"}, "nodes", "only the pods of namespace ml are shown: you may not list pods in all namespaces")
	if f.Kubernetes.Namespace != "ml" {
		t.Errorf("the pods are said to be of namespace %q", f.Kubernetes.Namespace)
	}
	if !slices.Contains(f.Kubernetes.Hidden, "only the controllers of namespace ml are shown: you may not list controllers.slinky.slurm.net in all namespaces") {
		t.Errorf("of the Controllers is said %q", f.Kubernetes.Hidden)
	}
	role("lister", rule("pods", "list"), rule("nodes", "list", "watch"))
	server.Bind(t, "ml", "eve", "lister")
	sees(t, l, "all pods, listed", []string{"default/a", "ml/b"}, "", "pods are read every 10 s: you may not watch pods in all namespaces")
	role("watcher", rule("pods", "watch"), rbacv1.PolicyRule{APIGroups: []string{"slinky.slurm.net"}, Resources: []string{"controllers", "nodesets"}, Verbs: []string{"list"}})
	server.Bind(t, "ml", "eve", "watcher")
	sees(t, l, "all pods, watched", []string{"default/a", "ml/b"}, "", "")
	for _, name := range []string{"watcher-ml-eve", "lister-ml-eve"} {
		if err := rbac.ClusterRoleBindings().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	sees(t, l, "a right is taken", []string{"ml/b"}, "nodes", "you may not list pods in all namespaces")
}
