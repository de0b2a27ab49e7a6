// Command provisioner makes volumes on the disk of the node that it runs on. It
// is the default StorageClass of the box, one pod on each node.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func main() {
	name := flag.String("name", "box.slinky.slurm.net/disk", "provisioner name that storage classes use")
	node := flag.String("node", "", "name of the node this runs on")
	dir := flag.String("dir", "/var/lib/slinky-volumes", "folder for the volumes, the same inside and on the node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *name, disk{node: *node, dir: *dir}); err != nil {
		fmt.Fprintln(os.Stderr, "provisioner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name string, d disk) error {
	if d.node == "" {
		return fmt.Errorf("--node is empty: set it to the node's name")
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("read the pod's service account: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a Kubernetes client: %w", err)
	}
	// Each node has its own provisioner, so there is nothing to elect.
	controller.NewProvisionController(ctx, client, name, d, controller.LeaderElection(false)).Run(ctx)
	return nil
}

// disk keeps each volume as a folder of one node.
type disk struct{ node, dir string }

const selectedNode = "volume.kubernetes.io/selected-node"

// ShouldProvision takes the claims whose first pod was scheduled to this node.
func (d disk) ShouldProvision(_ context.Context, claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[selectedNode] == d.node
}

// ShouldDelete takes the volumes that lie on this node.
func (d disk) ShouldDelete(_ context.Context, v *corev1.PersistentVolume) bool {
	a := v.Spec.NodeAffinity
	return a != nil && a.Required != nil && len(a.Required.NodeSelectorTerms) == 1 &&
		len(a.Required.NodeSelectorTerms[0].MatchExpressions) == 1 &&
		len(a.Required.NodeSelectorTerms[0].MatchExpressions[0].Values) == 1 &&
		a.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] == d.node
}

func (d disk) Provision(_ context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	path := filepath.Join(d.dir, o.PVName)
	// Any user of a pod may write; the pod's fsGroup does not reach host paths.
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("make volume folder: %w", err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("open volume folder to all users: %w", err)
	}
	folder := corev1.HostPathDirectory
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: o.PVC.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &folder},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{d.node},
				}},
			}}}},
		},
	}, controller.ProvisioningFinished, nil
}

func (d disk) Delete(_ context.Context, v *corev1.PersistentVolume) error {
	if err := os.RemoveAll(filepath.Join(d.dir, v.Name)); err != nil {
		return fmt.Errorf("remove folder of volume %s: %w", v.Name, err)
	}
	return nil
}
