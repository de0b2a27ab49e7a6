package robust

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// quiet waits until no pod and no job is left: no job without its owner, none that waits
// for nobody. Slurm's records then tell how pods ended.
func (w *world) quiet(t *testing.T) {
	t.Helper()
	recorded := 0
	apitest.Eventually(t, 2*time.Minute, "no pod and no job is left", func() error {
		pods, err := w.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		jobs, err := w.slurm.Jobs(t.Context())
		if err != nil {
			return err
		}
		recorded = 0
		for _, j := range jobs {
			if j.Name == nativeName {
				continue // one that a killed slurmctld launched twice is held, for its user to see to
			}
			if !j.States.JobEnded() {
				return fmt.Errorf("%w: job %d is %s: %s", errWait, j.ID, j.States, j.AdminComment)
			}
			if c, ours := workload.ParseComment(j); ours && c.End != nil {
				recorded++
			}
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%w: pod %s is left: %+v", errWait, pods.Items[0].Name, pods.Items[0].ObjectMeta)
		}
		return nil
	})
	t.Logf("%d of Slurm's records tell how pods ended", recorded)
	if recorded == 0 {
		t.Error("no job tells how its pods ended")
	}
}
