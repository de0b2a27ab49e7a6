package robust

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// quiet waits until no pod and no job is left: no job without its owner, none that waits for nobody.
func (w *world) quiet(t *testing.T) {
	t.Helper()
	apitest.Eventually(t, time.Minute, "no pod and no job is left", func() error {
		pods, err := w.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		jobs, err := w.slurm.Jobs(t.Context())
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if !j.States.JobEnded() {
				return fmt.Errorf("%w: job %d is %s: %s", errWait, j.ID, j.States, j.AdminComment)
			}
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%w: pod %s is left: %+v", errWait, pods.Items[0].Name, pods.Items[0].ObjectMeta)
		}
		return nil
	})
}

// checkJobs compares Slurm's records with what the users saw: each job is that of a
// pod that somebody made, and no pod had two jobs that ran at the same time.
func (w *world) checkJobs(t *testing.T, u *users) {
	t.Helper()
	jobs, err := w.slurm.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	ran := map[types.UID][]slurm.Job{}
	recorded := 0
	for _, j := range jobs {
		c, ok := workload.ParseComment(j)
		if !ok || c.Mark == nil {
			t.Errorf("job %d is nobody's: %q", j.ID, j.AdminComment)
			continue
		}
		for _, uid := range c.Mark.Pods {
			if u.created[uid] == "" {
				t.Errorf("job %d is for a pod that nobody made: %s", j.ID, j.AdminComment)
			}
			if j.Nodes != "" {
				ran[uid] = append(ran[uid], j)
			}
		}
		if c.End != nil {
			recorded++
		}
	}
	for uid, list := range ran {
		for i, a := range list {
			for _, b := range list[:i] {
				if a.StartTime.Before(b.EndTime) && b.StartTime.Before(a.EndTime) {
					t.Errorf("pod %s had jobs %d and %d at the same time", u.created[uid], a.ID, b.ID)
				}
			}
		}
	}
	t.Logf("Slurm has %d jobs that ran, %d of them with how their pods ended", len(ran), recorded)
	if recorded == 0 {
		t.Error("no job tells how its pods ended")
	}
}
