package device

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slinky-hpc/slinky/slurm"
)

// Grant is what Slurm gave a pod on one node.
type Grant struct {
	// Cores are Slurm's abstract numbers.
	Cores []int
	GRES  []slurm.GRESAllocation
	// Taken are the devices of it that are spoken for.
	Taken map[ID]bool
}

// Claim is a ResourceClaim that is written already allocated.
type Claim struct {
	Requests   []resourcev1.DeviceRequest
	Allocation resourcev1.AllocationResult
	// Mappings tell kubelet which container gets which request.
	Mappings []corev1.ContainerExtendedResourceRequest
}

// classOfResource returns the device class that an extended resource names.
func classOfResource(name corev1.ResourceName) (string, bool) {
	return strings.CutPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
}

func resourceOfClass(class string) corev1.ResourceName {
	return corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + class)
}

// Asks tells whether a pod may need a claim: it names claims, or asks for extended
// resources, which a device class may serve.
func Asks(pod *corev1.Pod) bool {
	if len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	return slices.ContainsFunc(containers(pod), func(c container) bool {
		for name, q := range c.Resources.Requests {
			if q.Sign() > 0 && strings.Contains(string(name), "/") && !strings.HasPrefix(string(name), "kubernetes.io/") {
				return true
			}
		}
		return false
	})
}

// Classes returns the device classes that a pod's extended resources name, sorted.
func Classes(pod *corev1.Pod) []string {
	classes := map[string]bool{}
	for _, c := range containers(pod) {
		for name, q := range c.Resources.Requests {
			if class, ok := classOfResource(name); ok && !q.IsZero() {
				classes[class] = true
			}
		}
	}
	return sortedKeys(classes)
}

// CPUsOf returns how many CPUs a pod asks of the CPU driver.
func CPUsOf(pod *corev1.Pod) int {
	sum, brief := 0, 0
	for _, c := range askers(pod, resourceOfClass(DriverCPU)) {
		if c.brief {
			brief = max(brief, c.want)
		} else {
			sum += c.want
		}
	}
	return max(sum, brief)
}

// LacksCPUs tells why a node's slices can't serve a pod that asks for so many CPUs, ""
// if they can. It looks at what the driver publishes, not at who has it.
func LacksCPUs(published []*resourcev1.ResourceSlice, cpus int) string {
	for _, s := range published {
		if s.Spec.Driver != DriverCPU || len(s.Spec.Devices) == 0 {
			continue
		}
		if _, group := s.Spec.Devices[0].Capacity[CapacityCPU]; !group && cpus > resourcev1.AllocationResultsMaxSize {
			return fmt.Sprintf("the CPU driver publishes single CPUs, of which a claim holds %d", resourcev1.AllocationResultsMaxSize)
		}
		return ""
	}
	return "no CPU driver publishes its CPUs"
}

// container is one of a pod's, with how much it asks for of one class.
type container struct {
	*corev1.Container
	// brief is true for an init container, which has ended when others begin.
	brief bool
	want  int
}

func containers(pod *corev1.Pod) []container {
	var out []container
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		out = append(out, container{Container: c, brief: c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways})
	}
	for i := range pod.Spec.Containers {
		out = append(out, container{Container: &pod.Spec.Containers[i]})
	}
	return out
}

// askers returns the containers that ask for a resource.
func askers(pod *corev1.Pod, name corev1.ResourceName) []container {
	var out []container
	for _, c := range containers(pod) {
		q := c.Resources.Requests[name]
		if c.want = int(q.Value()); c.want > 0 {
			out = append(out, c)
		}
	}
	return out
}

// Extended plans the one claim that stands for a pod's extended resources, nil for a
// pod that asks for none: for each container exactly the devices that Slurm's numbers stand for.
func Extended(pod *corev1.Pod, n Node, g Grant, drivers Drivers) (*Claim, error) {
	classes := Classes(pod)
	if len(classes) == 0 {
		return nil, nil
	}
	if n.Unsettled != "" {
		return nil, fmt.Errorf("node %s: %s", n.Name, n.Unsettled)
	}
	b := newBuilder(pod, n, g)
	for _, class := range classes {
		kind, ok := drivers.Kind(class)
		switch {
		case class == DriverCPU:
			continue // once it is known which devices they should be near
		case !ok:
			return nil, fmt.Errorf("pod %s asks for devices of class %s, which no known driver serves", pod.Name, class)
		}
		if err := b.devices(class, kind); err != nil {
			return nil, err
		}
	}
	if slices.Contains(classes, DriverCPU) {
		if err := b.cpus(); err != nil {
			return nil, err
		}
	}
	if count := len(b.out.Allocation.Devices.Results); count > resourcev1.AllocationResultsMaxSize {
		return nil, fmt.Errorf("pod %s needs %d devices of node %s, and Kubernetes allows %d in a claim: "+
			"let the CPU driver publish groups of CPUs instead of single ones", pod.Name, count, n.Name, resourcev1.AllocationResultsMaxSize)
	}
	b.out.Allocation.NodeSelector = nodeSelector(n.Name)
	b.sortMappings()
	return &b.out, nil
}

func nodeSelector(node string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
		Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node},
	}}}}}
}

func sortedKeys[K cmp.Ordered](m map[K]bool) []K {
	var out []K
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// builder puts a claim together.
type builder struct {
	pod    *corev1.Pod
	node   Node
	grant  Grant
	named  map[string]int
	chosen []Device
	out    Claim
}

func newBuilder(pod *corev1.Pod, n Node, g Grant) *builder {
	return &builder{pod: pod, node: n, grant: g, named: map[string]int{}}
}

// request returns the name of a new request: the first of its kind bears the kind's name.
func (b *builder) request(kind string) string {
	i := b.named[kind]
	b.named[kind]++
	if i == 0 {
		return kind
	}
	return kind + "-" + strconv.Itoa(i)
}

func (b *builder) give(c container, name corev1.ResourceName, request string) {
	b.out.Mappings = append(b.out.Mappings, corev1.ContainerExtendedResourceRequest{
		ContainerName: c.Name, ResourceName: string(name), RequestName: request,
	})
}

// sortMappings puts the containers in the pod's order and their resources in the alphabet's.
func (b *builder) sortMappings() {
	at := map[string]int{}
	for i, c := range containers(b.pod) {
		at[c.Name] = i
	}
	slices.SortStableFunc(b.out.Mappings, func(x, y corev1.ContainerExtendedResourceRequest) int {
		return cmp.Or(cmp.Compare(at[x.ContainerName], at[y.ContainerName]), cmp.Compare(x.ResourceName, y.ResourceName))
	})
}

// part is a request with how much of a class it has.
type part struct {
	requests []string
	count    int
}

// divide gives each container that stays requests of its own, and init containers
// the same ones over again, with one more where they need more than the others.
func divide(of []container, take func(n int) (part, error), give func(container, part)) error {
	var parts []part
	for _, c := range of {
		if c.brief {
			continue
		}
		p, err := take(c.want)
		if err != nil {
			return err
		}
		parts = append(parts, p)
		give(c, p)
	}
	for _, c := range of {
		if !c.brief {
			continue
		}
		sum := 0
		for _, p := range parts {
			if sum < c.want {
				sum += p.count
				give(c, p)
			}
		}
		if sum < c.want {
			p, err := take(c.want - sum)
			if err != nil {
				return err
			}
			parts = append(parts, p)
			give(c, p)
		}
	}
	return nil
}

// devices adds the devices of one class.
func (b *builder) devices(driver, kind string) error {
	name := resourceOfClass(driver)
	granted, pool, err := b.granted(driver, kind)
	if err != nil {
		return err
	}
	next := 0
	take := func(n int) (part, error) {
		if next+n > len(granted) {
			return part{}, fmt.Errorf("Slurm gave pod %s %d devices of %s on node %s, and it asks for more", b.pod.Name, len(granted), driver, b.node.Name)
		}
		mine := granted[next : next+n]
		next += n
		b.chosen = append(b.chosen, mine...)
		p := part{requests: []string{b.request(kind)}, count: n}
		b.add(p.requests[0], driver, pool, mine)
		return p, nil
	}
	return divide(askers(b.pod, name), take, func(c container, p part) { b.give(c, name, p.requests[0]) })
}

// add writes a request for exact devices and what it got.
func (b *builder) add(request, driver, pool string, devices []Device) {
	exact := &resourcev1.ExactDeviceRequest{
		DeviceClassName: driver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(len(devices)),
	}
	if s := selector(driver, devices); s != "" {
		exact.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: s}}}
	}
	b.out.Requests = append(b.out.Requests, resourcev1.DeviceRequest{Name: request, Exactly: exact})
	for _, d := range devices {
		b.out.Allocation.Devices.Results = append(b.out.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{
			Request: request, Driver: driver, Pool: pool, Device: d.Name,
		})
	}
}

// selector says in the request which devices are meant, for people who read the claim.
func selector(driver string, devices []Device) string {
	var values []string
	attribute := ""
	for _, d := range devices {
		switch driver {
		case DriverCPU:
			attribute = "cpuID"
			values = append(values, strconv.Itoa(d.index))
		case DriverExample:
			attribute = "index"
			values = append(values, strconv.Itoa(d.index))
		case DriverNVIDIA:
			attribute = "name"
			values = append(values, "'"+d.Name+"'")
		}
	}
	if attribute == "" {
		return ""
	}
	return fmt.Sprintf("device.attributes['%s'].%s in [%s]", driver, attribute, strings.Join(values, ", "))
}

// granted returns the devices of a driver that Slurm's indexes stand for, those that are
// near each other first.
func (b *builder) granted(driver, kind string) ([]Device, string, error) {
	at := slices.IndexFunc(b.node.Resources, func(r Resource) bool { return r.Name == kind && r.Type == driver && len(r.Devices) > 0 })
	if at < 0 {
		return nil, "", fmt.Errorf("driver %s publishes no devices on node %s", driver, b.node.Name)
	}
	r := &b.node.Resources[at]
	out, counted := b.node.given(b.grant, r)
	if counted > 0 {
		return nil, "", fmt.Errorf("Slurm gave pod %s %d of %s on node %s without saying which; ask for the whole node, or use Slurm 26.05 or newer",
			b.pod.Name, counted, driver, b.node.Name)
	}
	out = slices.DeleteFunc(slices.Clone(out), func(d Device) bool { return b.grant.Taken[ID{r.driver, r.pool, d.Name}] })
	order := b.node.together(b.grant)
	rank := func(d Device) int { return slices.Index(order, ID{r.driver, r.pool, d.Name}) }
	slices.SortStableFunc(out, func(x, y Device) int { return rank(x) - rank(y) })
	return out, r.pool, nil
}

// resourceQuantity is an amount of a capacity.
type resourceQuantity = resource.Quantity

func quantity(n int) resourceQuantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }
