package operator

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// loginSuite is one namespace with a LoginSet in it.
type loginSuite struct {
	*suite
	reconciler reconcile.Reconciler
	// controller keeps the keys that login pods use.
	controller reconcile.Reconciler
}

const loginNamespace = "login-sets"

func (s *suite) testLoginSet(t *testing.T) {
	all, _ := s.reconcilers(t)
	l := loginSuite{s, all["loginset"], all["controller"]}
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: loginNamespace}})
	set := &v1beta1.LoginSet{ObjectMeta: metav1.ObjectMeta{Namespace: loginNamespace, Name: "login"}}
	set.Spec.ControllerRef.Name = "slurm"
	set.Spec.SssdConfRef = corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "sssd"}, Key: "sssd.conf"}
	s.create(t, set)
	l.reconcile(t, "login")
	l.wantDegraded(t, "login", `no key "sssd.conf" in a Secret "sssd"`, `there is no Controller "slurm"`)

	l.secret(t, "sssd", "sssd.conf", "[sssd]\n")
	l.secret(t, "keys", "slurm.key", "old")
	c := &v1beta1.Controller{ObjectMeta: metav1.ObjectMeta{Namespace: loginNamespace, Name: "slurm"}}
	c.Spec.SlurmKeyRef = &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Key: "slurm.key"}
	c.Spec.JwtKeyRef = c.Spec.SlurmKeyRef
	s.create(t, c)
	s.eventually(t, func() bool {
		l.reconcile(t, "login")
		return s.admin.Get(t.Context(), types.NamespacedName{Namespace: loginNamespace, Name: "login"}, &appsv1.Deployment{}) == nil
	}, "the host keys are made, and the Deployment with them")
	t.Run("host keys are of the types that their files say", l.testHostKeys)
	t.Run("check 21: host keys survive reconciles and updates", l.testHostKeysStay)
	t.Run("check 21: an edit of the sssd Secret rolls the Deployment", l.testSssdRolls)
	t.Run("check 22: root's keys take effect without a new pod", l.testRootKeys)
	t.Run("a new slurm.key rolls the Deployment", l.testSlurmKey)
	t.Run("any strategy can follow another", l.testStrategy)
	t.Run("scale", l.testScaleLogin)
	t.Run("a user's host keys are used", l.testOwnHostKeys)
	t.Run("two owners of one name", l.testTwoOwners)
	t.Run("ssh of workers", func(t *testing.T) { l.testWorkerSsh(t, all["nodeset"]) })
	t.Run("a deleted Secret means new host keys", l.testNewHostKeys)
}

func (l loginSuite) reconcile(t *testing.T, name string) {
	t.Helper()
	if _, err := l.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: loginNamespace, Name: "slurm"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: loginNamespace, Name: name}}); err != nil {
		t.Fatalf("reconcile LoginSet %s: %v", name, err)
	}
}

func (l loginSuite) secret(t *testing.T, name, key, content string) {
	t.Helper()
	l.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: loginNamespace, Name: name}, Data: map[string][]byte{key: []byte(content)}})
}

// change edits an object and reconciles the LoginSet "login".
func change[T client.Object](t *testing.T, l loginSuite, name string, o T, edit func(T)) {
	t.Helper()
	l.get(t, loginNamespace, name, o)
	edit(o)
	if err := l.admin.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	l.reconcile(t, "login")
}

func (l loginSuite) template(t *testing.T) corev1.PodTemplateSpec {
	t.Helper()
	d := &appsv1.Deployment{}
	l.get(t, loginNamespace, "login", d)
	return d.Spec.Template
}

func (l loginSuite) wantDegraded(t *testing.T, name string, messages ...string) {
	t.Helper()
	set := &v1beta1.LoginSet{}
	l.get(t, loginNamespace, name, set)
	for _, m := range messages {
		l.wantCondition(t, set.Status.Conditions, v1beta1.ConditionDegraded, "True", m)
	}
}

func (l loginSuite) hostKeys(t *testing.T) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	l.get(t, loginNamespace, "login-ssh-host-keys", s)
	return s
}

func (l loginSuite) testHostKeys(t *testing.T) {
	s := l.hostKeys(t)
	if s.Immutable == nil || !*s.Immutable || len(s.Data) != 6 {
		t.Errorf("the Secret is immutable: %v, and has %d files, want 6", s.Immutable, len(s.Data))
	}
	for file, algorithm := range map[string]string{
		"ssh_host_rsa_key": "ssh-rsa", "ssh_host_ed25519_key": "ssh-ed25519", "ssh_host_ecdsa_key": "ecdsa-sha2-nistp256",
	} {
		signer, err := ssh.ParsePrivateKey(s.Data[file])
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got := signer.PublicKey().Type(); got != algorithm {
			t.Errorf("%s holds a key of type %s, want %s", file, got, algorithm)
		}
		if want := ssh.MarshalAuthorizedKey(signer.PublicKey()); !bytes.Equal(s.Data[file+".pub"], want) {
			t.Errorf("%s.pub is %q, want %q", file, s.Data[file+".pub"], want)
		}
	}
}

func (l loginSuite) testHostKeysStay(t *testing.T) {
	before := l.hostKeys(t)
	template := l.template(t)
	writes := l.writes.Load()
	for range 200 {
		l.reconcile(t, "login")
	}
	if n := l.writes.Load() - writes; n != 0 {
		t.Errorf("200 reconciles made %d writes, the last of them %v", n, l.lastWrite.Load())
	}
	if diff := cmp.Diff(template, l.template(t)); diff != "" {
		t.Errorf("the pod template changed (-before +after):\n%s", diff)
	}
	change(t, l, "login", &v1beta1.LoginSet{}, func(s *v1beta1.LoginSet) {
		s.Spec.ExtraSshdConfig = "MaxSessions 20"
		s.Spec.Login = v1beta1.RawObject{JSON: []byte(`{"image":"other:2"}`)}
	})
	if diff := cmp.Diff(before, l.hostKeys(t)); diff != "" {
		t.Errorf("the host keys changed (-before +after):\n%s", diff)
	}
	if got := l.template(t).Spec.Containers[0].Image; got != "other:2" {
		t.Errorf("the image is %s", got)
	}
}

func (l loginSuite) testSssdRolls(t *testing.T) {
	before := l.template(t).Annotations[v1beta1.AnnotationSssdConfHash]
	change(t, l, "sssd", &corev1.Secret{}, func(s *corev1.Secret) { s.Data["sssd.conf"] = []byte("[sssd]\ndomains = x\n") })
	if after := l.template(t).Annotations[v1beta1.AnnotationSssdConfHash]; after == before || len(after) != 64 {
		t.Errorf("the hash was %q and is %q", before, after)
	}
}

func (l loginSuite) testRootKeys(t *testing.T) {
	before := l.template(t)
	change(t, l, "login", &v1beta1.LoginSet{}, func(s *v1beta1.LoginSet) { s.Spec.RootSshAuthorizedKeys = "ssh-ed25519 AAAA admin" })
	config := &corev1.ConfigMap{}
	l.get(t, loginNamespace, "login-ssh-config", config)
	if !strings.Contains(config.Data["authorized_keys"], "ssh-ed25519 AAAA admin\n") {
		t.Errorf("authorized_keys is %q", config.Data["authorized_keys"])
	}
	if diff := cmp.Diff(before, l.template(t)); diff != "" {
		t.Errorf("the pod template changed (-before +after):\n%s", diff)
	}
	for _, c := range before.Spec.Containers {
		for _, m := range c.VolumeMounts {
			// kubelet brings no changes into a file that is mounted alone.
			if m.Name == "authorized-keys" && m.SubPath != "" {
				t.Errorf("mount %+v", m)
			}
		}
	}
}

func (l loginSuite) testSlurmKey(t *testing.T) {
	before := l.template(t).Annotations[v1beta1.AnnotationSlurmKeyHash]
	change(t, l, "keys", &corev1.Secret{}, func(s *corev1.Secret) { s.Data["slurm.key"] = []byte("new") })
	if after := l.template(t).Annotations[v1beta1.AnnotationSlurmKeyHash]; after == before || len(after) != 64 {
		t.Errorf("the hash was %q and is %q", before, after)
	}
}

func (l loginSuite) testStrategy(t *testing.T) {
	for _, want := range []appsv1.DeploymentStrategyType{appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType} {
		change(t, l, "login", &v1beta1.LoginSet{}, func(s *v1beta1.LoginSet) { s.Spec.Strategy.Type = want })
		d := &appsv1.Deployment{}
		l.get(t, loginNamespace, "login", d)
		if d.Spec.Strategy.Type != want {
			t.Errorf("the strategy is %s, want %s", d.Spec.Strategy.Type, want)
		}
	}
}

func (l loginSuite) testScaleLogin(t *testing.T) {
	set := &v1beta1.LoginSet{}
	l.get(t, loginNamespace, "login", set)
	scale := `{"spec":{"replicas":3}}`
	if err := l.admin.SubResource("scale").Patch(t.Context(), set, client.RawPatch(types.MergePatchType, []byte(scale))); err != nil {
		t.Fatal(err)
	}
	l.reconcile(t, "login")
	d := &appsv1.Deployment{}
	l.get(t, loginNamespace, "login", d)
	if *d.Spec.Replicas != 3 {
		t.Errorf("the Deployment has %d replicas, want 3", *d.Spec.Replicas)
	}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}
	l.status(t, d)
	l.reconcile(t, "login")
	l.get(t, loginNamespace, "login", set)
	if set.Status.Replicas != 3 || set.Status.Selector != "app.kubernetes.io/instance=login,app.kubernetes.io/name=login" {
		t.Errorf("status %+v", set.Status)
	}
	l.wantCondition(t, set.Status.Conditions, v1beta1.ConditionReady, "True", "3 login pods are ready")
	l.wantCondition(t, set.Status.Conditions, v1beta1.ConditionDegraded, "False", "")
}

// another makes a second LoginSet.
func (l loginSuite) another(t *testing.T, name string) {
	t.Helper()
	first := &v1beta1.LoginSet{}
	l.get(t, loginNamespace, "login", first)
	l.create(t, &v1beta1.LoginSet{ObjectMeta: metav1.ObjectMeta{Namespace: loginNamespace, Name: name},
		Spec: v1beta1.LoginSetSpec{ControllerRef: first.Spec.ControllerRef, SssdConfRef: first.Spec.SssdConfRef}})
}

func (l loginSuite) testOwnHostKeys(t *testing.T) {
	l.secret(t, "own-ssh-host-keys", "ssh_host_ed25519_key", "mine")
	l.another(t, "own")
	l.reconcile(t, "own")
	d, s := &appsv1.Deployment{}, &corev1.Secret{}
	l.get(t, loginNamespace, "own", d)
	l.get(t, loginNamespace, "own-ssh-host-keys", s)
	if len(s.OwnerReferences) > 0 || len(s.Data) != 1 {
		t.Errorf("the user's Secret was changed: %v", s)
	}
}

func (l loginSuite) testTwoOwners(t *testing.T) {
	first := &v1beta1.LoginSet{}
	l.get(t, loginNamespace, "login", first)
	yes := true
	l.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: loginNamespace, Name: "second-ssh-host-keys", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindLoginSet, Name: first.Name, UID: first.UID, Controller: &yes,
	}}}, Data: map[string][]byte{"ssh_host_ed25519_key": []byte("x")}})
	l.another(t, "second")
	l.reconcile(t, "second")
	l.wantDegraded(t, "second", "belongs to LoginSet login: rename one of them")
	if err := l.admin.Get(t.Context(), types.NamespacedName{Namespace: loginNamespace, Name: "second"}, &appsv1.Deployment{}); err == nil {
		t.Error("there is a Deployment with somebody else's host keys")
	}
}

// testWorkerSsh has a NodeSet with ssh, and one whose ConfigMap has the name of the LoginSet's.
func (l loginSuite) testWorkerSsh(t *testing.T, workers reconcile.Reconciler) {
	for _, name := range []string{"workers", "login"} {
		n := &v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Namespace: loginNamespace, Name: name}}
		n.Spec.ControllerRef.Name = "slurm"
		n.Spec.Ssh = &v1beta1.NodeSetSsh{Enabled: true, SssdConfRef: corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "sssd"}, Key: "sssd.conf"}}
		l.create(t, n)
	}
	reconcileWorkers := func(name string) error {
		_, err := workers.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: loginNamespace, Name: name}})
		return err
	}
	if err := reconcileWorkers("workers"); err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{}
	l.get(t, loginNamespace, "workers-ssh-config", config)
	if !strings.Contains(config.Data["sshd_config"], "AuthenticationMethods publickey password\n") || !metav1.IsControlledBy(config, mustGet(t, l, "workers", &v1beta1.NodeSet{})) {
		t.Errorf("ConfigMap %+v", config)
	}
	if err := reconcileWorkers("login"); err == nil || !strings.Contains(err.Error(), "login-ssh-config: an object of this name exists and doesn't belong to NodeSet login") {
		t.Errorf("got error %v", err)
	}
	l.get(t, loginNamespace, "login-ssh-config", config)
	if strings.Contains(config.Data["sshd_config"], "AuthenticationMethods") {
		t.Error("the LoginSet's sshd_config was changed")
	}
}

func mustGet[T client.Object](t *testing.T, l loginSuite, name string, o T) T {
	t.Helper()
	l.get(t, loginNamespace, name, o)
	return o
}

func (l loginSuite) testNewHostKeys(t *testing.T) {
	before := l.hostKeys(t)
	if err := l.admin.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	s := &corev1.Secret{}
	l.eventually(t, func() bool {
		l.reconcile(t, "login")
		return l.admin.Get(t.Context(), client.ObjectKeyFromObject(before), s) == nil
	}, "the Secret is made again")
	if bytes.Equal(before.Data["ssh_host_rsa_key"], s.Data["ssh_host_rsa_key"]) {
		t.Error("the new host keys are the old ones")
	}
	d := &appsv1.Deployment{}
	l.get(t, loginNamespace, "login", d)
	hash := d.Spec.Template.Annotations[v1beta1.AnnotationSshHostKeysHash]
	l.reconcile(t, "login")
	if l.template(t).Annotations[v1beta1.AnnotationSshHostKeysHash] == hash {
		t.Error("the pods keep the old host keys")
	}
}
