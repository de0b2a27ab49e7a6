package conf

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Dir is where the daemons of a cluster read their configuration.
const Dir = "/etc/slurm"

// LogDir is where the daemons of a cluster write their logs.
const LogDir = "/var/log/slurm"

// ControllerHost is a host of slurmctld.
type ControllerHost struct {
	Name string
	// Address is where it is reached, if not by Name.
	Address string
}

// Auth is how the daemons trust each other and their clients.
type Auth struct {
	// JwtKeyFile holds the HS256 key of auth/jwt.
	JwtKeyFile string
	// JwksFile holds a JSON Web Key Set; empty for none.
	JwksFile string
}

func (a Auth) altParameters() string {
	s := "jwt_key=" + a.JwtKeyFile
	if a.JwksFile != "" {
		s += ",jwks=" + a.JwksFile
	}
	return s
}

// AccountingHost is where slurmdbd listens.
type AccountingHost struct {
	Host string
	Port int
}

// NodeSet makes the nodes with a feature known by one name.
type NodeSet struct {
	Name string
	// Partition makes a partition of the same name, with these options.
	Partition        bool
	PartitionOptions string
}

// SlurmConf is slurm.conf. All nodes are dynamic: none are listed.
type SlurmConf struct {
	ClusterName string
	// Controllers has the primary controller first.
	Controllers    []ControllerHost
	ControllerPort int
	// ControllerAddress is where clients reach the active controller.
	ControllerAddress string
	Auth              Auth
	// Accounting is nil for a cluster without.
	Accounting *AccountingHost
	Metrics    bool
	// PrologSlurmctld, EpilogSlurmctld, Prolog and Epilog are names of files in Dir.
	PrologSlurmctld, EpilogSlurmctld, Prolog, Epilog []string
	NodeSets                                         []NodeSet
	// Contain gives every job a step for what comes to its nodes from outside, so that ssh sessions can be part of it.
	Contain bool
	// Extra holds a user's own lines.
	Extra string
	// AnyOption lets Extra hold options that Slurm 26.05 doesn't know.
	AnyOption bool

	// External leaves out what the administrator of a slurmctld elsewhere decides.
	External bool
}

// StateDir is where slurmctld keeps its state.
func (c SlurmConf) StateDir() string { return path.Join("/var/spool/slurmctld", c.ClusterName) }

// Text returns the file.
func (c SlurmConf) Text() (string, error) {
	var d Document
	c.general(&d)
	if !c.External {
		d.Section("LOGGING")
		d.Set("SlurmctldLogFile", path.Join(LogDir, "slurmctld.log"))
		d.Set("SlurmSchedLogFile", path.Join(LogDir, "slurmctld.log"))
		d.Set("SlurmdLogFile", path.Join(LogDir, "slurmd.log"))
	}
	shared := c.plugins(&d)
	c.accounting(&d)
	if c.External {
		return d.Text()
	}
	scripts(&d, "SLURMCTLD PROLOG & EPILOG", Dir, script{"PrologSlurmctld", c.PrologSlurmctld}, script{"EpilogSlurmctld", c.EpilogSlurmctld})
	scripts(&d, "PROLOG & EPILOG", "", script{"Prolog", c.Prolog}, script{"Epilog", c.Epilog})
	c.nodeSets(&d)
	if strings.TrimSpace(c.Extra) != "" {
		d.Section("EXTRA CONFIG")
		d.Verbatim("extraConf", c.Extra)
		if !c.AnyOption {
			for _, u := range Unreadables(c.Extra) {
				d.errs = append(d.errs, fmt.Errorf("extraConf, %w", u))
			}
		}
		mergeOptions(&d, shared, c.Extra)
	}
	return d.Text()
}

func (c SlurmConf) general(d *Document) {
	d.Section("GENERAL")
	d.Set("ClusterName", c.ClusterName)
	d.Set("SlurmUser", "slurm")
	for _, h := range c.Controllers {
		d.Set("SlurmctldHost", h.text(d))
	}
	d.Set("SlurmctldPort", strconv.Itoa(c.ControllerPort))
	if c.External {
		return
	}
	d.Set("SlurmctldAddr", c.ControllerAddress)
	d.Set("StateSaveLocation", c.StateDir())
	d.Set("SlurmdUser", "root")
	d.Set("SlurmdPort", "6818")
	d.Set("SlurmdSpoolDir", "/var/spool/slurmd")
	d.Set("MaxNodeCount", "1024")
}

func (h ControllerHost) text(d *Document) string {
	for _, s := range []string{h.Name, h.Address} {
		if strings.ContainsAny(s, "(), \"") {
			d.fail("SlurmctldHost", s, errors.New("is no host name"))
			return ""
		}
	}
	if h.Address == "" {
		return h.Name
	}
	return h.Name + "(" + h.Address + ")"
}

// plugins returns the options that a user's lines may add to.
func (c SlurmConf) plugins(d *Document) map[string]string {
	shared := map[string]string{"AuthAltParameters": c.Auth.altParameters(), "AuthInfo": "use_client_ids"}
	d.Section("PLUGINS & PARAMETERS")
	d.Set("AuthType", "auth/slurm")
	d.Set("CredType", "cred/slurm")
	d.Set("AuthAltTypes", "auth/jwt")
	d.Set("AuthAltParameters", shared["AuthAltParameters"])
	d.Set("AuthInfo", shared["AuthInfo"])
	if c.External {
		return shared
	}
	shared["SlurmctldParameters"] = "enable_configless,reconfig_on_restart"
	d.Set("SlurmctldParameters", shared["SlurmctldParameters"])
	if c.Contain {
		shared["PrologFlags"] = "contain"
		d.Set("PrologFlags", shared["PrologFlags"])
	}
	if c.Metrics {
		d.Set("MetricsType", "metrics/openmetrics")
	}
	return shared
}

func (c SlurmConf) accounting(d *Document) {
	d.Section("ACCOUNTING")
	if c.Accounting == nil {
		d.Set("AccountingStorageType", "accounting_storage/none")
		return
	}
	d.Set("AccountingStorageType", "accounting_storage/slurmdbd")
	d.Set("AccountingStorageHost", c.Accounting.Host)
	d.Set("AccountingStoragePort", strconv.Itoa(c.Accounting.Port))
}

type script struct {
	key   string
	files []string
}

// scripts writes one line per file, sorted; dir is empty where Slurm finds the files by
// their bare name.
func scripts(d *Document, section, dir string, kinds ...script) {
	if !slices.ContainsFunc(kinds, func(k script) bool { return len(k.files) > 0 }) {
		return
	}
	d.Section(section)
	for _, k := range kinds {
		for _, f := range slices.Sorted(slices.Values(k.files)) {
			d.Set(k.key, path.Join(dir, f))
		}
	}
}

func (c SlurmConf) nodeSets(d *Document) {
	if len(c.NodeSets) == 0 {
		return
	}
	d.Section("NODESETS & PARTITIONS")
	for _, n := range c.NodeSets {
		n.write(d)
	}
}

// Validate tells what Slurm couldn't read.
func (n NodeSet) Validate() error {
	var d Document
	n.write(&d)
	_, err := d.Text()
	return err
}

func (n NodeSet) write(d *Document) {
	if strings.ContainsAny(n.Name, " ,") {
		d.fail("NodeSet", n.Name, errors.New("has a blank or a comma"))
		return
	}
	d.Line(Pair{"NodeSet", n.Name}, Pair{"Feature", n.Name})
	if !n.Partition {
		return
	}
	options, err := ParsePairs(n.PartitionOptions)
	if err != nil {
		d.errs = append(d.errs, fmt.Errorf("partition options of NodeSet %s: %w", n.Name, err))
		return
	}
	if slices.ContainsFunc(options, func(p Pair) bool { return strings.EqualFold(p.Key, "PartitionName") }) {
		d.errs = append(d.errs, fmt.Errorf("partition options of NodeSet %s: PartitionName can't be set, the partition has the NodeSet's name", n.Name))
		return
	}
	d.Line(append([]Pair{{"PartitionName", n.Name}, {"Nodes", n.Name}}, options...)...)
}
