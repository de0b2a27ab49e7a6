// Package config reads the bridge's configuration file, which all its programs share.
package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/internal/plan/environment"
)

// DefaultPath is where the configuration file is mounted.
const DefaultPath = "/etc/slurm-bridge/config.yaml"

// Config is the configuration file. Keys match whatever their case.
type Config struct {
	// SchedulerName is the spec.schedulerName of the bridge's pods, and the value of its taint.
	SchedulerName string `json:"schedulerName"`
	// SlurmRestAPI is slurmrestd's base URL, as http://slurm-restapi.slurm:6820.
	SlurmRestAPI string `json:"slurmRestApi"`
	// SlurmRestAPIFallbacks are more slurmrestd's of the same Slurm cluster, for when that one gives no answer.
	SlurmRestAPIFallbacks []string `json:"slurmRestApiFallbacks"`
	// SlurmTLS is for slurmrestd's with https.
	SlurmTLS SlurmTLS `json:"slurmTLS"`
	// Partition takes the jobs that name no other.
	Partition string `json:"partition"`
	// MCSLabel is put on every job.
	MCSLabel string `json:"mcsLabel"`
	// ShareNodes lets jobs share nodes where no annotation says otherwise. The default
	// is a whole node for each pod, as published.
	ShareNodes bool `json:"shareNodes"`
	// ManagedNamespaces are adopted by admission; the selector replaces the list where it is set.
	ManagedNamespaces        []string              `json:"managedNamespaces"`
	ManagedNamespaceSelector *metav1.LabelSelector `json:"managedNamespaceSelector"`
	// ManagedNodeTaint is the effect of the taint on managed nodes: NoExecute (the
	// default), NoSchedule, or None for no taint, where nodes also serve other pods.
	ManagedNodeTaint string `json:"managedNodeTaint"`
	// Nodes is how nodes are mirrored.
	Nodes `json:",inline"`
	// Policy tells what a job may ask for where no rule says it: Open, the default and the
	// published behaviour, for whatever the pod says; Restricted for nothing that isn't the
	// administrator's to give: users, accounts, partitions, priorities and the like.
	Policy string `json:"policy"`
	// PolicyConfigMap names a ConfigMap with rules, in the namespace of the bridge.
	PolicyConfigMap string `json:"policyConfigMap"`
	// Environment lists what pods are told by environment variables where they and their
	// namespace don't say it: threads, slurm, peers, ranks, or none. It is "threads,slurm" by default.
	Environment string `json:"environment"`
	// OwnerKinds are further kinds of objects above pods whose job annotations count.
	OwnerKinds []OwnerKind `json:"ownerKinds"`
}

// SlurmTLS names PEM files by their absolute paths.
type SlurmTLS struct {
	// CAFile has the certificates that sign slurmrestd's; the system's by default.
	CAFile string `json:"caFile"`
	// CertFile and KeyFile are what we show slurmrestd. All three files are read for each new connection.
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
}

// Values of Policy.
const (
	PolicyOpen       = "Open"
	PolicyRestricted = "Restricted"
)

// defaultEnvironment is what changes no program that doesn't look for it, and spares
// the others as many threads as the machine has CPUs.
const defaultEnvironment = "threads,slurm"

// TaintNone as ManagedNodeTaint leaves nodes without the bridge's taint.
const TaintNone = "None"

// DefaultSchedulerName is the published scheduler's name.
const DefaultSchedulerName = "slurm-bridge-scheduler"

// Read reads a file of files; name is its path there.
func Read(files fs.FS, name string) (Config, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return Config{}, fmt.Errorf("read the bridge's configuration /%s: %w", name, err)
	}
	c, err := Parse(text)
	if err != nil {
		return Config{}, fmt.Errorf("configuration file /%s: %w", name, err)
	}
	return c, nil
}

// Parse reads the text of a configuration file. Unknown keys are errors.
func Parse(text []byte) (Config, error) {
	c := Config{}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return c, fmt.Errorf("not valid YAML: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(asJSON))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		if key, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return c, fmt.Errorf("unknown key %s; known are %s", key, strings.Join(keys(), ", "))
		}
		return c, err
	}
	if c.SchedulerName == "" {
		c.SchedulerName = DefaultSchedulerName
	}
	if c.ManagedNodeTaint == "" {
		c.ManagedNodeTaint = string(corev1.TaintEffectNoExecute)
	}
	if c.Policy == "" {
		c.Policy = PolicyOpen
	}
	if c.Environment == "" {
		c.Environment = defaultEnvironment
	}
	return c, c.check()
}

// keys are all that the file may have.
func keys() []string {
	var out []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if !f.Anonymous {
			out = append(out, f.Tag.Get("json"))
		}
	}
	return out
}

func (c Config) check() error {
	var errs []error
	errs = append(errs, checkURL("slurmRestApi", c.SlurmRestAPI))
	for i, u := range c.SlurmRestAPIFallbacks {
		errs = append(errs, checkURL(fmt.Sprintf("slurmRestApiFallbacks[%d]", i), u))
	}
	if (c.SlurmTLS.CertFile == "") != (c.SlurmTLS.KeyFile == "") {
		errs = append(errs, errors.New("slurmTLS has one of certFile and keyFile: set both, or none"))
	}
	if c.SlurmTLS != (SlurmTLS{}) && !slices.ContainsFunc(append([]string{c.SlurmRestAPI}, c.SlurmRestAPIFallbacks...), secure) {
		errs = append(errs, errors.New("slurmTLS is set, but no URL of slurmrestd begins with https:, so tokens would go unprotected"))
	}
	switch c.ManagedNodeTaint {
	case string(corev1.TaintEffectNoExecute), string(corev1.TaintEffectNoSchedule), TaintNone:
	default:
		errs = append(errs, fmt.Errorf("managedNodeTaint is %q, not NoExecute, NoSchedule or None", c.ManagedNodeTaint))
	}
	if c.Policy != PolicyOpen && c.Policy != PolicyRestricted {
		errs = append(errs, fmt.Errorf("policy is %q, not %s or %s", c.Policy, PolicyOpen, PolicyRestricted))
	}
	if _, err := environment.Parse(c.Environment); err != nil {
		errs = append(errs, fmt.Errorf("environment: %w", err))
	}
	for i, k := range c.OwnerKinds {
		if err := k.check(); err != nil {
			errs = append(errs, fmt.Errorf("ownerKinds[%d]: %w", i, err))
		}
	}
	errs = append(errs, c.Nodes.check()...)
	if _, err := metav1.LabelSelectorAsSelector(c.ManagedNamespaceSelector); err != nil {
		errs = append(errs, fmt.Errorf("managedNamespaceSelector: %w", err))
	}
	return errors.Join(errs...)
}

func secure(address string) bool { return strings.HasPrefix(strings.ToLower(address), "https:") }

func checkURL(key, value string) error {
	if u, err := url.Parse(value); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("%s is %q, not a URL such as http://slurm-restapi.slurm:6820", key, value)
	}
	return nil
}
