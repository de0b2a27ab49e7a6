package exporter

import (
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
)

// vpenso adds the names that dashboards for prometheus-slurm-exporter use, as far as slurmctld's own don't cover them.
func (p *page) vpenso(c *census, o Options) {
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
	p.vpensoOwners(c, o)
	if !o.NoNodes {
		for _, n := range c.list {
			p.vpensoNode(n)
		}
	}
	if c.Diag != nil {
		p.vpensoScheduler(c, o)
	}
}

// vpensoOwners leaves out names of users' jobs: slurmctld has the same with another label, and whoever sums them up
// would count each job twice.
func (p *page) vpensoOwners(c *census, o Options) {
	if !o.NoAccounts {
		for name, t := range c.accounts {
			p.gauge("slurm_account_cpus_running", "CPUs that running jobs have.", float64(t.cpus), "account", name)
		}
		for _, s := range c.Shares {
			if !s.User && s.Parent != "" && s.Factor != nil && p.room("slurm_account_fairshare", o.limit()) {
				p.gauge("slurm_account_fairshare", "The account's fair-share factor; 0 under the fair tree, which gives users one.", *s.Factor, "account", s.Name)
			}
		}
	}
	if !o.NoUsers {
		for name, t := range c.byUserName() {
			p.gauge("slurm_user_cpus_running", "CPUs that running jobs have.", float64(t.cpus), "user", name)
		}
	}
}

func (p *page) vpensoNode(n node) {
	labels := []string{"node", n.Name, "status", strings.ToLower(baseOf(n.Node))}
	p.gauge("slurm_node_cpu_total", "CPUs.", float64(max(n.CPUs, 0)), labels...)
	p.gauge("slurm_node_cpu_alloc", "CPUs that jobs have.", float64(max(n.AllocCPUs, 0)), labels...)
	p.gauge("slurm_node_cpu_idle", "CPUs that a job could have now.", float64(n.usable), labels...)
	p.gauge("slurm_node_cpu_other", "CPUs that no job has or could have now.", float64(max(0, n.CPUs-n.AllocCPUs-int(n.usable))), labels...)
	p.gauge("slurm_node_mem_total", "Memory, in MiB.", float64(n.RealMemory), labels...)
	p.gauge("slurm_node_mem_alloc", "Memory that jobs have, in MiB.", float64(n.AllocMemory), labels...)
}

// vpensoScheduler has times in microseconds, as those dashboards expect.
func (p *page) vpensoScheduler(c *census, o Options) {
	d := c.Diag
	const s = "slurm_scheduler_"
	p.all([]sample{
		{s + "threads", "Calls that slurmctld serves.", float64(d.ServerThreads)},
		{s + "queue_size", "Messages to slurmd that wait.", float64(d.AgentQueue)},
		{s + "dbd_queue_size", "Messages to slurmdbd that wait.", float64(d.DBDAgentQueue)},
		{s + "last_cycle", "Time of the main scheduler's last cycle, in microseconds.", float64(d.Schedule.Last.Microseconds())},
		{s + "mean_cycle", "Time of its cycle on average, in microseconds.", float64(d.Schedule.Mean.Microseconds())},
		{s + "cycle_per_minute", "Its cycles in a minute.", perMinute(d)},
		{s + "backfill_last_cycle", "Time of the last cycle of backfill, in microseconds.", float64(d.Backfill.Last.Microseconds())},
		{s + "backfill_mean_cycle", "Time of its cycle on average, in microseconds.", float64(d.Backfill.Mean.Microseconds())},
		{s + "backfill_depth_mean", "Jobs that it looks at in a cycle, on average.", float64(d.Backfill.Depth.Mean)},
		{s + "backfilled_jobs_since_start_total", "Jobs started by backfill since slurmctld's start.", float64(d.BackfilledJobs)},
		{s + "backfilled_jobs_since_cycle_total", "Jobs started by backfill since slurmctld counts.", float64(d.BackfilledLately)},
		{s + "backfilled_heterogeneous_total", "Components of heterogeneous jobs started by backfill.", float64(d.BackfilledHetJobs)},
	})
	for _, r := range d.CallsByType {
		p.rpc("slurm_rpc_stats", r, "operation", r.Name)
	}
	if o.NoUsers {
		return
	}
	for _, r := range d.CallsByUser {
		p.rpc("slurm_user_rpc_stats", r, "user", r.Name)
	}
}

func (p *page) rpc(prefix string, r slurm.Calls, labels ...string) {
	p.gauge(prefix, "Calls that slurmctld served.", float64(r.Count), labels...)
	p.gauge(prefix+"_total_time", "Time that they took, in microseconds.", float64(r.Time.Microseconds()), labels...)
	p.gauge(prefix+"_avg_time", "Time that one took on average, in microseconds.", float64(r.Time.Microseconds())/float64(max(r.Count, 1)), labels...)
}

func part(some, all uint64) float64 {
	if all == 0 {
		return 0
	}
	return float64(some) / float64(all)
}
