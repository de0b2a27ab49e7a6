// Package sidecar builds the containers that stand beside a Slurm daemon in its pod.
package sidecar

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
	"github.com/slinky-hpc/slinky/slurm/conf"
)

// VolumeLog is the volume on conf.LogDir through which a daemon's log reaches its sidecar.
const VolumeLog = "slurm-logfile"

// The daemon writes its log to a FIFO. The script holds both ends of it open: the daemon
// never waits for a reader, also while this container is being started again.
const logScript = `[ -p "$SOCKET" ] || { rm -f "$SOCKET"; mkfifo -m 600 "$SOCKET"; }
exec 3<>"$SOCKET"
cat <&3 &
trap 'kill $!; exit 0' TERM INT
wait $!
`

// Logfile prints the log that the daemon writes to file, a name within conf.LogDir. Its
// image is the daemon's own where user names none.
func Logfile(file, image string, user v1beta1.ContainerWrapper) (corev1.Container, error) {
	always := corev1.ContainerRestartPolicyAlways
	c := corev1.Container{
		Name:          "logfile",
		Image:         image,
		Command:       []string{"sh", "-c", logScript},
		Env:           []corev1.EnvVar{{Name: "SOCKET", Value: conf.LogDir + "/" + file}},
		RestartPolicy: &always,
		VolumeMounts:  []corev1.VolumeMount{{Name: VolumeLog, MountPath: conf.LogDir}},
	}
	c, err := overlay.Container(c, user)
	if err != nil {
		return c, fmt.Errorf("logfile: %w", err)
	}
	return c, nil
}
