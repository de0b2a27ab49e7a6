package exporter

import (
	"slices"
	"strings"
)

// more adds what both families of names lack.
func (p *page) more(c *census, o Options) {
	p.cluster(c)
	for name, part := range c.partitions {
		p.demand(name, part.jobs)
	}
	if !o.NoNodes {
		for _, n := range c.list {
			p.nodeInfo(n, o)
		}
	}
	for key, a := range c.gres {
		p.gauge("slurm_gres", "Generic resources of all nodes.", float64(a.total), "name", key.name, "type", key.kind)
		p.gauge("slurm_gres_alloc", "Generic resources that jobs have.", float64(a.alloc), "name", key.name, "type", key.kind)
	}
	for _, l := range c.Licenses {
		p.gauge("slurm_license_size", "Licences that there are.", float64(l.Total), "license", l.Name)
		p.gauge("slurm_license_used", "Licences in use.", float64(l.Used), "license", l.Name)
		p.gauge("slurm_license_free", "Licences that a job could have now.", float64(l.Free), "license", l.Name)
		p.gauge("slurm_license_reserved", "Licences held for reservations.", float64(l.Reserved), "license", l.Name)
	}
	for _, r := range c.Reservations {
		active := !r.StartTime.After(c.Now) && r.EndTime.After(c.Now)
		p.gauge("slurm_reservation_active", "1 while the reservation holds its nodes.", flag(active), "reservation", r.Name)
		p.gauge("slurm_reservation_nodes", "Nodes of the reservation.", float64(r.NodeCount), "reservation", r.Name)
		p.gauge("slurm_reservation_cores", "Cores of the reservation.", float64(r.CoreCount), "reservation", r.Name)
		p.gauge("slurm_reservation_start_timestamp_seconds", "When the reservation begins.", when(r.StartTime), "reservation", r.Name)
		p.gauge("slurm_reservation_end_timestamp_seconds", "When the reservation ends.", when(r.EndTime), "reservation", r.Name)
	}
	p.calls(c, o)
}

// cluster adds totals in which no node counts twice, however many partitions it is in.
func (p *page) cluster(c *census) {
	n := c.nodes
	p.all([]sample{
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
func (p *page) demand(name string, t *jobs) {
	for reason, n := range t.pending {
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
		p.counter("slurm_rpc_calls_total", "Calls that slurmctld served since it counts.", float64(r.Count), "type", r.Name)
		p.counter("slurm_rpc_seconds_total", "Time that they took.", r.Time.Seconds(), "type", r.Name)
		p.counter("slurm_rpc_dropped_total", "Calls that slurmctld refused for its load.", float64(r.Dropped), "type", r.Name)
	}
	if o.NoUsers {
		return
	}
	for _, r := range c.Diag.CallsByUser {
		u := user{r.UserID, r.Name}
		p.counter("slurm_rpc_user_calls_total", "Calls of the user that slurmctld served since it counts.", float64(r.Count), "userid", u.number(), "username", u.name)
		p.counter("slurm_rpc_user_seconds_total", "Time that they took.", r.Time.Seconds(), "userid", u.number(), "username", u.name)
	}
}

// vpenso adds the names that dashboards for prometheus-slurm-exporter use, as far as slurmctld's own don't cover them.
func (p *page) vpenso(c *census) {
	n := c.nodes
	p.all([]sample{
		{"slurm_cpus_total", "CPUs of all nodes.", float64(n.cpus)},
		{"slurm_cpus_alloc", "CPUs that jobs have.", float64(n.alloc)},
		{"slurm_cpus_idle", "CPUs that a job could have now.", float64(n.usable)},
		{"slurm_cpus_other", "CPUs that no job has or could have now.", float64(n.cpus - min(n.cpus, n.alloc+n.usable))},
		{"slurm_gpus_total", "GPUs of all nodes.", float64(n.gpus)},
		{"slurm_gpus_alloc", "GPUs that jobs have.", float64(n.gpusAlloc)},
		{"slurm_gpus_idle", "GPUs that no job has.", float64(n.gpus - min(n.gpus, n.gpusAlloc))},
		{"slurm_gpus_utilization", "The part of all GPUs that jobs have.", part(n.gpusAlloc, n.gpus)},
		{"slurm_nodes_comp", "Nodes that complete jobs.", float64(n.states["COMPLETING"])},
		{"slurm_nodes_err", "Nodes in error.", float64(n.base["ERROR"])},
		{"slurm_nodes_mix", "Nodes of which jobs have a part.", float64(n.base["MIXED"])},
		{"slurm_queue_pending", "Waiting jobs.", float64(c.jobs.states["PENDING"])},
		{"slurm_queue_pending_dependency", "Jobs that wait for another.", float64(c.jobs.pending["Dependency"])},
		{"slurm_queue_running", "Running jobs.", float64(c.jobs.states["RUNNING"])},
		{"slurm_queue_suspended", "Suspended jobs.", float64(c.jobs.states["SUSPENDED"])},
		{"slurm_queue_cancelled", "Cancelled jobs.", float64(c.jobs.states["CANCELLED"])},
		{"slurm_queue_completing", "Jobs that complete.", float64(c.jobs.states["COMPLETING"])},
		{"slurm_queue_completed", "Completed jobs.", float64(c.jobs.states["COMPLETED"])},
		{"slurm_queue_configuring", "Jobs whose nodes are made ready.", float64(c.jobs.states["CONFIGURING"])},
		{"slurm_queue_failed", "Failed jobs.", float64(c.jobs.states["FAILED"])},
		{"slurm_queue_timeout", "Jobs that reached their time limit.", float64(c.jobs.states["TIMEOUT"])},
		{"slurm_queue_preempted", "Preempted jobs.", float64(c.jobs.states["PREEMPTED"])},
		{"slurm_queue_node_fail", "Jobs that lost a node.", float64(c.jobs.states["NODE_FAIL"])},
	})
	for name, part := range c.partitions {
		n := part.nodes
		p.gauge("slurm_partition_cpus_total", "CPUs.", float64(n.cpus), "partition", name)
		p.gauge("slurm_partition_cpus_allocated", "CPUs that jobs have.", float64(n.alloc), "partition", name)
		p.gauge("slurm_partition_cpus_idle", "CPUs that a job could have now.", float64(n.usable), "partition", name)
		p.gauge("slurm_partition_cpus_other", "CPUs that no job has or could have now.", float64(n.cpus-min(n.cpus, n.alloc+n.usable)), "partition", name)
	}
}

func part(some, all uint64) float64 {
	if all == 0 {
		return 0
	}
	return float64(some) / float64(all)
}
