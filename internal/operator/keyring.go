package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
	"github.com/slinky-hpc/slinky/internal/plan/keyring"
)

// keyStep is how long a changed key may take to be read by all daemons. The kubelet writes
// the file at once when it sees a pod's annotation change, and the daemon's entrypoint looks
// at it every second.
const keyStep = 30 * time.Second

// keys returns the data of the Secret in which a Controller keeps its keys, nil where it doesn't exist.
func (s *shared) keys(ctx context.Context, c *v1beta1.Controller) (map[string][]byte, error) {
	secret, err := optional(ctx, s.Client, c.Namespace, c.KeysName(), &corev1.Secret{})
	if err != nil || secret == nil {
		return nil, err
	}
	return secret.Data, nil
}

// nextKeys plans the keys of auth/slurm, and puts them into facts.
func (r *controllerReconciler) nextKeys(ctx context.Context, c *v1beta1.Controller, facts *cluster.ControllerFacts) (keyring.Plan, error) {
	secret, err := optional(ctx, r.Client, c.Namespace, c.KeysName(), &corev1.Secret{})
	if err != nil {
		return keyring.Plan{}, err
	}
	in := keyring.Facts{Key: facts.SlurmKey, Now: r.now(), Step: keyStep, External: c.Spec.External}
	if secret != nil {
		facts.Keys = secret.Data // they stay where nothing better is known
		in.Data, facts.KeysChanged = secret.Data, secret.Annotations[v1beta1.AnnotationKeysChanged]
		// Without a time, the change is as old as can be.
		in.Since, _ = time.Parse(time.RFC3339, facts.KeysChanged)
	}
	if in.Behind, err = r.behind(ctx, c, facts); err != nil {
		return keyring.Plan{}, err
	}
	view := r.clusters.View(client.ObjectKeyFromObject(c), slurmAge)
	in.JobsKnown, in.OldestJob = view.Known, view.OldestJob
	plan, err := keyring.Next(in)
	if err != nil {
		return plan, fmt.Errorf("Secret %s/%s: %w", c.Namespace, c.KeysName(), err)
	}
	facts.Keys = plan.Data
	if plan.Changed {
		facts.KeysChanged = in.Now.UTC().Format(time.RFC3339)
	}
	return plan, nil
}

// clusterPods are the workers of a cluster: the pods that keep running while keys change.
func (r *controllerReconciler) clusterPods(ctx context.Context, c *v1beta1.Controller) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := r.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels{
		v1beta1.LabelName: v1beta1.NameSlurmd, v1beta1.LabelCluster: c.Name})
	if err != nil {
		return nil, fmt.Errorf("list workers of Controller %s/%s: %w", c.Namespace, c.Name, err)
	}
	return pods.Items, nil
}

// behind lists the workers that were made before they read their keys from the ring.
func (r *controllerReconciler) behind(ctx context.Context, c *v1beta1.Controller, facts *cluster.ControllerFacts) ([]string, error) {
	if facts.SlurmKey == nil {
		return nil, nil
	}
	pods, err := r.clusterPods(ctx, c)
	var out []string
	for i := range pods {
		if !keyring.Mounts(&pods[i], c) {
			out = append(out, pods[i].Name)
		}
	}
	slices.Sort(out)
	return out, err
}

// spreadKeys lets the kubelets of running workers see a change of the keys at once.
func (r *controllerReconciler) spreadKeys(ctx context.Context, c *v1beta1.Controller, data map[string][]byte) error {
	if data == nil {
		return nil
	}
	pods, err := r.clusterPods(ctx, c)
	if err != nil {
		return err
	}
	want := keyring.ServerHash(data)
	ring, err := keyring.Read(data)
	if err != nil {
		return err
	}
	var errs []error
	for i := range pods {
		p := &pods[i]
		have, told := p.Annotations[v1beta1.AnnotationSlurmKeyHash]
		if have == want || p.DeletionTimestamp != nil || (!told && !ring.Rotating()) {
			continue
		}
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, p.UID, v1beta1.AnnotationSlurmKeyHash, want)
		if err := r.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(patch))); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("annotate pod %s/%s: %w", p.Namespace, p.Name, err))
		}
	}
	return errors.Join(errs...)
}
