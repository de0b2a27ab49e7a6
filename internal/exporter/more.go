package exporter

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
)

// more adds what both families of names lack.
func (p *page) more(c *census, o Options) {
	p.cluster(c)
	p.nodeSets(c)
	p.shares(c, o)
	p.limits(c, o)
	for name, part := range c.partitions {
		p.demand(name, part.jobs, o)
	}
	if !o.NoNodes {
		for _, n := range c.list {
			p.nodeInfo(n, o)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.gres), func(a, b gres) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind)) }) {
		if a := c.gres[key]; p.room("gres", o.limit()) {
			p.gauge("slurm_gres", "Generic resources of all nodes.", float64(a.total), "name", key.name, "type", key.kind)
			p.gauge("slurm_gres_alloc", "Generic resources that jobs have.", float64(a.alloc), "name", key.name, "type", key.kind)
		}
	}
	p.licences(c, o)
	p.reservations(c, o)
	p.calls(c, o)
	for _, l := range c.Controllers {
		p.gauge("slurm_controller_responding", "1 while the slurmctld answers.", flag(l.Responding), "controller", l.Hostname, "mode", l.Mode)
	}
	maps.Copy(p.cut, c.bounds.cut)
	for label, n := range p.cut {
		p.gauge("slurm_exporter_cut_values", "Values of a label that have no series of their own, for the limits of the exporter.", float64(n), "label", label)
	}
}

func (p *page) licences(c *census, o Options) {
	for _, l := range first(c.Licenses, func(l slurm.License) string { return l.Name }, o.limit()) {
		p.gauge("slurm_license_size", "Licences that there are.", float64(l.Total), "license", l.Name)
		p.gauge("slurm_license_used", "Licences in use.", float64(l.Used), "license", l.Name)
		p.gauge("slurm_license_free", "Licences that a job could have now.", float64(l.Free), "license", l.Name)
		p.gauge("slurm_license_reserved", "Licences held for reservations.", float64(l.Reserved), "license", l.Name)
	}
	p.cut["license"] = max(0, len(c.Licenses)-o.limit())
}

func (p *page) reservations(c *census, o Options) {
	p.cut["reservation"] = max(0, len(c.Reservations)-o.limit())
	for _, r := range first(c.Reservations, func(r slurm.Reservation) string { return r.Name }, o.limit()) {
		active := !r.StartTime.After(c.Now) && r.EndTime.After(c.Now)
		p.gauge("slurm_reservation_active", "1 while the reservation holds its nodes.", flag(active), "reservation", r.Name)
		p.gauge("slurm_reservation_nodes", "Nodes of the reservation.", float64(r.NodeCount), "reservation", r.Name)
		p.gauge("slurm_reservation_cores", "Cores of the reservation.", float64(r.CoreCount), "reservation", r.Name)
		p.gauge("slurm_reservation_start_timestamp_seconds", "When the reservation begins.", when(r.StartTime), "reservation", r.Name)
		p.gauge("slurm_reservation_end_timestamp_seconds", "When the reservation ends.", when(r.EndTime), "reservation", r.Name)
	}
}

// cluster adds totals in which no node counts twice, however many partitions it is in.
func (p *page) cluster(c *census) {
	n := c.nodes
	p.all([]sample{
		{"slurm_jobs_external_running", "Running external jobs, as the bridge's are.", float64(c.jobs.external["RUNNING"])},
		{"slurm_jobs_external_pending", "Waiting external jobs.", float64(c.jobs.external["PENDING"])},
		{"slurm_cluster_nodes_away", "Nodes that are down or don't respond.", float64(n.away)},
		{"slurm_cluster_nodes_external_noresp", "External nodes that don't respond: nobody brings them back until slurmctld starts anew.", float64(n.lostExternal)},
		{"slurm_cluster_cpus", "CPUs of all nodes.", float64(n.cpus)},
		{"slurm_cluster_cpus_effective", "CPUs that jobs may have.", float64(n.effective)},
		{"slurm_cluster_cpus_alloc", "CPUs that jobs have.", float64(n.alloc)},
		{"slurm_cluster_cpus_idle", "CPUs that a job could have now.", float64(n.usable)},
		{"slurm_cluster_memory_bytes", "Memory of all nodes, in bytes.", inBytes(n.memory)},
		{"slurm_cluster_memory_effective_bytes", "Memory that jobs may have, in bytes.", inBytes(n.memoryEffective)},
		{"slurm_cluster_memory_alloc_bytes", "Memory that jobs have, in bytes.", inBytes(n.memoryAlloc)},
		{"slurm_cluster_gpus", "GPUs of all nodes.", float64(n.gpus)},
		{"slurm_cluster_gpus_alloc", "GPUs that jobs have.", float64(n.gpusAlloc)},
	})
}

// demand adds what waiting jobs ask for: for a person by Slurm's reason, for an autoscaler by
// what would help. Each class is always there.
func (p *page) demand(name string, t *jobs, o Options) {
	for reason, n := range atMost(t.pending, o.limit()) {
		p.gauge("slurm_partition_pending_jobs", "Waiting jobs, by Slurm's reason.", float64(n), "partition", name, "reason", reason)
	}
	for _, class := range classes {
		a := t.asked[class]
		if a == nil {
			a = &ask{}
		}
		p.gauge("slurm_partition_wanted_jobs", "Waiting jobs, by what they wait for.", float64(a.jobs), "partition", name, "class", class)
		p.gauge("slurm_partition_wanted_nodes", "Nodes that waiting jobs ask for.", float64(a.nodes), "partition", name, "class", class)
		p.gauge("slurm_partition_wanted_cpus", "CPUs that waiting jobs ask for.", float64(a.cpus), "partition", name, "class", class)
		p.gauge("slurm_partition_wanted_gpus", "GPUs that waiting jobs ask for.", float64(a.gpus), "partition", name, "class", class)
	}
}

func (p *page) nodeInfo(n node, o Options) {
	reason := n.Reason
	if o.NoReasons {
		reason = ""
	}
	partitions := slices.Sorted(slices.Values(n.Partitions))
	p.gauge("slurm_node_info", "1 for each node, with its state and flags.", 1, "node", n.Name,
		"state", strings.ToLower(baseOf(n.Node)), "flags", flags(n.Node), "partitions", strings.Join(partitions, ","), "reason", text(reason, 120))
	p.gauge("slurm_node_last_busy_timestamp_seconds", "When a job last used the node.", when(n.LastBusy), "node", n.Name)
	for key, a := range n.gres {
		p.gauge("slurm_node_gres", "Generic resources of the node.", float64(a.total), "node", n.Name, "name", key.name, "type", key.kind)
		p.gauge("slurm_node_gres_alloc", "Generic resources that jobs have.", float64(a.alloc), "node", n.Name, "name", key.name, "type", key.kind)
	}
}

// calls adds slurmctld's load, by type and user of calls.
func (p *page) calls(c *census, o Options) {
	if c.Diag == nil {
		return
	}
	for _, r := range c.Diag.CallsByType {
		if !p.room("rpc_type", o.limit()) {
			continue
		}
		p.counter("slurm_rpc_calls_total", "Calls that slurmctld served since it counts.", float64(r.Count), "type", r.Name)
		p.counter("slurm_rpc_seconds_total", "Time that they took.", r.Time.Seconds(), "type", r.Name)
		p.counter("slurm_rpc_dropped_total", "Calls that slurmctld refused for its load.", float64(r.Dropped), "type", r.Name)
	}
	if o.NoUsers {
		return
	}
	for _, r := range c.Diag.CallsByUser {
		if !p.room("rpc_user", o.limit()) {
			continue
		}
		u := user{r.UserID, r.Name}
		p.counter("slurm_rpc_user_calls_total", "Calls of the user that slurmctld served since it counts.", float64(r.Count), "userid", u.number(), "username", u.name)
		p.counter("slurm_rpc_user_seconds_total", "Time that they took.", r.Time.Seconds(), "userid", u.number(), "username", u.name)
	}
}
