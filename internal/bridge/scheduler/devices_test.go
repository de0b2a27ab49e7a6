package scheduler

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slinky-hpc/slinky/internal/plan/placement"
)

// devices counts calls, and answers with err.
type devices struct {
	writes, releases int
	wait             bool
	err              error
}

func (d *devices) Write(context.Context, *corev1.Pod, Allocation) (bool, error) {
	d.writes++
	return d.wait, d.err
}

func (d *devices) Release(context.Context, *corev1.Pod) error {
	d.releases++
	return nil
}

func devicePod() *corev1.Pod {
	pod := testPod("n1")
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		"deviceclass.resource.kubernetes.io/gpu.example.com": resource.MustParse("1"),
	}}}}
	return pod
}

// Devices are written when the next pod's cycle has begun, not before.
func TestDevicesAreWrittenFromPreBindOn(t *testing.T) {
	ctx, table, d := t.Context(), NewTable(), &devices{}
	p, pod, state := New(table, d), devicePod(), framework.NewCycleState()
	table.Put(pod.UID, Allocation{Grant: placement.Grant{Node: "n1"}})
	p.PreEnqueue(ctx, pod)
	p.PreFilter(ctx, state, pod, nil)
	p.Filter(ctx, state, pod, nodeInfo{name: "n1"})
	p.PostFilter(ctx, state, pod, statuses{})
	p.Reserve(ctx, state, pod, "n1")
	p.PreBindPreFlight(ctx, state, pod, "n1")
	p.Unreserve(ctx, state, pod, "n1")
	if d.writes+d.releases != 0 {
		t.Errorf("%+v before PreBind", d)
	}
	if s := p.PreBind(ctx, state, pod, "n1"); !s.IsSuccess() || d.writes != 1 {
		t.Errorf("PreBind: %v, %+v", s, d)
	}
	if p.Unreserve(ctx, state, pod, "n1"); d.releases != 1 {
		t.Errorf("after a failed binding: %+v", d)
	}
	if s := p.PreBind(ctx, framework.NewCycleState(), testPod("n1"), "n1"); !s.IsSuccess() || d.writes != 1 {
		t.Errorf("a pod without devices: %v, %+v", s, d)
	}
}

func TestDevicesThatMustWait(t *testing.T) {
	table := NewTable()
	pod := devicePod()
	table.Put(pod.UID, Allocation{Grant: placement.Grant{Node: "n1"}})
	for _, c := range []struct {
		wait bool
		want fwk.Code
	}{{true, fwk.Unschedulable}, {false, fwk.Error}} {
		p := New(table, &devices{wait: c.wait, err: errors.New("gpu-1 is taken")})
		if s := p.PreBind(t.Context(), framework.NewCycleState(), pod, "n1"); s.Code() != c.want || s.Message() == "" {
			t.Errorf("wait %v: %v", c.wait, s)
		}
	}
}

func TestDeviceEvents(t *testing.T) {
	table := NewTable()
	p, pod := New(table, &devices{}), devicePod()
	events, err := p.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hints := func() (queued int) {
		for _, e := range events {
			if e.Event.Resource == fwk.TargetPod {
				continue
			}
			h, err := e.QueueingHintFn(klog.Background(), pod, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if h == fwk.Queue {
				queued++
			}
		}
		return queued
	}
	if n := hints(); n != 0 {
		t.Errorf("%d events wake a pod that Slurm has given nothing", n)
	}
	table.Put(pod.UID, Allocation{Grant: placement.Grant{Node: "n1"}})
	if n := hints(); n != 3 {
		t.Errorf("%d events wake a pod that waits for its devices, want 3", n)
	}
}
