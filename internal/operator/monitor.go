package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
)

// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=servicemonitors,verbs=get;create;patch;delete

// monitorRetry is how soon a ServiceMonitor is tried again where its kind doesn't exist.
const monitorRetry = 30 * time.Second

// monitor keeps the ServiceMonitor. Its kind may not exist: that is no error, and it is made
// once it does.
func (r *controllerReconciler) monitor(ctx context.Context, c *v1beta1.Controller) (time.Duration, error) {
	want, live := cluster.Monitor(c), cluster.MonitorOf(c)
	name := client.ObjectKeyFromObject(live)
	found, err := ignoreNotFound(r.Get(ctx, name, live))
	switch {
	case meta.IsNoMatchError(err):
		if want == nil {
			return 0, nil
		}
		return monitorRetry, nil
	case err != nil:
		return 0, fmt.Errorf("read ServiceMonitor %s: %w", name, err)
	case want == nil && found && metav1.IsControlledBy(live, c):
		if err := client.IgnoreNotFound(r.Delete(ctx, live)); err != nil {
			return 0, fmt.Errorf("delete ServiceMonitor %s: %w", name, err)
		}
		return 0, nil
	case want == nil:
		return 0, nil
	case found && !metav1.IsControlledBy(live, c):
		return 0, fmt.Errorf("ServiceMonitor %s exists and doesn't belong to Controller %s: delete or rename one of them", name, c.Name)
	}
	content, err := json.Marshal(want.Object)
	if err != nil {
		return 0, fmt.Errorf("write ServiceMonitor %s: %w", name, err)
	}
	// What was asked for stands on the object itself: the kind may have defaults of its own.
	annotations := want.GetAnnotations()
	annotations[v1beta1.AnnotationApplied] = hashOf(content)
	want.SetAnnotations(annotations)
	if found && live.GetAnnotations()[v1beta1.AnnotationApplied] == annotations[v1beta1.AnnotationApplied] {
		return 0, nil
	}
	err = r.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), client.FieldOwner(v1beta1.OperatorFieldOwner), client.ForceOwnership)
	if err != nil {
		return 0, fmt.Errorf("apply ServiceMonitor %s: %w", name, err)
	}
	return 0, nil
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
