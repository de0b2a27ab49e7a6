// Package devicetest builds what drivers publish of machines, for tests.
package devicetest

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Machine is a Kubernetes node with what its drivers publish.
type Machine struct {
	Node   *corev1.Node
	Slices []*resourcev1.ResourceSlice
}

// New returns a ready external node of partition "ext" that offers CPUs and 64 GiB.
func New(name string, cpus int) *Machine {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"scheduler.slinky.slurm.net/external-node": "", corev1.LabelHostname: name},
		Annotations: map[string]string{"scheduler.slinky.slurm.net/external-node-partitions": "ext"},
	}}
	n.Status = corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Gi"),
			corev1.ResourcePods: resource.MustParse("110"),
		},
	}
	n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	return &Machine{Node: n}
}

// Offers sets what a device plugin or kubelet says that pods may use.
func (m *Machine) Offers(name corev1.ResourceName, quantity string) *Machine {
	m.Node.Status.Allocatable[name] = resource.MustParse(quantity)
	return m
}

// CPU is one CPU of the CPU driver's individual mode.
type CPU struct {
	ID, Core, Socket, NUMA int
	// Type is "standard" where it is empty.
	Type string
}

// Even returns the CPUs of a machine as Linux numbers them: all first threads,
// socket by socket, then all second ones. Core ids repeat on each socket.
func Even(sockets, cores, threads int) []CPU {
	var out []CPU
	for t := range threads {
		for s := range sockets {
			for c := range cores {
				out = append(out, CPU{ID: (t*sockets+s)*cores + c, Core: c, Socket: s, NUMA: s})
			}
		}
	}
	return out
}

// Individual publishes one device for each CPU, 128 in a slice.
func (m *Machine) Individual(cpus []CPU) *Machine {
	var devices []resourcev1.Device
	for i, c := range cpus {
		kind := c.Type
		if kind == "" {
			kind = "standard"
		}
		devices = append(devices, resourcev1.Device{Name: fmt.Sprintf("cpudev%03d", i), Attributes: Attributes(map[string]any{
			"dra.cpu/cpuID": c.ID, "dra.cpu/coreID": c.Core, "dra.cpu/socketID": c.Socket, "dra.cpu/numaNodeID": c.NUMA,
			"resource.kubernetes.io/numaNode": c.NUMA, "dra.cpu/coreType": kind,
		})})
	}
	return m.Publish("dra.cpu", 1, devices...)
}

// Group is one device of the CPU driver's grouped mode.
func Group(name string, cpus int, attributes map[string]any) resourcev1.Device {
	many := true
	return resourcev1.Device{
		Name: name, AllowMultipleAllocations: &many, Attributes: Attributes(attributes),
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"dra.cpu/cpu": {Value: *resource.NewQuantity(int64(cpus), resource.DecimalSI)}},
	}
}

// GPU is a device with the attribute index, on a NUMA node.
func GPU(index, numa int) resourcev1.Device {
	return resourcev1.Device{Name: "gpu-" + strconv.Itoa(index), Attributes: Attributes(map[string]any{
		"index": index, "resource.kubernetes.io/numaNode": numa,
	})}
}

// Attributes makes attributes of ints, strings, bools and lists of strings.
func Attributes(values map[string]any) map[resourcev1.QualifiedName]resourcev1.DeviceAttribute {
	out := map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
	for name, v := range values {
		var a resourcev1.DeviceAttribute
		switch v := v.(type) {
		case int:
			n := int64(v)
			a.IntValue = &n
		case string:
			a.StringValue = &v
		case bool:
			a.BoolValue = &v
		case []string:
			a.StringValues = v
		}
		out[resourcev1.QualifiedName(name)] = a
	}
	return out
}

// sliceSize is how many devices a slice may have.
const sliceSize = 128

// Publish adds the slices of one generation of a driver's pool, which is named like the node.
func (m *Machine) Publish(driver string, generation int64, devices ...resourcev1.Device) *Machine {
	count := (len(devices) + sliceSize - 1) / sliceSize
	for i := range count {
		m.Slices = append(m.Slices, &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%05x-%s-%s-g%d", i, driver, m.Node.Name, generation)},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: driver, NodeName: &m.Node.Name,
				Pool:    resourcev1.ResourcePool{Name: m.Node.Name, Generation: generation, ResourceSliceCount: int64(count)},
				Devices: devices[i*sliceSize : min((i+1)*sliceSize, len(devices))],
			},
		})
	}
	return m
}

// Hybrid returns the CPUs of a machine of fast cores of two threads and slow ones of one.
func Hybrid(fast, slow int) []CPU {
	var out []CPU
	for c := range fast {
		out = append(out, CPU{ID: 2 * c, Core: 4 * c, Type: "p-core"}, CPU{ID: 2*c + 1, Core: 4 * c, Type: "p-core"})
	}
	for c := range slow {
		out = append(out, CPU{ID: 2*fast + c, Core: 4*fast + c, Type: "e-core"})
	}
	return out
}

// Without returns CPUs without some ids, which the driver keeps.
func Without(cpus []CPU, ids ...int) []CPU {
	var out []CPU
next:
	for _, c := range cpus {
		for _, id := range ids {
			if c.ID == id {
				continue next
			}
		}
		out = append(out, c)
	}
	return out
}

// Machines are machines of many kinds, by name. Their names are those of their nodes.
func Machines() map[string]*Machine {
	all := []*Machine{
		New("bare", 16),
		New("smt", 64).Individual(Even(2, 16, 2)),
		New("hybrid", 20).Individual(Hybrid(6, 8)),
		New("big", 384).Individual(Even(2, 96, 2)),
		New("reserved", 64).Individual(Without(Even(2, 16, 2), 0, 32, 33)).Offers(corev1.ResourceCPU, "58"),
		New("gpus", 32).Individual(Even(2, 8, 2)).Publish("gpu.nvidia.com", 3,
			GPU(0, 0), GPU(2, 0), GPU(3, 0), GPU(4, 1), GPU(6, 1), GPU(7, 1)).
			Publish("gpu.nvidia.com", 2, GPU(0, 0), GPU(1, 0)),
		New("plugin", 8).Offers("nvidia.com/gpu", "4"),
		New("numa", 64).Publish("dra.cpu", 1,
			Group("cpudevnuma000", 32, map[string]any{"dra.cpu/socketID": 0, "dra.cpu/numaNodeID": 0, "dra.cpu/smtEnabled": true, "dra.cpu/cpuIDs": "0-15,32-47"}),
			Group("cpudevnuma001", 32, map[string]any{"dra.cpu/socketID": 1, "dra.cpu/numaNodeID": 1, "dra.cpu/smtEnabled": true, "dra.cpu/cpuIDs": "16-31,48-63"})).
			Publish("gpu.example.com", 1, GPU(0, 0), GPU(1, 1)),
		New("whole", 8).Publish("dra.cpu", 1, Group("cpudevmachine", 8, map[string]any{"dra.cpu/smtEnabled": true})),
	}
	out := map[string]*Machine{}
	for _, m := range all {
		out[m.Node.Name] = m
	}
	return out
}
