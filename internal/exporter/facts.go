package exporter

import (
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// Facts are all that is known of one Slurm cluster at a moment.
type Facts struct {
	Now   time.Time
	Jobs  []slurm.Job
	Nodes []slurm.Node
	// Partitions, Reservations, Licenses and Diag are read more seldom. Nil is not known.
	Partitions   []slurm.Partition
	Reservations []slurm.Reservation
	Licenses     []slurm.License
	Diag         *slurm.Diag
}

// Options choose what is shown.
type Options struct {
	// NoNodes, NoUsers and NoAccounts leave out the series of each node, user and account.
	NoNodes, NoUsers, NoAccounts bool
	// NoReasons leaves the text of a node's reason out of slurm_node_info.
	NoReasons bool
	// Vpenso adds the names of prometheus-slurm-exporter by V. Penso.
	Vpenso bool
}
