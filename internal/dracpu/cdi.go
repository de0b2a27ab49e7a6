package dracpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	cdi "tags.cncf.io/container-device-interface/specs-go"

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

func cdiDevice(uid types.UID, i int, cpus cpuset.Set) cdi.Device {
	variable := envPrefix + strings.TrimPrefix(cdiName(uid, i), "claim-")
	return cdi.Device{Name: cdiName(uid, i), ContainerEdits: cdi.ContainerEdits{Env: []string{variable + "=" + cpus.String()}}}
}

// writeCDI writes a claim's file: a device with all CPUs, and one for each request if there are several.
func writeCDI(dir string, c *claim) error {
	spec := cdi.Spec{Version: cdiVersion, Kind: cdiKind, Devices: []cdi.Device{cdiDevice(c.UID, -1, c.cpus())}}
	if names := c.requests(); len(names) > 1 {
		for i := range names {
			spec.Devices = append(spec.Devices, cdiDevice(c.UID, i, c.cpusOf(i)))
		}
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := replaceFile(cdiPath(dir, c.UID), data, 0o644); err != nil {
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
		if len(d.ContainerEdits.Env) != 1 {
			return nil, fmt.Errorf("device %q has %d variables, want 1", d.Name, len(d.ContainerEdits.Env))
		}
		_, list, _ := strings.Cut(d.ContainerEdits.Env[0], "=")
		cpus, err := cpuset.Parse(list)
		if err != nil || cpus.Empty() {
			return nil, fmt.Errorf("device %q has no CPUs: %q", d.Name, list)
		}
		if i == 0 && len(spec.Devices) > 1 {
			continue // the sum of those that follow
		}
		c.Grants = append(c.Grants, cpuset.Grant{Request: strconv.Itoa(i), CPUs: cpus})
	}
	if len(c.Grants) == 0 {
		return nil, errors.New("it has no device")
	}
	return c, nil
}

// use is what a container has of a claim: one request, or all of them if request is -1.
type use struct {
	claim   types.UID
	request int
	cpus    cpuset.Set // as the variable says
}

// usesIn reads the variables that CDI added. Anybody can write such a variable into
// a pod, so what they say is only believed where the ledger says the same.
func usesIn(env []string) ([]use, error) {
	var out []use
	for _, e := range env {
		if !strings.HasPrefix(e, envPrefix) {
			continue
		}
		name, value, ok := strings.Cut(e, "=")
		if !ok {
			return nil, fmt.Errorf("the variable %s has no value: the name is the driver's, a pod can't use it", name)
		}
		u := use{request: -1}
		id := strings.TrimPrefix(name, envPrefix)
		if uid, request, several := strings.Cut(id, "_"); several {
			n, err := strconv.Atoi(request)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("the variable %s names no claim: the name is the driver's, a pod can't use it", name)
			}
			id, u.request = uid, n
		}
		u.claim = types.UID(id)
		var err error
		if u.cpus, err = cpuset.Parse(value); err != nil || u.cpus.Empty() || id == "" {
			return nil, fmt.Errorf("the variable %s=%s names no CPUs: the name is the driver's, a pod can't use it", name, value)
		}
		out = append(out, u)
	}
	return out, nil
}
