package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/internal/apitest"
)

const scheduler = "slurm-bridge-scheduler"

// suite is admission that an API server calls as it would in production: with the
// certificate that admission made, which has no other rights than its own roles.
type suite struct {
	server   *apitest.Server
	admin    client.Client
	bridge   client.Client
	warnings *apitest.Warnings
	args     []string
	stop     func()
}

// settings of the bridge: two managed namespaces, rules for all in a ConfigMap.
const settings = `
schedulerName: slurm-bridge-scheduler
slurmRestApi: http://slurm-restapi.slurm:6820
partition: slurm-bridge
managedNamespaces: [managed, free]
policyConfigMap: slurm-bridge-policy
`

func TestAPIServer(t *testing.T) {
	server := apitest.Start(t, "feature-gates=GenericWorkload=true", "runtime-config=scheduling.k8s.io/v1beta1=true")
	s := &suite{server: server, warnings: &apitest.Warnings{}}
	config := rest.CopyConfig(server.Config)
	config.WarningHandler = s.warnings
	var err error
	if s.admin, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	if s.bridge, err = client.New(server.As("slinky", "slurm-bridge-scheduler"), client.Options{}); err != nil {
		t.Fatal(err)
	}
	server.Apply(t, "cmd", "bridge-admission", "testdata", "webhooks.yaml")
	server.Apply(t, "config", "rbac", "bridge-admission", "role.yaml")
	server.Apply(t, "config", "rbac", "bridge-scheduler", "role.yaml")
	server.Bind(t, "slinky", "slurm-bridge-admission", "slurm-bridge-admission")
	server.Bind(t, "slinky", "slurm-bridge-scheduler", "slurm-bridge-scheduler")
	server.BindRole(t, "slinky", "slurm-bridge-admission", "slurm-bridge-admission")
	port := apitest.FreePort(t)
	s.redirect(t, port)
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{
		"--config=" + file, fmt.Sprintf("--server-addr=127.0.0.1:%d", port), fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", apitest.FreePort(t)),
		"--namespace=slinky", "--cert-secret=slurm-bridge-admission-tls", "--leader-elect",
		"--kubeconfig=" + server.Kubeconfig(t, "slinky", "slurm-bridge-admission"), "--zap-log-level=error",
	}
	s.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "slinky", Name: "slurm-bridge-policy"}, Data: map[string]string{
		"free": `default: {exclusive: false}`,
	}})
	for name, annotations := range map[string]map[string]string{
		"managed": {
			"slurmjob-allowed.slinky.slurm.net/user-id":   "alice",
			"slurmjob-allowed.slinky.slurm.net/account":   "physics, chemistry",
			"slurmjob-allowed.slinky.slurm.net/timelimit": "60",
			"slurmjob-default.slinky.slurm.net/timelimit": "5",
		},
		"free": nil, "elsewhere": nil,
	} {
		s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}})
	}
	s.start(t)
	t.Cleanup(func() { s.stop() })
	s.await(t)
	t.Run("adoption", s.testAdoption)
	t.Run("refusals", s.testRefusals)
	t.Run("changes", s.testChanges)
	t.Run("owners", s.testOwners)
	t.Run("rules", s.testRules)
	t.Run("away", s.testAway)
}

// redirect leads calls of the Service here.
func (s *suite) redirect(t *testing.T, port int) {
	t.Helper()
	number := int32(port)
	var m admissionv1.MutatingWebhookConfiguration
	s.get(t, "", "slurm-bridge-admission", &m)
	for i := range m.Webhooks {
		m.Webhooks[i].ClientConfig.Service.Port = &number
	}
	s.update(t, &m)
	var v admissionv1.ValidatingWebhookConfiguration
	s.get(t, "", "slurm-bridge-admission", &v)
	for i := range v.Webhooks {
		v.Webhooks[i].ClientConfig.Service.Port = &number
	}
	s.update(t, &v)
}

func (s *suite) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, s.args) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("admission: %v", err)
		}
	})
}

// await waits until admission is asked and answers.
func (s *suite) await(t *testing.T) {
	t.Helper()
	apitest.Eventually(t, time.Minute, "admission answers", func() error {
		return s.admin.Create(t.Context(), pod("managed", "probe"), client.DryRunAll)
	})
}

func (s *suite) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := s.admin.Create(t.Context(), o); err != nil {
		t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

func (s *suite) update(t *testing.T, o client.Object) {
	t.Helper()
	if err := s.admin.Update(t.Context(), o); err != nil {
		t.Fatalf("update %T %s: %v", o, o.GetName(), err)
	}
}

func (s *suite) get(t *testing.T, namespace, name string, o client.Object) {
	t.Helper()
	if err := s.admin.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, o); err != nil {
		t.Fatalf("read %T %s: %v", o, name, err)
	}
}

// patch sends a JSON merge patch as the tenant or as the bridge.
func (s *suite) patch(t *testing.T, by client.Client, o client.Object, text string) error {
	t.Helper()
	return by.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(text)))
}

// pod is a pod of one CPU, changed by functions.
func pod(namespace, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	no := false
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{AutomountServiceAccountToken: &no, Containers: []corev1.Container{{
			Name: "main", Image: "none",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}},
		}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, key, value) }
}

func scheduledBy(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = name }
}

func limited(name corev1.ResourceName, n string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{name: resource.MustParse(n)}
	}
}

// refused checks that an error is a refusal with a text in it; with "" that there is none.
func refused(t *testing.T, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("refused: %v", err)
	case text != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), text)):
		t.Errorf("got %v\nwant a refusal with %q", err, text)
	}
}
