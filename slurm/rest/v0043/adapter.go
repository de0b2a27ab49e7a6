// Package v0043 reads and writes slurmrestd's data parser v0.0.43, which first came with Slurm 25.05.
//
// What we use of it is a part of v0.0.44; a test holds the two OpenAPI documents
// against each other. It has no SLUID of a job, doesn't show that a node is
// EXTERNAL, can't add nodes and doesn't tell what a job was allocated.
package v0043

import (
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
	"github.com/slinky-hpc/slinky/slurm/rest/v0044"
)

// Dialect returns this version.
func Dialect() dialect.Dialect {
	d := v0044.Dialect()
	d.Version = "v0.0.43"
	return d
}
