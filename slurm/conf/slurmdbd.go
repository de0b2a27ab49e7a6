package conf

import (
	"strconv"
	"strings"
)

// SlurmdbdConf is slurmdbd.conf. It holds a password.
type SlurmdbdConf struct {
	// Host is the host name under which slurmdbd runs.
	Host string
	Port int
	Auth Auth

	StorageHost     string
	StoragePort     int
	StorageDatabase string
	StorageUser     string
	StoragePassword string

	// Extra holds a user's own lines.
	Extra string
}

// Text returns the file.
func (c SlurmdbdConf) Text() (string, error) {
	var d Document
	d.Section("GENERAL")
	d.Set("DbdHost", c.Host)
	d.Set("DbdPort", strconv.Itoa(c.Port))
	d.Set("SlurmUser", "slurm")
	d.Section("PLUGINS & PARAMETERS")
	shared := map[string]string{"AuthAltParameters": c.Auth.altParameters(), "AuthInfo": "use_client_ids"}
	d.Set("AuthType", "auth/slurm")
	d.Set("AuthAltTypes", "auth/jwt")
	d.Set("AuthAltParameters", shared["AuthAltParameters"])
	d.Set("AuthInfo", shared["AuthInfo"])
	d.Section("STORAGE")
	d.Set("StorageType", "accounting_storage/mysql")
	d.Set("StorageHost", c.StorageHost)
	d.Set("StoragePort", strconv.Itoa(c.StoragePort))
	d.Set("StorageUser", c.StorageUser)
	d.Set("StorageLoc", c.StorageDatabase)
	if c.StoragePassword != "" {
		c.password(&d)
	}
	d.Section("LOGGING")
	d.Set("LogFile", "/dev/null")
	if strings.TrimSpace(c.Extra) != "" {
		d.Section("EXTRA CONFIG")
		d.Verbatim("extraConf", c.Extra)
		mergeOptions(&d, shared, c.Extra)
	}
	return d.Text()
}

// password keeps the value out of error texts.
func (c SlurmdbdConf) password(d *Document) {
	v, err := quote(c.StoragePassword)
	if err != nil {
		d.fail("StoragePass", "(hidden)", err)
		return
	}
	d.lines = append(d.lines, "StoragePass="+v)
}
