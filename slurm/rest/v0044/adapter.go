// Package v0044 reads and writes slurmrestd's data parser v0.0.44, which first came with Slurm 25.11.
//
// What we use of it is the same as in v0.0.45 but for the answer to a ping; a
// test holds the two OpenAPI documents against each other.
package v0044

import (
	"io"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
	"github.com/slinky-hpc/slinky/slurm/rest/v0045"
)

// Dialect returns this version.
func Dialect() dialect.Dialect {
	d := v0045.Dialect()
	d.Version = "v0.0.44"
	d.Read.Pings = pings
	return d
}

type controllerPing struct {
	Hostname   string `json:"hostname"`
	Mode       string `json:"mode"`
	Responding bool   `json:"responding"`
	Primary    bool   `json:"primary"`
}

func pings(r io.Reader) ([]slurm.Ping, dialect.Reply, error) {
	var out []slurm.Ping
	rep, err := dialect.List(r, "pings", func(p controllerPing) error {
		out = append(out, slurm.Ping{Hostname: p.Hostname, Mode: p.Mode, Responding: p.Responding, Primary: p.Primary})
		return nil
	})
	return out, rep, err
}
