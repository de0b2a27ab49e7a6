package slurm

import "fmt"

// Number is one of Slurm's three-state numbers: not set, infinite, or a value.
// The zero Number is not set.
type Number struct {
	Value    uint64
	Set      bool
	Infinite bool
}

// NumberOf returns the Number that holds v.
func NumberOf(v uint64) Number { return Number{Value: v, Set: true} }

// Infinite is the Number that Slurm prints as UNLIMITED or INFINITE.
func Infinite() Number { return Number{Set: true, Infinite: true} }

// Get returns the value, and whether there is a finite one.
func (n Number) Get() (uint64, bool) { return n.Value, n.Set && !n.Infinite }

func (n Number) String() string {
	switch {
	case !n.Set:
		return "unset"
	case n.Infinite:
		return "infinite"
	}
	return fmt.Sprint(n.Value)
}
