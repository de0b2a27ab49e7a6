package exporter

import "github.com/slinky-hpc/slinky/slurm"

var nativeJobs = []word{
	{"bootfail", slurm.JobBootFail}, {"cancelled", slurm.JobCancelled}, {"completed", slurm.JobCompleted}, {"completing", slurm.JobCompleting},
	{"configuring", slurm.JobConfiguring}, {"deadline", slurm.JobDeadline}, {"expediting", "EXPEDITING"}, {"failed", slurm.JobFailed},
	{"fed_requeued", "REQUEUE_FED"}, {"node_failed", slurm.JobNodeFail}, {"outofmemory", slurm.JobOutOfMemory}, {"pending", slurm.JobPending},
	{"powerup_node", "POWER_UP_NODE"}, {"preempted", slurm.JobPreempted}, {"requeued", "REQUEUED"}, {"resizing", "RESIZING"},
	{"revoked", "REVOKED"}, {"running", slurm.JobRunning}, {"signaling", "SIGNALING"}, {"stageout", "STAGE_OUT"},
	{"suspended", slurm.JobSuspended}, {"timeout", slurm.JobTimeout},
}

// nativeNodes are those of which cluster and partitions have the same name.
var nativeNodes = []word{
	{"blocked", "BLOCKED"}, {"cloud", slurm.NodeCloud}, {"drain", slurm.NodeDrain}, {"dyn_future", "DYNAMIC_FUTURE"},
	{"dyn_normal", slurm.NodeDynamicNorm}, {"external", slurm.NodeExternal}, {"fail", slurm.NodeFail}, {"invalid_reg", slurm.NodeInvalidReg},
	{"maint", slurm.NodeMaintenance}, {"planned", "PLANNED"}, {"power_down", "POWER_DOWN"}, {"power_up", "POWER_UP"},
	{"powered_down", "POWERED_DOWN"}, {"powering_up", "POWERING_UP"}, {"reboot_issued", "REBOOT_ISSUED"}, {"resv", slurm.NodeReserved},
}

var nativeBases = []word{
	{"alloc", slurm.NodeAllocated}, {"down", slurm.NodeDown}, {"future", slurm.NodeFuture}, {"idle", slurm.NodeIdle},
	{"mixed", slurm.NodeMixed}, {"unknown", slurm.NodeUnknown},
}

// native adds the metrics of slurmctld's own endpoint.
func (p *page) native(c *census, o Options) {
	p.nativeJobs("slurm_jobs", c.jobs)
	p.nodesAlloc("slurm_jobs", c.jobs)
	p.nativeNodes("slurm_nodes", c.nodes)
	p.states("slurm_nodes", c.nodes, []word{{"completing", slurm.NodeCompleting}, {"noresp", slurm.NodeNotResponding}, {"reboot_req", "REBOOT_REQUESTED"}})
	p.gauge("slurm_partitions", "Partitions that Slurm knows.", float64(len(c.partitions)))
	for name, part := range c.partitions {
		p.nativePartition(part, "partition", name)
	}
	if !o.NoNodes {
		for _, n := range c.list {
			p.nativeNode(n)
		}
	}
	if !o.NoAccounts {
		for name, t := range c.accounts {
			p.nativeJobs("slurm_account_jobs", t, "account", name)
			p.nodesAlloc("slurm_account_jobs", t, "account", name)
		}
	}
	if !o.NoUsers {
		for name, t := range c.byUserName() {
			p.nativeJobs("slurm_user_jobs", t, "username", name)
			p.nodesAlloc("slurm_user_jobs", t, "username", name)
		}
	}
	if c.Diag != nil {
		p.nativeScheduler(c.Diag)
	}
}

func (p *page) nativeJobs(prefix string, t *jobs, labels ...string) {
	p.gauge(prefix, "Jobs that Slurm knows.", float64(t.total), labels...)
	for _, w := range nativeJobs {
		p.gauge(prefix+"_"+w.name, "Jobs in state "+w.state+".", float64(t.states[w.state]), labels...)
	}
	p.gauge(prefix+"_hold", "Waiting jobs that somebody holds.", float64(t.held), labels...)
	p.gauge(prefix+"_started", "Jobs that have started, ended ones with them.", float64(t.started), labels...)
	p.gauge(prefix+"_finished", "Jobs that have ended.", float64(t.ended), labels...)
	p.gauge(prefix+"_cpus_alloc", "CPUs that running jobs have.", float64(t.cpus), labels...)
	p.gauge(prefix+"_gpus_alloc", "GPUs that running jobs have.", float64(t.gpus), labels...)
	p.gauge(prefix+"_memory_alloc", "Memory that running jobs have, in bytes.", inBytes(t.memory), labels...)
}

func (p *page) nodesAlloc(prefix string, t *jobs, labels ...string) {
	p.gauge(prefix+"_nodes_alloc", "Nodes that running jobs have.", float64(len(t.nodes)), labels...)
}

func (p *page) states(prefix string, t *nodes, words []word, labels ...string) {
	for _, w := range words {
		p.gauge(prefix+"_"+w.name, "Nodes with flag "+w.state+".", float64(t.states[w.state]), labels...)
	}
}

func (p *page) nativeNodes(prefix string, t *nodes, labels ...string) {
	p.gauge(prefix, "Nodes that Slurm knows.", float64(t.total), labels...)
	for _, w := range nativeBases {
		p.gauge(prefix+"_"+w.name, "Nodes in base state "+w.state+"; each node has one.", float64(t.base[w.state]), labels...)
	}
	p.states(prefix, t, nativeNodes, labels...)
	p.states(prefix, t, []word{{"powering_down", "POWERING_DOWN"}}, labels...)
	p.gauge(prefix+"_drained", "Nodes that are drained and have no job.", float64(t.drained), labels...)
	p.gauge(prefix+"_draining", "Nodes that drain and still have jobs.", float64(t.draining), labels...)
}

func (p *page) nativePartition(part *partition, labels ...string) {
	t, n := part.jobs, part.nodes
	p.nativeJobs("slurm_partition_jobs", t, labels...)
	const j, s = "slurm_partition_jobs_", "slurm_partition_nodes_"
	p.gauge(j+"max_job_nodes", "The most nodes that a waiting job asks for.", float64(t.widest), labels...)
	p.gauge(j+"max_job_nodes_nohold", "The most nodes that a waiting job asks for that nobody holds.", float64(t.widestFree), labels...)
	p.gauge(j+"min_job_nodes", "The fewest nodes that a waiting job asks for.", float64(t.slimmest), labels...)
	p.gauge(j+"min_job_nodes_nohold", "The fewest nodes that a waiting job asks for that nobody holds.", float64(t.slimmestFree), labels...)
	p.gauge(j+"wait_part_node_limit", "Jobs that ask for more nodes than the partition has or allows.", float64(t.tooWide), labels...)
	p.nativeNodes("slurm_partition_nodes", n, labels...)
	p.states("slurm_partition_nodes", n, []word{{"cg", slurm.NodeCompleting}, {"no_resp", slurm.NodeNotResponding}, {"reboot_requested", "REBOOT_REQUESTED"}}, labels...)
	p.gauge(s+"cpus_alloc", "CPUs that jobs have.", float64(n.alloc), labels...)
	p.gauge(s+"cpus_efctv", "CPUs that jobs may have.", float64(n.effective), labels...)
	p.gauge(s+"cpus_idle", "CPUs that no job has, those of nodes that take no job with them.", float64(n.idle), labels...)
	p.gauge(s+"mem_alloc", "Memory that jobs have, in bytes.", inBytes(n.memoryAlloc), labels...)
	p.gauge(s+"mem_avail", "Memory that jobs may have, in bytes.", inBytes(n.memoryEffective), labels...)
	p.gauge(s+"mem_free", "Memory that is free, as the nodes report it, in bytes.", inBytes(n.memoryFree), labels...)
	p.gauge(s+"mem_tot", "Memory, in bytes.", inBytes(n.memory), labels...)
	p.gauge("slurm_partition_cpus", "CPUs.", float64(n.cpus), labels...)
	p.gauge("slurm_partition_gpus", "GPUs.", float64(n.gpus), labels...)
}

func (p *page) nativeNode(n node) {
	var gpus amount
	for key, a := range n.gres {
		if key.name == "gpu" {
			gpus.total += a.total
			gpus.alloc += a.alloc
		}
	}
	const s = "slurm_node_"
	p.gauge(s+"cpus", "CPUs.", float64(max(n.CPUs, 0)), "node", n.Name)
	p.gauge(s+"cpus_alloc", "CPUs that jobs have.", float64(max(n.AllocCPUs, 0)), "node", n.Name)
	p.gauge(s+"cpus_effective", "CPUs that jobs may have.", float64(n.effective), "node", n.Name)
	p.gauge(s+"cpus_idle", "CPUs that no job has, those of nodes that take no job with them.", float64(n.idle), "node", n.Name)
	p.gauge(s+"gpus", "GPUs.", float64(gpus.total), "node", n.Name)
	p.gauge(s+"gpus_alloc", "GPUs that jobs have.", float64(gpus.alloc), "node", n.Name)
	p.gauge(s+"memory_bytes", "Memory, in bytes.", inBytes(n.RealMemory), "node", n.Name)
	p.gauge(s+"memory_alloc_bytes", "Memory that jobs have, in bytes.", inBytes(n.AllocMemory), "node", n.Name)
	p.gauge(s+"memory_effective_bytes", "Memory that jobs may have, in bytes.", inBytes(n.memoryEffective), "node", n.Name)
	p.gauge(s+"memory_free_bytes", "Memory that is free, as the node reports it, in bytes.", inBytes(n.memoryFree), "node", n.Name)
}

// nativeScheduler keeps slurmctld's names, and its unit for times, the microsecond: no name claims another.
func (p *page) nativeScheduler(d *slurm.Diag) {
	main, ahead := d.Schedule, d.Backfill
	const m = "slurm_"
	p.all([]sample{
		{m + "agent_cnt", "Agents, which send messages to slurmd.", float64(d.Agents)},
		{m + "agent_queue_size", "Messages to slurmd that wait.", float64(d.AgentQueue)},
		{m + "agent_thread_cnt", "Threads of agents.", float64(d.AgentThreads)},
		{m + "server_thread_cnt", "Calls that slurmctld serves.", float64(d.ServerThreads)},
		{m + "slurmdbd_queue_size", "Messages to slurmdbd that wait.", float64(d.DBDAgentQueue)},
		{m + "sdiag_latency", "Time of 1,000 readings of the clock, in microseconds.", float64(d.ClockLatency.Microseconds())},
		{m + "sched_stats_timestamp", "When slurmctld gave these numbers.", when(d.Time)},
		{m + "last_proc_req_start", "Since when slurmctld counts.", when(d.Since)},
		{m + "bf_active", "1 while a backfill cycle is under way.", flag(d.BackfillActive)},
		{m + "bf_cycle_cnt", "Cycles of backfill.", float64(ahead.Count)},
		{m + "bf_cycle_last", "Time of its last cycle, in microseconds.", float64(ahead.Last.Microseconds())},
		{m + "bf_cycle_max", "Time of its longest cycle, in microseconds.", float64(ahead.Max.Microseconds())},
		{m + "bf_cycle_tot", "Time of all its cycles, in microseconds.", float64(ahead.Sum.Microseconds())},
		{m + "bf_mean_cycle", "Time of a cycle on average, in microseconds.", float64(ahead.Mean.Microseconds())},
		{m + "bf_depth_mean", "Jobs that it looks at in a cycle, on average.", float64(ahead.Depth.Mean)},
		{m + "bf_depth_tot", "Jobs that it looked at.", float64(ahead.Depth.Sum)},
		{m + "bf_last_depth", "Jobs that it looked at in its last cycle.", float64(ahead.Depth.Last)},
		{m + "bf_try_depth_mean", "Jobs that it tries to start in a cycle, on average.", float64(ahead.Tried.Mean)},
		{m + "bf_depth_try_tot", "Jobs that it tried to start.", float64(ahead.Tried.Sum)},
		{m + "bf_last_depth_try", "Jobs that it tried to start in its last cycle.", float64(ahead.Tried.Last)},
		{m + "bf_queue_len", "Jobs that waited in its last cycle.", float64(ahead.Queue.Last)},
		{m + "bf_queue_len_mean", "Jobs that wait in a cycle, on average.", float64(ahead.Queue.Mean)},
		{m + "bf_queue_len_tot", "Jobs that waited, summed over its cycles.", float64(ahead.Queue.Sum)},
		{m + "bf_table_size", "Time slots that it tested in its last cycle.", float64(ahead.Table.Last)},
		{m + "bf_mean_table_sz", "Time slots that it tests in a cycle, on average.", float64(ahead.Table.Mean)},
		{m + "bf_table_size_tot", "Time slots that it tested.", float64(ahead.Table.Sum)},
		{m + "bf_when_last_cycle", "When its last cycle ended.", when(d.BackfillTime)},
		{m + "backfilled_jobs", "Jobs started by backfill since slurmctld's start.", float64(d.BackfilledJobs)},
		{m + "last_backfilled_jobs", "Jobs started by backfill since slurmctld counts.", float64(d.BackfilledLately)},
		{m + "backfilled_het_jobs", "Components of heterogeneous jobs started by backfill.", float64(d.BackfilledHetJobs)},
		{m + "schedule_cycle_cnt", "Cycles of the main scheduler.", float64(main.Count)},
		{m + "schedule_cycle_depth", "Jobs that it looked at.", float64(main.Depth.Sum)},
		{m + "sched_mean_depth_cycle", "Jobs that it looks at in a cycle, on average.", float64(main.Depth.Mean)},
		{m + "schedule_cycle_last", "Time of its last cycle, in microseconds.", float64(main.Last.Microseconds())},
		{m + "schedule_cycle_max", "Time of its longest cycle, in microseconds.", float64(main.Max.Microseconds())},
		{m + "schedule_cycle_tot", "Time of all its cycles, in microseconds.", float64(main.Sum.Microseconds())},
		{m + "sched_mean_cycle", "Time of a cycle on average, in microseconds.", float64(main.Mean.Microseconds())},
		{m + "schedule_queue_len", "Jobs that waited in its last cycle.", float64(main.Queue.Last)},
		{m + "sdiag_jobs_submitted", "Jobs submitted since slurmctld counts.", float64(d.JobsSubmitted)},
		{m + "sdiag_jobs_started", "Jobs started since slurmctld counts.", float64(d.JobsStarted)},
		{m + "sdiag_jobs_completed", "Jobs completed since slurmctld counts.", float64(d.JobsCompleted)},
		{m + "sdiag_jobs_canceled", "Jobs cancelled since slurmctld counts.", float64(d.JobsCanceled)},
		{m + "sdiag_jobs_failed", "Jobs failed since slurmctld counts.", float64(d.JobsFailed)},
		{m + "sdiag_jobs_pending", "Jobs pending when slurmctld last counted.", float64(d.JobsPending)},
		{m + "sdiag_jobs_running", "Jobs running when slurmctld last counted.", float64(d.JobsRunning)},
		{m + "sdiag_job_states_ts", "When slurmctld last counted them.", when(d.JobsTime)},
	})
	p.ends(m+"sched_exit_", main.Ends, []word{
		{"end", "end_job_queue"}, {"max_depth", "default_queue_depth"}, {"max_job_start", "max_job_start"},
		{"lic", "licenses"}, {"rpc_cnt", "max_rpc_cnt"}, {"timeout", "max_sched_time"},
	}, "")
	p.ends(m+"bf_exit_", ahead.Ends, []word{
		{"end", "end_job_queue"}, {"max_job_start", "bf_max_job_start"}, {"max_job_test", "bf_max_job_test"},
		{"state_changed", "state_changed"}, {"table_limit", "bf_node_space_size"}, {"timeout", "bf_max_time"},
	}, "")
}
