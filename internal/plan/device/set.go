package device

import "github.com/slinky-hpc/slinky/slurm/tres"

// ParseSet reads a set of CPUs as Linux writes it, as "0-3,8": ascending, without repeats.
func ParseSet(s string) ([]int, error) { return tres.ParseIndexes(s) }

// FormatSet writes a set of CPUs as Linux does.
func FormatSet(ids []int) string { return tres.FormatIndexes(ids) }
