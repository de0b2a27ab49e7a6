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
	Controllers  []slurm.Ping
	// Shares and Associations are read most seldom; without accounting there are none.
	Shares       []slurm.Share
	Associations []slurm.Association
}

// Options choose what is shown.
type Options struct {
	// NoNodes, NoUsers and NoAccounts leave out the series of each node, user and account.
	NoNodes, NoUsers, NoAccounts bool
	// NoReasons leaves the text of a node's reason out of slurm_node_info.
	NoReasons bool
	// Vpenso adds the names of prometheus-slurm-exporter by V. Penso.
	Vpenso bool
	// Limit is how many values a label may have that people choose, such as users and accounts: the
	// greatest have series of their own, the others one together, "_other". 1,000 by default.
	Limit int
	// NodeLimit is how many nodes have series of their own; 25,000 by default.
	NodeLimit int
}

func (o Options) limit() int {
	if o.Limit > 0 {
		return o.Limit
	}
	return 1000
}

func (o Options) nodeLimit() int {
	if o.NodeLimit > 0 {
		return o.NodeLimit
	}
	return 25_000
}
