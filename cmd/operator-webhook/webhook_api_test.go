package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/operator"
)

// suite is a webhook that an API server calls as it would in production: by the Service's
// name, with the certificate that the webhook made, and the webhook has no other rights than
// its own roles.
type suite struct {
	admin    client.Client
	warnings *apitest.Warnings
	server   *apitest.Server
	args     []string
	stop     func()
}

func TestAPIServer(t *testing.T) {
	server := apitest.Start(t)
	scheme, err := operator.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{server: server, warnings: &apitest.Warnings{}}
	config := rest.CopyConfig(server.Config)
	config.WarningHandler = s.warnings
	if s.admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	server.Chart(t, "slinky", "slurm-operator", "certManager.enabled=false", "certManager.secretName=slurm-operator-webhook-tls")
	port := apitest.FreePort(t)
	s.redirect(t, port)
	s.args = []string{
		fmt.Sprintf("--server-addr=127.0.0.1:%d", port), fmt.Sprintf("--health-addr=127.0.0.1:%d", apitest.FreePort(t)),
		"--namespace=slinky", "--cert-secret=slurm-operator-webhook-tls", "--leader-elect", "--leader-elect-namespace=slinky",
		"--kubeconfig=" + server.Kubeconfig(t, "slinky", "slurm-operator-webhook"), "--zap-log-level=error",
	}
	s.start(t)
	t.Cleanup(func() { s.stop() })
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hooks"}})
	s.await(t)
	t.Run("check 55: its lease", func(t *testing.T) {
		s.get(t, "slinky", "slurm-operator-webhook", &coordinationv1.Lease{})
	})
	t.Run("controllers", s.testControllers)
	t.Run("node sets", s.testNodeSets)
	t.Run("others", s.testOthers)
	t.Run("bindings", s.testBindings)
	t.Run("certificate", s.testCertificate)
	t.Run("away", s.testAway)
}

// redirect leads calls of the Service here, and makes a webhook that doesn't answer count as
// a refusal, as it does with the chart.
func (s *suite) redirect(t *testing.T, port int) {
	t.Helper()
	service := &corev1.Service{}
	s.get(t, "slinky", "slurm-operator-webhook", service)
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	s.update(t, service)
	c := &admissionv1.ValidatingWebhookConfiguration{}
	s.get(t, "", "slurm-operator-webhook", c)
	fail, number := admissionv1.Fail, int32(port)
	for i := range c.Webhooks {
		c.Webhooks[i].ClientConfig.Service.Port, c.Webhooks[i].FailurePolicy = &number, &fail
	}
	s.update(t, c)
	path, ignore, none := "/mutate--v1-binding", admissionv1.Ignore, admissionv1.SideEffectClassNoneOnDryRun
	s.create(t, &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "slurm-operator-webhook"},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "podsbinding.slinky.slurm.net", FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{
				Namespace: "slinky", Name: "slurm-operator-webhook", Path: &path, Port: &number}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"}},
			}},
		}},
	})
}

func (s *suite) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, s.args) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the webhook: %v", err)
		}
	})
}

// await waits until the webhook is asked and answers.
func (s *suite) await(t *testing.T) {
	t.Helper()
	apitest.Eventually(t, time.Minute, "the webhook refuses", func() error {
		err := s.admin.Create(t.Context(), object(t, "NodeSet", "probe", `{"controllerRef":{"name":"c"},"template":{"spec":{"hostname":"Bad_Name"}}}`), client.DryRunAll)
		switch {
		case err == nil:
			return errors.New("a bad host name was taken")
		case !apierrors.IsInvalid(err):
			return fmt.Errorf("a bad host name was answered with %w", err)
		}
		return nil
	})
	s.warnings.Take()
}

func (s *suite) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := s.admin.Create(t.Context(), o); err != nil {
		t.Fatalf("create %s: %v", o.GetName(), err)
	}
}

func (s *suite) update(t *testing.T, o client.Object) {
	t.Helper()
	if err := s.admin.Update(t.Context(), o); err != nil {
		t.Fatalf("update %s: %v", o.GetName(), err)
	}
}

func (s *suite) get(t *testing.T, namespace, name string, out client.Object) {
	t.Helper()
	if err := s.admin.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, out); err != nil {
		t.Fatalf("get %T %s: %v", out, name, err)
	}
}

func object(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion":"slinky.slurm.net/v1beta1","kind":%q,"metadata":{"name":%q,"namespace":"hooks"},"spec":%s}`, kind, name, spec)
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return u
}

// question is one that the API server asks: about a new object, or about a change of it.
type question struct {
	kind, name, spec, patch string
	// refused is in the message of a refusal; the object is taken if it is empty.
	refused string
	// warned is in a warning.
	warned string
}

func (s *suite) ask(t *testing.T, q question) {
	t.Helper()
	u := object(t, q.kind, q.name, q.spec)
	var err error
	if q.patch == "" {
		err = s.admin.Create(t.Context(), u, client.DryRunAll)
	} else {
		s.create(t, u)
		s.warnings.Take()
		err = s.admin.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(q.patch)), client.DryRunAll)
	}
	said := s.warnings.Take()
	switch {
	case q.refused == "" && err != nil:
		t.Errorf("refused: %v", err)
	case q.refused != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), q.refused)):
		t.Errorf("got %v, want a refusal with %q", err, q.refused)
	}
	if !strings.Contains(said, q.warned) || (q.warned == "" && q.refused == "" && said != "") {
		t.Errorf("got the warnings %q, want %q", said, q.warned)
	}
}

const keys = `"slurmKeyRef":{"name":"s","key":"slurm.key"},"jwtKeyRef":{"name":"j","key":"jwt.key"}`

func (s *suite) testControllers(t *testing.T) {
	for name, data := range map[string]map[string]string{"good": {"gres.conf": ""}, "own": {"slurm.conf": ""}, "strange": {"foo.conf": ""}} {
		s.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "hooks", Name: name}, Data: data})
	}
	for name, mode := range map[string]corev1.PersistentVolumeAccessMode{"once": corev1.ReadWriteOnce, "many": corev1.ReadWriteMany} {
		s.create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "hooks", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{mode},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}})
	}
	ha := func(claim string) string {
		return `{` + keys + `,"ha":{"enabled":true},"persistence":{"enabled":true,"existingClaim":"` + claim + `"}}`
	}
	long := strings.Repeat("a", 36)
	cases := map[string]question{
		"check 3: a claim for one":              {spec: ha("once"), refused: "must have ReadWriteMany"},
		"check 3: a claim for many":             {spec: ha("many")},
		"check 3: a claim that comes later":     {spec: ha("later")},
		"check 4: 41 characters by default":     {name: long, spec: `{` + keys + `}`, refused: "has 42 characters and Slurm takes 40"},
		"check 4: a change of the default":      {name: "named", spec: `{` + keys + `}`, patch: `{"spec":{"clusterName":"other"}}`, refused: `can't be changed from "hooks_named"`},
		"check 4: the default, written out":     {name: "explicit", spec: `{` + keys + `}`, patch: `{"spec":{"clusterName":"hooks_explicit"}}`},
		"check 5: a missing ConfigMap":          {spec: `{` + keys + `,"configFileRefs":[{"name":"missing"}]}`, refused: `spec.configFileRefs[0].name: Invalid value: "missing": there is no ConfigMap`},
		"check 5: slurm.conf":                   {spec: `{` + keys + `,"configFileRefs":[{"name":"own"}]}`, refused: "has a file slurm.conf, which the operator writes"},
		"check 5: foo.conf":                     {spec: `{` + keys + `,"configFileRefs":[{"name":"strange"}]}`, warned: "has a file foo.conf"},
		"check 5: gres.conf":                    {spec: `{` + keys + `,"configFileRefs":[{"name":"good"}]}`},
		"scripts that come later":               {spec: `{` + keys + `,"prologScriptRefs":[{"name":"missing"}]}`, warned: `spec.prologScriptRefs[0].name: there is no ConfigMap "missing"`},
		"an accounting that comes later":        {spec: `{` + keys + `,"accountingRef":{"name":"a"}}`, warned: `there is no Accounting "a"`},
		"an option that Slurm doesn't know":     {spec: `{` + keys + `,"extraConf":"KillWiat=3"}`, warned: "did you mean KillWait?"},
		"a last line that goes on":              {spec: `{` + keys + `,"extraConf":"KillWait=3\\"}`, refused: "spec.extraConf"},
		"an option of the operator's":           {spec: `{` + keys + `,"extraConf":"SlurmctldPort=1"}`, warned: "SlurmctldPort is the operator's"},
		"a container of the wrong shape":        {spec: `{` + keys + `,"slurmctld":{"image":1}}`, refused: "spec.slurmctld: Invalid value: \"{\\\"image\\\":1}\": is no Container: image can't be a number"},
		"a container's field that is not known": {spec: `{` + keys + `,"slurmctld":{"imagge":"x"}}`, warned: `spec.slurmctld: unknown field "imagge": it has no effect`},
		"externalIPs":                           {spec: `{` + keys + `,"service":{"spec":{"externalIPs":["1.2.3.4"]}}}`, warned: "spec.service.spec.externalIPs: has no effect"},
		"a claim that is there":                 {name: "claimed", spec: `{` + keys + `,"persistence":{"enabled":true,"resources":{"requests":{"storage":"1Gi"}}}}`, patch: `{"spec":{"persistence":{"resources":{"requests":{"storage":"2Gi"}}}}}`, warned: "the claim exists already"},
		"a name that is too long":               {name: strings.Repeat("b", 42), spec: `{` + keys + `,"clusterName":"c"}`, refused: "leave room for 41"},
	}
	for name, q := range cases {
		t.Run(name, func(t *testing.T) {
			if q.kind = "Controller"; q.name == "" {
				q.name = "c"
			}
			s.ask(t, q)
		})
	}
	t.Run("a ConfigMap that vanished keeps nobody from other changes", func(t *testing.T) {
		s.create(t, object(t, "Controller", "vanished", `{`+keys+`,"configFileRefs":[{"name":"good"}]}`))
		if err := s.admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "hooks", Name: "good"}}); err != nil {
			t.Fatal(err)
		}
		u := object(t, "Controller", "vanished", `{}`)
		if err := s.admin.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"extraConf":"KillWait=3"}}`))); err != nil {
			t.Error(err)
		}
		if said := s.warnings.Take(); !strings.Contains(said, `there is no ConfigMap "good"`) {
			t.Errorf("warnings: %q", said)
		}
	})
}

func (s *suite) testNodeSets(t *testing.T) {
	s.create(t, object(t, "Controller", "cluster", `{`+keys+`}`))
	s.create(t, object(t, "NodeSet", "gpu-one", `{"controllerRef":{"name":"cluster"},"replicas":12,"template":{"spec":{"hostname":"gpu"}}}`))
	s.warnings.Take()
	in := `"controllerRef":{"name":"cluster"}`
	cases := map[string]question{
		"check 6: maxUnavailable 0":          {spec: `{` + in + `,"updateStrategy":{"rollingUpdate":{"maxUnavailable":0}}}`, refused: "at least 1"},
		"check 6: maxUnavailable 0%":         {spec: `{` + in + `,"updateStrategy":{"rollingUpdate":{"maxUnavailable":"0%"}}}`, refused: "from 1% to 100%"},
		"check 6: a window of 30 s":          {spec: `{` + in + `,"updateStrategy":{"scheduledUpdate":{"duration":"30s"}}}`, refused: "at least 1m"},
		"check 6: extraConf":                 {spec: `{` + in + `,"extraConf":"foo"}`, refused: "spec.extraConf"},
		"check 6: a bad host name":           {spec: `{` + in + `,"template":{"spec":{"hostname":"Bad_Name"}}}`, refused: "spec.template.spec.hostname"},
		"check 6: a host name with a dash":   {spec: `{` + in + `,"template":{"spec":{"hostname":"gpu-"}}}`, refused: `"gpu": is the name of NodeSet gpu-one in Slurm`},
		"check 6: another, with a dash":      {spec: `{` + in + `,"template":{"spec":{"hostname":"cpu-"}}}`},
		"check 9: a partition's line break":  {spec: `{` + in + `,"partition":{"enabled":true,"config":"MaxTime=1\nSlurmUser=root"}}`, refused: "spec.partition.config"},
		"a partition without a form":         {spec: `{` + in + `,"partition":{"enabled":true,"config":"MaxTime"}}`, refused: "spec.partition.config"},
		"a host name with a line break":      {spec: `{` + in + `,"template":{"spec":{"hostname":"a\nb"}}}`, refused: "spec.template.spec.hostname"},
		"a node that is another's":           {spec: `{` + in + `,"template":{"spec":{"hostname":"gpu1"}}}`, refused: "would have a Slurm node gpu10"},
		"the same name in another cluster":   {spec: `{"controllerRef":{"name":"other"},"template":{"spec":{"hostname":"gpu"}}}`, warned: `there is no Controller "other"`},
		"the name of slurmctld's pods":       {name: "cluster-controller", spec: `{` + in + `}`, refused: "names of the pods of Controller cluster"},
		"a name that is too long":            {name: strings.Repeat("n", 60), spec: `{` + in + `,"replicas":1000}`, refused: "gives a worker the host name"},
		"too many digits":                    {spec: `{` + in + `,"ordinalPadding":70}`, refused: "gives a worker the host name"},
		"a claim without a name":             {spec: `{` + in + `,"volumeClaimTemplates":[{"spec":{}}]}`, refused: "spec.volumeClaimTemplates[0].metadata.name"},
		"a GPU in a privileged container":    {spec: `{` + in + `,"slurmd":{"resources":{"limits":{"nvidia.com/gpu":1}}}}`, warned: "ConstrainDevices=yes"},
		"a GPU in an unprivileged container": {spec: `{` + in + `,"slurmd":{"resources":{"limits":{"nvidia.com/gpu":1}},"securityContext":{"privileged":false}}}`},
		"growing into another's names": {name: "late", spec: `{` + in + `,"replicas":0,"template":{"spec":{"hostname":"gpu1"}}}`, patch: `{"spec":{"replicas":2}}`,
			refused: "would have a Slurm node gpu10"},
	}
	for name, q := range cases {
		t.Run(name, func(t *testing.T) {
			if q.kind = "NodeSet"; q.name == "" {
				q.name = "n"
			}
			s.ask(t, q)
		})
	}
}

func (s *suite) testOthers(t *testing.T) {
	s.create(t, object(t, "RestApi", "first", `{"controllerRef":{"name":"cluster"}}`))
	cases := map[string]question{
		"a second RestApi":          {kind: "RestApi", spec: `{"controllerRef":{"name":"cluster"}}`, warned: "RestApi first serves this Controller already"},
		"a RestApi without cluster": {kind: "RestApi", spec: `{"controllerRef":{"name":"none"}}`, warned: `there is no Controller "none"`},
		"a login without cluster":   {kind: "LoginSet", spec: `{"controllerRef":{"name":"none"},"sssdConfRef":{"name":"s","key":"k"}}`, warned: `there is no Controller "none"`},
		"a login with a dot":        {kind: "LoginSet", name: "a.b", spec: `{"controllerRef":{"name":"cluster"},"sssdConfRef":{"name":"s","key":"k"}}`, refused: "has a dot"},
		"a token for Bob":           {kind: "Token", spec: `{"username":"Bob",` + keys[strings.Index(keys, `"jwt`):] + `}`, refused: "set spec.secretRef"},
		"a token beside its key":    {kind: "Token", spec: `{"username":"bob","secretRef":{"name":"j","key":"t"},` + keys[strings.Index(keys, `"jwt`):] + `}`, refused: "is the Secret with the signing key"},
		"a token":                   {kind: "Token", spec: `{"username":"bob",` + keys[strings.Index(keys, `"jwt`):] + `}`},
		"no database":               {kind: "Accounting", spec: `{` + keys + `}`, warned: "slurmdbd needs a database"},
		"lines that go on":          {kind: "Accounting", spec: `{` + keys + `,"extraConf":"CommitDelay=1\\"}`, refused: "spec.extraConf"},
	}
	for name, q := range cases {
		t.Run(name, func(t *testing.T) {
			if q.name == "" {
				q.name = "o"
			}
			s.ask(t, q)
		})
	}
}

// testBindings: a worker has the topology of its node as soon as it has the node.
func (s *suite) testBindings(t *testing.T) {
	const annotation = "topology.slinky.slurm.net/spec"
	s.create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kube-1", Annotations: map[string]string{annotation: "topo-switch:s2"}}})
	for name, labels := range map[string]map[string]string{"worker": {"app.kubernetes.io/name": "slurmd"}, "bystander": nil} {
		t.Run(name, func(t *testing.T) {
			no := false
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "hooks", Name: name, Labels: labels},
				Spec: corev1.PodSpec{AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
			s.create(t, pod)
			bind := func(options ...client.SubResourceCreateOption) {
				t.Helper()
				if err := s.admin.SubResource("binding").Create(t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "kube-1"}}, options...); err != nil {
					t.Fatal(err)
				}
				s.get(t, "hooks", name, pod)
			}
			bind(client.DryRunAll)
			if got, has := pod.Annotations[annotation]; has {
				t.Errorf("a dry run annotated the pod: %q", got)
			}
			bind()
			want := map[string]string{"worker": "topo-switch:s2"}[name]
			if got := pod.Annotations[annotation]; got != want || pod.Spec.NodeName != "kube-1" {
				t.Errorf("the pod is on %q with topology %q, want %q", pod.Spec.NodeName, got, want)
			}
		})
	}
}

// testCertificate: it is stable, and whatever is lost of it comes back without a refusal of what is right.
func (s *suite) testCertificate(t *testing.T) {
	secret := &corev1.Secret{}
	s.get(t, "slinky", "slurm-operator-webhook-tls", secret)
	before := string(secret.Data["ca.crt"])
	c := &admissionv1.ValidatingWebhookConfiguration{}
	s.get(t, "", "slurm-operator-webhook", c)
	for _, w := range c.Webhooks {
		if string(w.ClientConfig.CABundle) != before {
			t.Errorf("%s doesn't trust the authority", w.Name)
		}
	}
	t.Run("a restart changes nothing", func(t *testing.T) {
		s.stop()
		s.start(t)
		s.await(t)
		s.get(t, "slinky", "slurm-operator-webhook-tls", secret)
		if string(secret.Data["ca.crt"]) != before {
			t.Error("there is another authority")
		}
	})
	t.Run("a lost Secret comes back", func(t *testing.T) {
		if err := s.admin.Delete(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, time.Minute, "a Secret with both authorities", func() error {
			if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
				return err
			}
			if created := s.admin.Create(t.Context(), object(t, "Token", "probe", `{"username":"u","jwtKeyRef":{"name":"j","key":"k"}}`), client.DryRunAll); created != nil {
				t.Errorf("meanwhile what is right was refused: %v", created)
			}
			if now := string(secret.Data["ca.crt"]); now == before || !strings.HasSuffix(now, before) {
				return errors.New("it has no second authority")
			}
			return nil
		})
	})
}

// testAway: while the webhook is away only new wishes wait.
func (s *suite) testAway(t *testing.T) {
	n := object(t, "NodeSet", "kept", `{"controllerRef":{"name":"cluster"}}`)
	s.create(t, n)
	s.stop()
	for name, patch := range map[string]string{"a label": `{"metadata":{"labels":{"a":"b"}}}`, "a finalizer": `{"metadata":{"finalizers":["example.com/x"]}}`} {
		if err := s.admin.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.admin.SubResource("status").Patch(t.Context(), n, client.RawPatch(types.MergePatchType, []byte(`{"status":{"nodeSetHash":"a","selector":"b"}}`))); err != nil {
		t.Errorf("status: %v", err)
	}
	if err := s.admin.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`))); err == nil {
		t.Error("a change passed without a question")
	}
	if err := s.admin.Delete(t.Context(), n); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := s.admin.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Errorf("the last finalizer: %v", err)
	}
}
