package dracpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"github.com/slinky-hpc/slinky/internal/atomicfile"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// The container runtime adds a variable to the container that names the claim and
// its CPUs; CreateContainer finds it there. The forms are those of the published
// driver, so that either can follow the other on a node.
const (
	cdiKind    = "dra.k8s.io/cpu"
	cdiVersion = "0.8.0"
	cdiPrefix  = "dra.k8s.io-cpu_claim-"
	envPrefix  = "DRA_CPUSET_"
	// memPrefix is for memory, of which the published driver has none.
	memPrefix = "DRA_MEMSET_"
	// memoryNote is the annotation in which the file says how much memory there is of each node.
	memoryNote = cpuset.DriverName + "/memory"
)

func cdiPath(dir string, uid types.UID) string {
	return filepath.Join(dir, cdiPrefix+string(uid)+".json")
}

// cdiName is the device of a whole claim, or of its i-th request. A claim with one request has only the first.
func cdiName(uid types.UID, i int) string {
	if i < 0 {
		return "claim-" + string(uid)
	}
	return fmt.Sprintf("claim-%s_%d", uid, i)
}

func cdiDevice(c *claim, i int) (cdi.Device, error) {
	d := cdi.Device{Name: cdiName(c.UID, i)}
	id := strings.TrimPrefix(d.Name, "claim-")
	if cpus := c.cpusOf(i); !cpus.Empty() {
		d.ContainerEdits.Env = append(d.ContainerEdits.Env, envPrefix+id+"="+cpus.String())
	}
	memory := c.memoryOf(i)
	if len(memory) == 0 {
		return d, nil
	}
	d.ContainerEdits.Env = append(d.ContainerEdits.Env, memPrefix+id+"="+c.nodesOf(i).String())
	note, err := json.Marshal(memory)
	d.Annotations = map[string]string{memoryNote: string(note)}
	return d, err
}

// writeCDI writes a claim's file: a device with all CPUs, and one for each request if there are several. It needn't
// survive a crash of the machine: its claim is in the checkpoint by then, and nobody's after it.
func writeCDI(dir string, c *claim) error {
	spec := cdi.Spec{Version: cdiVersion, Kind: cdiKind}
	which := []int{-1}
	if names := c.requests(); len(names) > 1 {
		for i := range names {
			which = append(which, i)
		}
	}
	for _, i := range which {
		d, err := cdiDevice(c, i)
		if err != nil {
			return err
		}
		spec.Devices = append(spec.Devices, d)
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := atomicfile.Replace(cdiPath(dir, c.UID), data, 0o644, atomicfile.Cached); err != nil {
		return fmt.Errorf("write the CDI file of %s: %w", c, err)
	}
	return nil
}

func removeCDI(dir string, uid types.UID) error {
	if err := os.Remove(cdiPath(dir, uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the CDI file of claim %s: %w", uid, err)
	}
	return nil
}

// readCDI finds the claims that have a file, without their names. A file that
// can't be read is reported and doesn't hide the others.
func readCDI(dir string) (claims []*claim, broken []error) {
	files, err := filepath.Glob(filepath.Join(dir, cdiPrefix+"*.json"))
	if err != nil {
		return nil, []error{err}
	}
	for _, file := range files {
		c, err := readOneCDI(file)
		if err != nil {
			broken = append(broken, fmt.Errorf("read the CDI file %s: %w", file, err))
			continue
		}
		claims = append(claims, c)
	}
	return claims, broken
}

func readOneCDI(file string) (*claim, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var spec cdi.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, err
	}
	uid := types.UID(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), cdiPrefix), ".json"))
	c := &claim{UID: uid}
	for i, d := range spec.Devices {
		if i > 0 && len(spec.Devices) > 1 && d.Name != cdiName(uid, i-1) || i == 0 && d.Name != cdiName(uid, -1) {
			return nil, fmt.Errorf("device %d is %q: another driver's or a damaged file", i, d.Name)
		}
		grants, err := grantsIn(d, strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		if i == 0 && len(spec.Devices) > 1 {
			continue // the sum of those that follow
		}
		c.Grants = append(c.Grants, grants...)
	}
	if len(c.Grants) == 0 {
		return nil, errors.New("it has no device")
	}
	return c, nil
}

// grantsIn is what a device of a file gives.
func grantsIn(d cdi.Device, request string) ([]cpuset.Grant, error) {
	uses, err := usesIn(d.ContainerEdits.Env)
	if err != nil || len(uses) != 1 {
		return nil, fmt.Errorf("device %q has the variables %q: another driver's or a damaged file", d.Name, namesOf(d.ContainerEdits.Env))
	}
	var out []cpuset.Grant
	if !uses[0].cpus.Empty() {
		out = append(out, cpuset.Grant{Request: request, CPUs: uses[0].cpus})
	}
	var memory []cpuset.NodeMemory
	if note := d.Annotations[memoryNote]; note != "" {
		if err := json.Unmarshal([]byte(note), &memory); err != nil {
			return nil, fmt.Errorf("device %q has the annotation %s=%s: %w", d.Name, memoryNote, note, err)
		}
	}
	var nodes cpuset.Set
	for _, m := range memory {
		if m.Node < 0 || m.Node >= cpuset.MaxCPUs {
			return nil, fmt.Errorf("device %q has memory of NUMA node %d, which is none", d.Name, m.Node)
		}
		nodes = nodes.Union(cpuset.Of(m.Node))
		out = append(out, cpuset.Grant{Request: request, Memory: &m})
	}
	if !nodes.Equal(uses[0].nodes) {
		return nil, fmt.Errorf("device %q has memory of the NUMA nodes %s by its variable, and of %s by its annotation", d.Name, uses[0].nodes, nodes)
	}
	return out, nil
}

// namesOf leaves out what the variables say: in a file that isn't ours it may be a secret.
func namesOf(env []string) []string {
	var out []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		out = append(out, name)
	}
	return out
}

// use is what a container has of a claim: one request, or all of them if request is -1.
type use struct {
	claim   types.UID
	request int
	// What the variables say: CPUs, and the NUMA nodes that there is memory of.
	cpus, nodes cpuset.Set
}

// usesIn reads the variables that CDI added. Anybody can write such a variable into
// a pod, so what they say is only believed where the ledger says the same.
func usesIn(env []string) ([]use, error) {
	var out []use
	for _, e := range env {
		prefix := prefixOf(e)
		if prefix == "" {
			continue
		}
		name, value, ok := strings.Cut(e, "=")
		if !ok {
			return nil, fmt.Errorf("the variable %s has no value: the name is the driver's, a pod can't use it", name)
		}
		u := use{request: -1}
		id := strings.TrimPrefix(name, prefix)
		if uid, request, several := strings.Cut(id, "_"); several {
			n, err := strconv.Atoi(request)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("the variable %s names no claim: the name is the driver's, a pod can't use it", name)
			}
			id, u.request = uid, n
		}
		u.claim = types.UID(id)
		what := map[string]string{envPrefix: "CPUs", memPrefix: "NUMA nodes"}[prefix]
		set, err := cpuset.Parse(value)
		if err != nil || set.Empty() || id == "" {
			return nil, fmt.Errorf("the variable %s=%s names no %s: the name is the driver's, a pod can't use it", name, value, what)
		}
		i := slices.IndexFunc(out, func(o use) bool { return o.claim == u.claim && o.request == u.request })
		if i < 0 {
			i, out = len(out), append(out, u)
		}
		if prefix == envPrefix {
			out[i].cpus = set
		} else {
			out[i].nodes = set
		}
	}
	return out, nil
}

// prefixOf is which of the driver's own variables it is, "" if it is none.
func prefixOf(e string) string {
	for _, prefix := range []string{envPrefix, memPrefix} {
		if strings.HasPrefix(e, prefix) {
			return prefix
		}
	}
	return ""
}
