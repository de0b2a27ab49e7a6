package dracpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	slinkyv1beta1 "github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// notice is what the node's administrators are told, as a warning event of the node.
type notice struct{ reason, message string }

// notices waits for nobody: the runtime holds its lock while it is asked.
type notices chan notice

func (n notices) add(reason, message string) {
	select {
	case n <- notice{reason, message}:
	default: // There are too many already.
	}
}

// mostNames is how many containers a notice names.
const mostNames = 5

// unconfined tells of containers that the runtime has made without the driver: until now they could run on claims' CPUs.
func unconfined(names []string, claimed cpuset.Set) notice {
	made := "a container"
	if n := len(names); n > 1 {
		made = fmt.Sprintf("%d containers", n)
	}
	if n := len(names); n > mostNames {
		names = append(names[:mostNames:mostNames], fmt.Sprintf("and %d more", n-mostNames))
	}
	return notice{slinkyv1beta1.EventContainersUnconfined,
		fmt.Sprintf("While the CPU driver was away, or too slow, the runtime made %s without it, which could run on the CPUs of claims (%s) until now: %s. "+
			"A runtime that requires the driver (NRI's required plugins) doesn't", made, claimed, strings.Join(names, ", "))}
}

// ownContainer tells whether it is a driver's own, which nobody can make with the driver. All manifests start the image's program so.
func ownContainer(c *api.Container) bool {
	args := c.GetArgs()
	return len(args) > 0 && args[0] == "/dracpu"
}

// tellNode writes notices as events of the node until ctx ends. What can't be told is in the log.
func (d *driver) tellNode(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-d.plugin.notices:
			now := metav1.Now()
			event := &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.%x", d.NodeName, now.UnixNano())},
				InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: d.NodeName, UID: types.UID(d.NodeName)}, // as kubelet's, for kubectl describe
				Reason:         n.reason, Message: n.message, Type: corev1.EventTypeWarning,
				Source: corev1.EventSource{Component: cpuset.DriverName, Host: d.NodeName}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
				ReportingController: cpuset.DriverName, ReportingInstance: d.NodeName,
			}
			asked, cancel := context.WithTimeout(ctx, 10*time.Second)
			_, err := d.Kube.CoreV1().Events(event.Namespace).Create(asked, event, metav1.CreateOptions{})
			cancel()
			if err != nil {
				d.Log.Error(err, "The node's event can't be written", "reason", n.reason, "message", n.message)
			}
		}
	}
}

// compareReserved tells if kubelet keeps fewer CPUs for the system than are reserved here: the scheduler then counts some for pods
// that are nobody's.
func (d *driver) compareReserved(ctx context.Context) {
	d.ledger.mu.Lock()
	reserved := d.ledger.reserved()
	d.ledger.mu.Unlock()
	if reserved.Empty() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	node, err := d.Kube.CoreV1().Nodes().Get(ctx, d.NodeName, metav1.GetOptions{})
	if err != nil {
		d.Log.Error(err, "Whether kubelet reserves CPUs, too, isn't known")
		return
	}
	has, offers := node.Status.Capacity.Cpu(), node.Status.Allocatable.Cpu()
	kept := has.MilliValue() - offers.MilliValue()
	if has.IsZero() || kept >= int64(reserved.Len())*1000 {
		return
	}
	n := notice{slinkyv1beta1.EventReservedCPUsDiffer, fmt.Sprintf("The CPU driver reserves %d CPUs (%s) and kubelet keeps %s: the scheduler counts more CPUs for pods than they can run on. "+
		"Set kubelet's reservedSystemCPUs to %[2]s", reserved.Len(), reserved, milliCPUs(kept))}
	d.Log.Info(n.message)
	d.plugin.notices.add(n.reason, n.message)
}

func milliCPUs(n int64) string {
	if n%1000 == 0 {
		return fmt.Sprint(n / 1000)
	}
	return fmt.Sprintf("%dm", n)
}

// operation marks the lines of one operation in a log: the first says begin, the last end, and each has its id. Where the two aren't
// written, there is no id either.
func operation(log logr.Logger, what string, about ...any) (logr.Logger, func()) {
	if !log.V(4).Enabled() {
		return log, func() {}
	}
	log = log.WithValues("opID", fmt.Sprintf("%08x", rand.Uint32()))
	log.V(4).Info("begin: "+what, about...)
	return log, func() { log.V(4).Info("end: " + what) }
}
