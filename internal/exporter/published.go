package exporter

import "github.com/slinky-hpc/slinky/slurm"

// word pairs a part of a metric's name with Slurm's state word.
type word struct{ name, state string }

var publishedJobs = []word{
	{"bootfail", slurm.JobBootFail}, {"cancelled", slurm.JobCancelled}, {"completed", slurm.JobCompleted}, {"deadline", slurm.JobDeadline},
	{"failed", slurm.JobFailed}, {"pending", slurm.JobPending}, {"preempted", slurm.JobPreempted}, {"running", slurm.JobRunning},
	{"suspended", slurm.JobSuspended}, {"timeout", slurm.JobTimeout}, {"nodefail", slurm.JobNodeFail}, {"outofmemory", slurm.JobOutOfMemory},
	{"completing", slurm.JobCompleting}, {"configuring", slurm.JobConfiguring}, {"powerupnode", "POWER_UP_NODE"}, {"stageout", "STAGE_OUT"},
}

var publishedNodes = []word{
	{"completing", slurm.NodeCompleting}, {"drain", slurm.NodeDrain}, {"fail", slurm.NodeFail}, {"maintenance", slurm.NodeMaintenance},
	{"notresponding", slurm.NodeNotResponding}, {"planned", "PLANNED"}, {"rebootrequested", "REBOOT_REQUESTED"}, {"reserved", slurm.NodeReserved},
}

var publishedBases = []word{
	{"allocated", slurm.NodeAllocated}, {"down", slurm.NodeDown}, {"error", slurm.NodeError}, {"future", slurm.NodeFuture},
	{"idle", slurm.NodeIdle}, {"mixed", slurm.NodeMixed}, {"unknown", slurm.NodeUnknown},
}

// published adds the metrics of the Slinky exporter.
func (p *page) published(c *census, o Options) {
	p.publishedJobs("slurm_jobs", c.jobs)
	p.publishedNodes("slurm_nodes", c.nodes)
	for name, part := range c.partitions {
		p.publishedJobs("slurm_partition_jobs", part.jobs, "partition", name)
		p.gauge("slurm_partition_jobs_pending_maxnodecount_total", "The most nodes that a waiting job asks for that nobody holds.",
			float64(part.jobs.widestFree), "partition", name)
		p.publishedNodes("slurm_partition_nodes", part.nodes, "partition", name)
		p.publishedSize("slurm_partition_nodes_", part.nodes, "partition", name)
	}
	if !o.NoAccounts {
		for name, t := range c.accounts {
			p.publishedJobs("slurm_account_jobs", t, "account", name)
		}
	}
	if !o.NoUsers {
		for u, t := range c.users {
			p.publishedJobs("slurm_user_jobs", t, "userid", u.number(), "username", u.name)
		}
	}
	if !o.NoNodes {
		for _, n := range c.list {
			one := newNodes()
			one.add(n)
			p.publishedSize("slurm_node_", one, "node", n.Name)
		}
	}
	if c.Diag != nil {
		p.publishedScheduler(c.Diag)
	}
}

func (p *page) publishedJobs(prefix string, t *jobs, labels ...string) {
	p.gauge(prefix+"_total", "Jobs that Slurm knows.", float64(t.total), labels...)
	for _, w := range publishedJobs {
		p.gauge(prefix+"_"+w.name+"_total", "Jobs in state "+w.state+".", float64(t.states[w.state]), labels...)
	}
	p.gauge(prefix+"_hold_total", "Waiting jobs that somebody holds.", float64(t.held), labels...)
	p.gauge(prefix+"_cpus_alloc_total", "CPUs that running jobs have.", float64(t.cpus), labels...)
	p.gauge(prefix+"_memory_alloc_bytes", "Memory that running jobs have, in bytes.", inBytes(t.memory), labels...)
}

func (p *page) publishedNodes(prefix string, t *nodes, labels ...string) {
	p.gauge(prefix+"_total", "Nodes that Slurm knows.", float64(t.total), labels...)
	for _, w := range publishedBases {
		p.gauge(prefix+"_"+w.name+"_total", "Nodes in base state "+w.state+"; each node has one.", float64(t.base[w.state]), labels...)
	}
	for _, w := range publishedNodes {
		p.gauge(prefix+"_"+w.name+"_total", "Nodes with flag "+w.state+".", float64(t.states[w.state]), labels...)
	}
}

func (p *page) publishedSize(prefix string, t *nodes, labels ...string) {
	p.gauge(prefix+"cpus_total", "CPUs.", float64(t.cpus), labels...)
	p.gauge(prefix+"cpus_effective_total", "CPUs that jobs may have.", float64(t.effective), labels...)
	p.gauge(prefix+"cpus_alloc_total", "CPUs that jobs have.", float64(t.alloc), labels...)
	p.gauge(prefix+"cpus_idle_total", "CPUs that no job has, those of nodes that take no job with them.", float64(t.idle), labels...)
	p.gauge(prefix+"memory_bytes", "Memory, in bytes.", inBytes(t.memory), labels...)
	p.gauge(prefix+"memory_effective_bytes", "Memory that jobs may have, in bytes.", inBytes(t.memoryEffective), labels...)
	p.gauge(prefix+"memory_alloc_bytes", "Memory that jobs have, in bytes.", inBytes(t.memoryAlloc), labels...)
	p.gauge(prefix+"memory_free_bytes", "Memory that is free, as the nodes report it, in bytes.", inBytes(t.memoryFree), labels...)
}

// sample is a metric without labels.
type sample struct {
	name, help string
	value      float64
}

func (p *page) all(samples []sample) {
	for _, s := range samples {
		p.gauge(s.name, s.help, s.value)
	}
}

func (p *page) publishedScheduler(d *slurm.Diag) {
	main, ahead := d.Schedule, d.Backfill
	const m, b = "slurm_scheduler_", "slurm_bfscheduler_"
	p.all([]sample{
		{m + "cycle_depth_total", "Jobs that the main scheduler looked at.", float64(main.Depth.Sum)},
		{m + "cycle_depth_mean_total", "Jobs that it looks at in a cycle, on average.", float64(main.Depth.Mean)},
		{m + "cycle_total", "Its cycles.", float64(main.Count)},
		{m + "cycle_last_seconds", "Time of its last cycle.", main.Last.Seconds()},
		{m + "cycle_max_seconds", "Time of its longest cycle.", main.Max.Seconds()},
		{m + "cycle_mean_seconds", "Time of a cycle on average.", main.Mean.Seconds()},
		{m + "cycle_sum_seconds_total", "Time of all its cycles.", main.Sum.Seconds()},
		{m + "cycle_perminute_total", "Its cycles in a minute.", perMinute(d)},
		{m + "queue_total", "Jobs that waited in its last cycle.", float64(main.Queue.Last)},
		{m + "agent_total", "Agents, which send messages to slurmd.", float64(d.Agents)},
		{m + "agent_queue_total", "Messages to slurmd that wait.", float64(d.AgentQueue)},
		{m + "agent_thread_total", "Threads of agents.", float64(d.AgentThreads)},
		{m + "thread_total", "Calls that slurmctld serves.", float64(d.ServerThreads)},
		{m + "dbdagentqueue_total", "Messages to slurmdbd that wait.", float64(d.DBDAgentQueue)},
		{m + "jobs_stats_timestamp", "When slurmctld counted pending and running jobs.", when(d.JobsTime)},
		{m + "jobs_submitted_total", "Jobs submitted since slurmctld counts.", float64(d.JobsSubmitted)},
		{m + "jobs_started_total", "Jobs started since slurmctld counts.", float64(d.JobsStarted)},
		{m + "jobs_completed_total", "Jobs completed since slurmctld counts.", float64(d.JobsCompleted)},
		{m + "jobs_canceled_total", "Jobs cancelled since slurmctld counts.", float64(d.JobsCanceled)},
		{m + "jobs_failed_total", "Jobs failed since slurmctld counts.", float64(d.JobsFailed)},
		{m + "jobs_pending_total", "Jobs pending when slurmctld last counted.", float64(d.JobsPending)},
		{m + "jobs_running_total", "Jobs running when slurmctld last counted.", float64(d.JobsRunning)},
		{b + "active_bool", "1 while a backfill cycle is under way.", flag(d.BackfillActive)},
		{b + "backfilledjobs_total", "Jobs started by backfill since slurmctld's start.", float64(d.BackfilledJobs)},
		{b + "lastbackfilledjobs_total", "Jobs started by backfill since slurmctld counts.", float64(d.BackfilledLately)},
		{b + "backfilledhetjobs_total", "Components of heterogeneous jobs started by backfill.", float64(d.BackfilledHetJobs)},
		{b + "cycle_total", "Cycles of backfill.", float64(ahead.Count)},
		{b + "cycle_seconds", "Time of its last cycle.", ahead.Last.Seconds()},
		{b + "cycle_max_seconds", "Time of its longest cycle.", ahead.Max.Seconds()},
		{b + "cycle_mean_seconds", "Time of a cycle on average.", ahead.Mean.Seconds()},
		{b + "cycle_sum_seconds", "Time of all its cycles.", ahead.Sum.Seconds()},
		{b + "lastdepth_total", "Jobs that it looked at in its last cycle.", float64(ahead.Depth.Last)},
		{b + "depth_mean_total", "Jobs that it looks at in a cycle, on average.", float64(ahead.Depth.Mean)},
		{b + "depth_sum_total", "Jobs that it looked at.", float64(ahead.Depth.Sum)},
		{b + "lastdepthtry_total", "Jobs that it tried to start in its last cycle.", float64(ahead.Tried.Last)},
		{b + "depth_try_total", "Jobs that it tries to start in a cycle, on average.", float64(ahead.Tried.Mean)},
		{b + "depth_trysum_total", "Jobs that it tried to start.", float64(ahead.Tried.Sum)},
		{b + "queue_total", "Jobs that waited in its last cycle.", float64(ahead.Queue.Last)},
		{b + "queue_mean_total", "Jobs that wait in a cycle, on average.", float64(ahead.Queue.Mean)},
		{b + "queue_sum_total", "Jobs that waited, summed over its cycles.", float64(ahead.Queue.Sum)},
		{b + "table_total", "Time slots that it tested in its last cycle.", float64(ahead.Table.Last)},
		{b + "tablemean_total", "Time slots that it tests in a cycle, on average.", float64(ahead.Table.Mean)},
		{b + "tablesum_total", "Time slots that it tested.", float64(ahead.Table.Sum)},
		{b + "lastcycle_timestamp", "When its last cycle ended.", when(d.BackfillTime)},
	})
	p.ends(m, main.Ends, []word{
		{"defaultqueuedepth", "default_queue_depth"}, {"endjobqueue", "end_job_queue"}, {"licenses", "licenses"},
		{"maxjobstart", "max_job_start"}, {"maxrpc", "max_rpc_cnt"}, {"maxschedtime", "max_sched_time"},
	}, "_total")
	p.ends(b, ahead.Ends, []word{
		{"maxjobstart", "bf_max_job_start"}, {"maxjobtest", "bf_max_job_test"}, {"maxtime", "bf_max_time"},
		{"nodespace", "bf_node_space_size"}, {"endjobqueue", "end_job_queue"}, {"statechanged", "state_changed"},
	}, "_total")
}

// ends adds why cycles ended.
func (p *page) ends(prefix string, ends map[string]uint64, words []word, suffix string) {
	for _, w := range words {
		p.gauge(prefix+w.name+suffix, "Cycles that ended for "+w.state+".", float64(ends[w.state]))
	}
}

func perMinute(d *slurm.Diag) float64 {
	if minutes := d.Time.Sub(d.Since).Minutes(); !d.Since.IsZero() && minutes > 0 {
		return float64(d.Schedule.Count) / minutes
	}
	return 0
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
