package main

func boards() []board {
	return []board{clusterBoard(), partitionsBoard(), nodeSetsBoard(), bridgeBoard(), cpuBoard(), accountsBoard()}
}

func stat(title, unit, expr string, red float64, about string) panel {
	return panel{title: title, kind: "stat", unit: unit, about: about, red: red, queries: []query{{expr, title}}}
}

func graph(title, unit, about string, queries ...query) panel {
	return panel{title: title, kind: "timeseries", unit: unit, about: about, queries: queries}
}

func bars(title, unit, about, expr, legend string) panel {
	return panel{title: title, kind: "bargauge", unit: unit, about: about, queries: []query{{expr, legend}}}
}

func table(title, about, expr string) panel {
	return panel{title: title, kind: "table", unit: "short", about: about, queries: []query{{expr, ""}}}
}

// percentile is of a histogram's last quarter of an hour at least: few jobs start in a minute.
func percentile(q, metric, by string) string {
	return "histogram_quantile(" + q + ", sum by (le" + by + ") (rate(" + metric + "_bucket[15m])))"
}

func clusterBoard() board {
	return board{name: "cluster", title: "Slinky / Cluster", rows: []row{
		{"Now", 4, []panel{
			stat("Slurm answers", "short", "min(slurm_up)", 0, "1 while the exporter can read Slurm. While it is 0 nothing else here is shown: old numbers would look like new ones."),
			stat("Age of the numbers", "s", "max(slurm_exporter_data_age_seconds)", 120, "How old what is shown is."),
			stat("Nodes", "short", "sum(slurm_nodes)", 0, "All nodes that Slurm knows."),
			stat("Nodes away", "short", "sum(slurm_cluster_nodes_away)", 1, "Nodes that are down or don't respond."),
			stat("Running jobs", "short", "sum(slurm_jobs_running)", 0, ""),
			stat("Waiting jobs", "short", "sum(slurm_jobs_pending)", 0, "Each task of an array is a job."),
		}},
		{"Use", 8, []panel{
			graph("CPUs", "short", "Idle are only those that a job could have now.", query{"sum(slurm_cluster_cpus_alloc)", "allocated"},
				query{"sum(slurm_cluster_cpus_idle)", "idle"}, query{"sum(slurm_cluster_cpus_effective)", "all for jobs"}),
			graph("Memory", "bytes", "", query{"sum(slurm_cluster_memory_alloc_bytes)", "allocated"}, query{"sum(slurm_cluster_memory_effective_bytes)", "all for jobs"}),
			graph("Devices in use", "percentunit", "The part of the generic resources that jobs have, by name and type.",
				query{"sum by (name, type) (slurm_gres_alloc) / (sum by (name, type) (slurm_gres) > 0)", "{{name}} {{type}}"}),
		}},
		{"Jobs", 8, []panel{
			graph("Jobs by state", "short", "", query{"sum(slurm_jobs_running)", "running"}, query{"sum(slurm_jobs_pending)", "waiting"},
				query{"sum(slurm_jobs_completing)", "completing"}, query{"sum(slurm_jobs_suspended)", "suspended"}, query{"sum(slurm_jobs_hold)", "held"}),
			graph("Waiting time", "s", "From when a job could start to its start.", query{percentile("0.5", "slurm_job_wait_seconds", ""), "half"},
				query{percentile("0.95", "slurm_job_wait_seconds", ""), "95%"}),
			graph("Jobs a minute", "short", "As slurmctld counts them.", query{"sum(rate(slurm_job_run_seconds_count[15m])) * 60", "ended"},
				query{"sum(rate(slurm_job_wait_seconds_count[15m])) * 60", "started"}),
		}},
		{"Nodes", 8, []panel{
			graph("Nodes by state", "short", "Each node has one of these states.", query{"sum(slurm_nodes_alloc)", "allocated"}, query{"sum(slurm_nodes_mixed)", "mixed"},
				query{"sum(slurm_nodes_idle)", "idle"}, query{"sum(slurm_nodes_down)", "down"}, query{"sum(slurm_nodes_unknown)", "unknown"}),
			table("Nodes with a reason", "Why nodes are down or drained.", `slurm_node_info{reason!=""}`),
		}},
		{"Scheduler", 8, []panel{
			graph("Time of a cycle", "s", "How long the scheduler holds slurmctld's locks.", query{"max(slurm_scheduler_cycle_last_seconds)", "main"},
				query{"max(slurm_bfscheduler_cycle_seconds)", "backfill"}),
			graph("Jobs looked at by backfill", "short", "", query{"max(slurm_bf_last_depth)", "looked at"}, query{"max(slurm_bf_queue_len)", "in the queue"}),
			graph("Queues of slurmctld", "short", "", query{"max(slurm_server_thread_cnt)", "calls served"}, query{"max(slurm_agent_queue_size)", "messages to slurmd"},
				query{"max(slurm_slurmdbd_queue_size)", "messages to slurmdbd"}),
			graph("Calls by type", "reqps", "The ten types that are called most.", query{"topk(10, sum by (type) (rate(slurm_rpc_calls_total[$__rate_interval])))", "{{type}}"}),
		}},
		{"Licences and reservations", 6, []panel{
			bars("Licences in use", "percentunit", "", "slurm_license_used / (slurm_license_size > 0)", "{{license}}"),
			table("Reservations", "1 while a reservation holds its nodes.", "slurm_reservation_active"),
			graph("slurmctld", "short", "1 for each slurmctld that answers.", query{"slurm_controller_responding", "{{controller}} ({{mode}})"}),
		}},
	}}
}

func partitionsBoard() board {
	const in = `{partition=~"$partition"}`
	return board{name: "partitions", title: "Slinky / Partitions", variables: []variable{{"partition", "slurm_partition_nodes", "partition"}}, rows: []row{
		{"Use", 8, []panel{
			graph("CPUs in use", "percentunit", "Of those that jobs may have.", query{
				"slurm_partition_nodes_cpus_alloc" + in + " / (slurm_partition_nodes_cpus_efctv" + in + " > 0)", "{{partition}}"}),
			graph("Running jobs", "short", "", query{"slurm_partition_jobs_running" + in, "{{partition}}"}),
			graph("GPUs of running jobs", "short", "", query{"slurm_partition_jobs_gpus_alloc" + in, "{{partition}}"}),
		}},
		{"Waiting", 8, []panel{
			graph("Waiting jobs", "short", "", query{"slurm_partition_jobs_pending" + in, "{{partition}}"}),
			graph("Waiting jobs by reason", "short", "Slurm's words.", query{"sum by (reason) (slurm_partition_pending_jobs" + in + ")", "{{reason}}"}),
			graph("What would help", "short", "Nodes that waiting jobs ask for. More nodes help those of resources and priority.",
				query{"sum by (class) (slurm_partition_wanted_nodes" + in + ")", "{{class}}"}),
			graph("GPUs that waiting jobs ask for", "short", "", query{`sum by (partition) (slurm_partition_wanted_gpus{partition=~"$partition",class=~"resources|priority"})`, "{{partition}}"}),
		}},
		{"Times", 8, []panel{
			graph("Waiting time, half of the jobs", "s", "", query{percentile("0.5", `slurm_job_wait_seconds`, ", partition"), "{{partition}}"}),
			graph("Waiting time, 95% of the jobs", "s", "", query{percentile("0.95", `slurm_job_wait_seconds`, ", partition"), "{{partition}}"}),
			graph("Run time, half of the jobs", "s", "", query{percentile("0.5", `slurm_job_run_seconds`, ", partition"), "{{partition}}"}),
		}},
		{"Nodes", 8, []panel{
			graph("Idle nodes", "short", "", query{"slurm_partition_nodes_idle" + in, "{{partition}}"}),
			graph("Nodes that are drained or drain", "short", "", query{"slurm_partition_nodes_drain" + in, "{{partition}}"}),
			graph("Nodes that don't respond", "short", "", query{"slurm_partition_nodes_no_resp" + in, "{{partition}}"}),
		}},
	}}
}

func nodeSetsBoard() board {
	const in = `{nodeset=~"$nodeset"}`
	return board{name: "nodesets", title: "Slinky / NodeSets", variables: []variable{{"nodeset", "slurm_nodeset_workers", "nodeset"}}, rows: []row{
		{"Workers", 8, []panel{
			graph("Workers, and how many the jobs need", "short", "What an autoscaler follows.", query{"slurm_nodeset_workers" + in, "{{nodeset}}"},
				query{"slurm_nodeset_workers_wanted" + in, "{{nodeset}} needed"}),
			graph("Idle workers", "short", "", query{"slurm_nodeset_workers_idle" + in, "{{nodeset}}"}),
			graph("Waiting jobs that more workers would help", "short", "", query{"slurm_nodeset_waiting_jobs" + in, "{{nodeset}}"}),
		}},
		{"Use", 8, []panel{
			graph("CPUs in use", "percentunit", "", query{"slurm_nodeset_cpus_alloc" + in + " / (slurm_nodeset_cpus" + in + " > 0)", "{{nodeset}}"}),
			graph("Memory in use", "percentunit", "", query{"slurm_nodeset_memory_alloc_bytes" + in + " / (slurm_nodeset_memory_bytes" + in + " > 0)", "{{nodeset}}"}),
			graph("GPUs in use", "short", "", query{"slurm_nodeset_gpus_alloc" + in, "{{nodeset}}"}, query{"slurm_nodeset_gpus" + in, "{{nodeset}} all"}),
		}},
		{"Trouble", 8, []panel{
			graph("Workers that are down or don't respond", "short", "", query{"slurm_nodeset_workers_down" + in, "{{nodeset}}"}),
			graph("Workers that drain", "short", "", query{"slurm_nodeset_workers_draining" + in, "{{nodeset}}"}),
		}},
	}}
}

func bridgeBoard() board {
	return board{name: "bridge", title: "Slinky / Bridge", rows: []row{
		{"Now", 4, []panel{
			stat("Age of what is known of Slurm", "s", "max(slurm_bridge_view_age_seconds)", 60, ""),
			stat("Pods that wait", "short", "sum(slurm_bridge_pods_waiting) or vector(0)", 0, ""),
			stat("Pods placed, not bound yet", "short", "sum(slurm_bridge_pods_placed)", 0, ""),
			stat("Running external jobs", "short", "sum(slurm_jobs_external_running)", 0, "External jobs are the bridge's, as a rule."),
			stat("Waiting external jobs", "short", "sum(slurm_jobs_external_pending)", 0, ""),
			stat("External nodes lost", "short", "sum(slurm_cluster_nodes_external_noresp)", 1, "External nodes that don't respond."),
		}},
		{"Pods", 8, []panel{
			graph("Waiting pods by reason", "short", "", query{"sum by (reason) (slurm_bridge_pods_waiting) or vector(0)", "{{reason}}"}),
			graph("From a pod to its job", "s", "From a pod's creation until Slurm took its job.", query{percentile("0.5", "slurm_bridge_submit_seconds", ""), "half"},
				query{percentile("0.95", "slurm_bridge_submit_seconds", ""), "95%"}),
			graph("From a pod to its node", "s", "From a pod's creation until it had its node from Slurm.", query{percentile("0.5", "slurm_bridge_placed_seconds", ""), "half"},
				query{percentile("0.95", "slurm_bridge_placed_seconds", ""), "95%"}),
		}},
		{"Slurm", 8, []panel{
			graph("Jobs asked for", "reqps", "By how Slurm answered.", query{"sum by (result) (rate(slurm_bridge_submissions_total[$__rate_interval]))", "{{result}}"}),
			graph("Calls", "reqps", "By how they ended.", query{"sum by (method, result) (rate(slurm_bridge_slurm_calls_total[$__rate_interval]))", "{{method}} {{result}}"}),
			graph("Time of a call", "s", "", query{percentile("0.95", "slurm_bridge_slurm_call_seconds", ", method"), "{{method}} 95%"}),
		}},
		{"Ends", 8, []panel{
			graph("Pods deleted for what their jobs became", "reqps", "", query{"sum by (reason) (rate(slurm_bridge_pods_ended_total[$__rate_interval])) or vector(0)", "{{reason}}"}),
			graph("Jobs cancelled as their pods are gone", "reqps", "", query{"sum by (result) (rate(slurm_bridge_jobs_cancelled_total[$__rate_interval])) or vector(0)", "{{result}}"}),
		}},
	}}
}

func cpuBoard() board {
	const on = `{instance=~"$instance"}`
	return board{name: "cpu-driver", title: "Slinky / CPU driver", variables: []variable{{"instance", "dra_cpu_allocated_cpus", "instance"}}, rows: []row{
		{"CPUs", 8, []panel{
			graph("CPUs of claims", "short", "By node.", query{"dra_cpu_allocated_cpus" + on, "{{instance}}"}),
			graph("CPUs for everybody else", "short", "", query{"dra_cpu_available_cpus" + on, "{{instance}}"}),
			graph("All nodes", "short", "", query{"sum(dra_cpu_allocated_cpus" + on + ")", "claims"}, query{"sum(dra_cpu_available_cpus" + on + ")", "everybody else"},
				query{"sum(dra_cpu_reserved_cpus" + on + ")", "reserved"}),
		}},
		{"Claims", 8, []panel{
			graph("Prepared claims", "short", "", query{"sum(dra_cpu_resource_claims_active" + on + ")", "claims"}, query{"sum(dra_cpu_containers" + on + ")", "containers"},
				query{"sum(dra_cpu_containers_unconfined_total" + on + ")", "made without the driver"}),
			graph("Claims prepared", "reqps", "", query{"sum by (result) (rate(dra_cpu_prepare_claims_total" + on + "[$__rate_interval]))", "{{result}}"}),
			graph("Time to prepare a claim", "s", "", query{percentile("0.95", "dra_cpu_prepare_claim_duration_seconds", ""), "95%"}),
		}},
		{"Container runtime", 8, []panel{
			graph("Connected", "short", "1 while the runtime is connected. Without it no container gets its CPUs.", query{"dra_cpu_nri_connected" + on, "{{instance}}"}),
			graph("Refused containers, and changes that failed", "reqps", "", query{"sum(rate(dra_cpu_containers_refused_total" + on + "[$__rate_interval]))", "refused"},
				query{"sum(rate(dra_cpu_nri_updates_failed_total" + on + "[$__rate_interval]))", "failed changes"}),
			graph("Time that the runtime waits", "s", "", query{percentile("0.95", "dra_cpu_nri_hook_duration_seconds", ", hook"), "{{hook}} 95%"}),
		}},
	}}
}

func accountsBoard() board {
	const a, u = `{account=~"$account"}`, `{account=~"$account",username=~"$user"}`
	return board{name: "accounts", title: "Slinky / Users and accounts",
		variables: []variable{{"account", "slurm_account_shares", "account"}, {"user", "slurm_user_shares", "username"}}, rows: []row{
			{"Accounts", 8, []panel{
				graph("CPUs of running jobs", "short", "", query{"slurm_account_jobs_cpus_alloc" + a, "{{account}}"}),
				graph("GPUs of running jobs", "short", "", query{"slurm_account_jobs_gpus_alloc" + a, "{{account}}"}),
				graph("Waiting jobs", "short", "", query{"slurm_account_jobs_pending" + a, "{{account}}"}),
			}},
			{"Fair share", 8, []panel{
				bars("Given", "percentunit", "The part of what its siblings have together.", "slurm_account_share_ratio"+a, "{{account}}"),
				bars("Used", "percentunit", "The part of what its siblings used together.", "slurm_account_usage_ratio"+a, "{{account}}"),
				graph("Fair-share factor of users", "percentunit", "The ten with the least: their jobs start last.", query{"bottomk(10, slurm_user_fairshare" + u + ")", "{{username}} ({{account}})"}),
			}},
			{"Limits", 8, []panel{
				bars("Accounts' limits in use", "percentunit", "", "slurm_account_limit_used"+a+" / (slurm_account_limit"+a+" > 0)", "{{account}} {{resource}}"),
				bars("Users' limits in use", "percentunit", "", "topk(20, slurm_user_limit_used"+u+" / (slurm_user_limit"+u+" > 0))", "{{username}} ({{account}}) {{resource}}"),
			}},
			{"Users", 8, []panel{
				graph("CPUs of running jobs", "short", "The ten with most.", query{`topk(10, slurm_user_jobs_cpus_alloc{username=~"$user"})`, "{{username}}"}),
				graph("Waiting jobs", "short", "The ten with most.", query{`topk(10, slurm_user_jobs_pending{username=~"$user"})`, "{{username}}"}),
				graph("Calls to slurmctld", "reqps", "The ten that call most.", query{`topk(10, sum by (username) (rate(slurm_rpc_user_calls_total{username=~"$user"}[$__rate_interval])))`, "{{username}}"}),
			}},
		}}
}
