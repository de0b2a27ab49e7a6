package slurm_test

import (
	"errors"
	"fmt"

	"github.com/slinky-hpc/slinky/slurm"
)

// States are sets: a base state and its flags.
func ExampleStates() {
	node := slurm.StatesOf("mixed", "DRAIN", "EXTERNAL")
	fmt.Println(node, node.Has(slurm.NodeDrain), node.HasAny(slurm.NodeDown, slurm.NodeFail))
	fmt.Println(slurm.StatesOf("COMPLETING", "CANCELLED").JobEnded())
	// Output:
	// DRAIN+EXTERNAL+MIXED true false
	// true
}

// Slurm's numbers have three states; only one of them is a value.
func ExampleNumber() {
	for _, limit := range []slurm.Number{{}, slurm.Infinite(), slurm.NumberOf(60)} {
		minutes, finite := limit.Get()
		fmt.Println(limit, minutes, finite)
	}
	// Output:
	// unset 0 false
	// infinite 0 false
	// 60 60 true
}

// A caller tests for the kind of an error, and shows Slurm's own sentence to people.
func ExampleError() {
	err := fmt.Errorf("start the workload: %w", &slurm.Error{
		Kind: slurm.ErrBusy, Op: `allocate job "train"`, HTTPStatus: 422, Code: 2016, Text: "Requested nodes are busy",
	})
	fmt.Println(errors.Is(err, slurm.ErrBusy), errors.Is(err, slurm.ErrNotFound))
	var e *slurm.Error
	if errors.As(err, &e) {
		fmt.Println(e.Text, e.Code)
	}
	// Output:
	// true false
	// Requested nodes are busy 2016
}
