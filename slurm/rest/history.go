package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

var _ slurm.JobHistory = (*Client)(nil)

// SetDerivedExitCode implements slurm.JobHistory.
func (c *Client) SetDerivedExitCode(ctx context.Context, id uint32, code uint8) error {
	op := call{name: fmt.Sprintf("set the derived exit code of job %d", id), plugin: database, method: http.MethodPost,
		path: "job/" + strconv.FormatUint(uint64(id), 10), single: true, nothing: "the database doesn't have the job"}
	// The same in every version. slurmrestd takes the number for what wait(2) gives: the signal is in its low byte.
	status := map[string]any{"set": true, "number": uint32(code) << 8}
	body := map[string]any{"derived_exit_code": map[string]any{"return_code": status}}
	_, err := c.write(ctx, op, func(dialect.Writer) any { return body })
	return err
}
