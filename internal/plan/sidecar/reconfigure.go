package sidecar

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
)

// The kubelet swaps the folder "..data" when it has written all files, so the link's
// target names a complete state. A state counts as applied once slurmctld has taken it,
// and the state at the start is applied as well: it may have changed while nothing ran.
const reconfigureScript = `trap 'exit 0' TERM INT
applied=""
while :; do
  seen="$(readlink /etc/slurm/..data)"
  if [ "$seen" != "$applied" ]; then
    if scontrol reconfigure; then
      echo "slurmctld has read its configuration: $seen"
      applied="$seen"
    fi
  fi
  sleep 5 &
  wait $!
done
`

// Reconfigure tells slurmctld to read its configuration whenever that changes. Its image
// is slurmctld's where user names none.
func Reconfigure(image string, user v1beta1.ContainerWrapper, mounts ...corev1.VolumeMount) (corev1.Container, error) {
	always := corev1.ContainerRestartPolicyAlways
	c := corev1.Container{
		Name:          "reconfigure",
		Image:         image,
		Command:       []string{"sh", "-c", reconfigureScript},
		RestartPolicy: &always,
		VolumeMounts:  mounts,
	}
	c, err := overlay.Container(c, user)
	if err != nil {
		return c, fmt.Errorf("reconfigure: %w", err)
	}
	return c, nil
}
