package placement_test

import (
	"context"
	"fmt"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/placement"
)

// Get a workload its nodes, and say why where there are none.
func ExamplePlace() {
	slurmctld := &fake{allocate: slurm.ErrBusy} // a rest.Client in earnest
	p, err := placement.Place(context.Background(), slurmctld, placement.Request{
		Job: slurm.JobRequest{
			Name: "train", Partition: "ext", External: true, CPUsPerTask: 4, MemoryPerNode: slurm.NumberOf(8000),
			AdminComment: `{"uid":"0a5c"}`,
		},
		New: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.State, p.Job.ID, p.Reason())
	// Output: Queued 1 Resources
}
