package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/connect"
	"github.com/slinky-hpc/slinky/internal/bridge/controller"
	"github.com/slinky-hpc/slinky/internal/bridge/metrics"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

const namespace = "default"

// policyConfigMap has the administrator's rules, in namespace slinky.
const policyConfigMap = "slurm-bridge-policy"

// world is a real API server and a real Slurm with the whole bridge between them.
// The test itself plays the kubelet.
type world struct {
	t      *testing.T
	server *apitest.Server
	kube   kubernetes.Interface
	slurm  *rest.Client
	// cluster has the daemons behind slurm.
	cluster *slurmtest.Cluster

	settings                      config.Config
	keyFile                       string
	credentials                   connect.Credentials
	profile                       apitest.SchedulerConfig
	admin, controllers, scheduler *restclient.Config
	cancel                        context.CancelFunc
	// patience is how long to wait for what must come.
	patience time.Duration
	running  sync.WaitGroup
	// What the programs have counted since they started last.
	schedulerCounts, controllerCounts *prometheus.Registry
}

func newWorld(t *testing.T) *world { return newWorldOn(t, slurmtest.Options{}) }

func newWorldOn(t *testing.T, o slurmtest.Options) *world { return newWorldOf(t, o, "v1beta1") }

// newWorldOf returns a world whose API server has PodGroups in one version of scheduling.k8s.io.
func newWorldOf(t *testing.T, o slurmtest.Options, version string, owners ...config.OwnerKind) *world {
	gates := "GenericWorkload=true,DRAWorkloadResourceClaims=true"
	if version == "v1alpha3" {
		gates += ",TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
	}
	server := apitest.Start(t, "feature-gates="+gates, "runtime-config=scheduling.k8s.io/"+version+"=true")
	cluster := slurmtest.Start(t, o)
	w := &world{
		t: t, server: server, kube: kubernetes.NewForConfigOrDie(server.Config),
		slurm: cluster.Client(t, "root"), cluster: cluster, patience: 20 * time.Second,
	}
	for i := range 3 {
		w.addNode(fmt.Sprintf("w%d", i+1))
	}
	w.settings = config.Config{
		SchedulerName: config.DefaultSchedulerName, SlurmRestAPI: cluster.URL, Partition: "ext",
		ManagedNodeTaint: string(corev1.TaintEffectNoExecute), PolicyConfigMap: policyConfigMap, OwnerKinds: owners,
	}
	w.keyFile = cluster.KeyFile
	w.credentials = connect.Credentials{KeyFile: w.keyFile, User: "slurm"}
	// As installed: each program acts as its own account, with the role that is generated for it.
	w.profile = server.InstallBridge(t)
	_, err := w.kube.CoreV1().ConfigMaps("slinky").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: policyConfigMap}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.admin = server.Config
	w.controllers = server.As("slinky", "slurm-bridge-controllers")
	w.scheduler = server.As("slinky", "slurm-bridge-scheduler")
	w.start()
	// The programs end before the servers do: cleanups run in reverse.
	t.Cleanup(w.stop)
	return w
}

// start starts the bridge's two programs in this process.
func (w *world) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	w.cancel = cancel
	w.startControllers(ctx)
	w.startScheduler(ctx)
}

// stop ends them. Nothing that they know outlives it.
func (w *world) stop() {
	w.cancel()
	w.running.Wait()
}

func (w *world) startControllers(ctx context.Context) {
	w.controllerCounts = prometheus.NewRegistry()
	register := metrics.In(w.controllerCounts)
	w.running.Go(func() {
		err := controller.Run(ctx, controller.Options{
			Config: w.settings, Credentials: w.credentials, Kube: w.controllers,
			MetricsAddress: "0", ProbeAddress: "0", NodeWorkers: 4, PodWorkers: 4, Log: klog.Background(),
			Register: register,
		})
		if err != nil {
			w.t.Errorf("controllers: %v", err)
		}
	})
}

// startScheduler runs kube-scheduler as its command does, but so that it can end and start again.
func (w *world) startScheduler(ctx context.Context) {
	w.t.Helper()
	dir := w.t.TempDir()
	bridge, err := yaml.Marshal(w.settings)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(dir, "kubeconfig", kubeconfig(w.t, w.scheduler))
	w.write(dir, "bridge.yaml", string(bridge))
	w.write(dir, "scheduler.yaml", w.profile.With(w.t, filepath.Join(dir, "kubeconfig"), "leaderElect: false"))
	f := flags{config: filepath.Join(dir, "bridge.yaml"), keyFile: w.credentials.KeyFile, user: w.credentials.User, namespace: "slinky", workers: 4, giveBack: time.Second}
	w.schedulerCounts = prometheus.NewRegistry()
	f.register = metrics.In(w.schedulerCounts)
	lead := make(chan struct{})
	o := options.NewOptions()
	o.ConfigFile = filepath.Join(dir, "scheduler.yaml")
	o.SecureServing.BindPort = 0
	cc, sched, err := app.Setup(ctx, o, app.WithPlugin(scheduler.Name, f.plugin(w.getenv, lead)))
	if err != nil {
		w.t.Fatalf("set up the scheduler: %v", err)
	}
	tellWhenLeading(sched, lead)
	w.running.Go(func() {
		cc.EventBroadcaster.StartRecordingToSink(ctx.Done())
		defer cc.EventBroadcaster.Shutdown()
		cc.InformerFactory.Start(ctx.Done())
		cc.DynInformerFactory.Start(ctx.Done())
		cc.InformerFactory.WaitForCacheSync(ctx.Done())
		cc.DynInformerFactory.WaitForCacheSync(ctx.Done())
		if err := sched.WaitForHandlersSync(ctx); err == nil {
			sched.Run(ctx)
		}
	})
}

// getenv is the environment of the scheduler.
func (w *world) getenv(name string) string {
	if name == "SLURM_JWT_FILE" {
		return w.credentials.TokenFile
	}
	return ""
}

// kubeconfig returns a file for what acts as c.
func kubeconfig(t *testing.T, c *restclient.Config) string {
	t.Helper()
	k := clientcmdapi.NewConfig()
	k.Clusters["it"] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData}
	k.AuthInfos["it"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: c.CertData, ClientKeyData: c.KeyData,
		Impersonate: c.Impersonate.UserName, ImpersonateGroups: c.Impersonate.Groups,
	}
	k.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	k.CurrentContext = "it"
	text, err := clientcmd.Write(*k)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (w *world) write(dir, name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// addNode adds a ready node of 4 CPUs that asks to be external in partition ext.
func (w *world) addNode(name string) {
	w.t.Helper()
	ctx, nodes := w.t.Context(), w.kube.CoreV1().Nodes()
	n, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{v1beta1.LabelExternalNode: "", corev1.LabelHostname: name},
		Annotations: map[string]string{v1beta1.AnnotationExternalNodePartitions: "ext"},
	}}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	n.Spec.Taints = nil // nobody else here takes away the taint of a node that is not ready
	if n, err = nodes.Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	n.Status = corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
			corev1.ResourcePods: resource.MustParse("110"),
		},
	}
	n.Status.Capacity = n.Status.Allocatable
	if _, err := nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// pod creates a pod of the bridge. change may be nil.
func (w *world) pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	p, err := w.kube.CoreV1().Pods(namespace).Create(w.t.Context(), newPod(name, change), metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func newPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			SchedulerName: config.DefaultSchedulerName,
			Containers: []corev1.Container{{
				Name: "main", Image: "none",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("64Mi"),
				}},
			}},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

var errWait = errors.New("not yet")

// eventually waits until check returns nil, and fails the test if it doesn't.
func (w *world) eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	apitest.Eventually(t, w.patience, what, check)
}

func (w *world) get(name string) (*corev1.Pod, error) {
	return w.kube.CoreV1().Pods(namespace).Get(w.t.Context(), name, metav1.GetOptions{})
}

// bound waits until a pod has a node and returns the pod.
func (w *world) bound(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	w.eventually(t, "pod "+name+" is bound", func() error {
		var err error
		if pod, err = w.get(name); err == nil && pod.Spec.NodeName == "" {
			err = fmt.Errorf("%w: conditions %+v", errWait, pod.Status.Conditions)
		}
		return err
	})
	return pod
}

// held waits until a pod says that it waits for a reason, and returns the sentence.
func (w *world) held(t *testing.T, name, reason string) string {
	t.Helper()
	var text string
	w.eventually(t, "pod "+name+" waits for "+reason, func() error {
		pod, err := w.get(name)
		if err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == v1beta1.ConditionSlurmScheduled && c.Status == corev1.ConditionFalse && c.Reason == reason {
				text = c.Message
				return nil
			}
		}
		return fmt.Errorf("%w: conditions %+v", errWait, pod.Status.Conditions)
	})
	return text
}

func (w *world) job(t *testing.T, pod *corev1.Pod) slurm.Job {
	t.Helper()
	id, err := strconv.ParseUint(pod.Labels[v1beta1.LabelJobID], 10, 32)
	if err != nil {
		t.Fatalf("pod %s names no job: %v", pod.Name, err)
	}
	j, err := w.slurm.Job(t.Context(), uint32(id))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (w *world) jobEnds(t *testing.T, id uint32) {
	t.Helper()
	w.eventually(t, fmt.Sprintf("job %d ends", id), func() error {
		j, err := w.slurm.Job(t.Context(), id)
		if err == nil && !j.States.JobEnded() {
			err = fmt.Errorf("%w: %s", errWait, j.States)
		}
		return err
	})
}

// kubelet says how a pod is, as its kubelet would.
func (w *world) kubelet(t *testing.T, name string, phase corev1.PodPhase) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"phase":%q}}`, phase)
	_, err := w.kube.CoreV1().Pods(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) remove(t *testing.T, name string) {
	t.Helper()
	if err := w.kube.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
