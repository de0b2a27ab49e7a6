package submit

import (
	"reflect"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/slinky-hpc/slinky/internal/bridge/jobs"
)

// The scheduler starts the informers at once after it made its plugins. One that
// the submitter asked for later would never start, and Run would wait for it for ever.
func TestInformersAreKnownBeforeTheyStart(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	_, err := New(Config{Index: jobs.NewIndex("c"), Sources: Sources{
		Pods: factory.Core().V1().Pods(), Nodes: factory.Core().V1().Nodes(), Jobs: factory.Batch().V1().Jobs(),
		Namespaces: factory.Core().V1().Namespaces(), Claims: factory.Core().V1().PersistentVolumeClaims(),
		Volumes: factory.Core().V1().PersistentVolumes(), Classes: factory.Storage().V1().StorageClasses(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	synced := factory.WaitForCacheSync(t.Context().Done())
	for _, kind := range []any{&corev1.Pod{}, &corev1.Node{}, &corev1.PersistentVolume{}, &batchv1.Job{}} {
		if !synced[reflect.TypeOf(kind)] {
			t.Errorf("the informer of %T was not started", kind)
		}
	}
}
