package faultserver

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// number is a number as slurmrestd writes it.
func number(set, infinite bool, v uint64) map[string]any {
	return map[string]any{"set": set, "infinite": infinite, "number": v}
}

func numberOf(n slurm.Number) map[string]any {
	if n.Infinite {
		return number(false, true, 0)
	}
	return number(n.Set, false, n.Value)
}

// orZero is a number that slurmrestd gives as 0 where it isn't set.
func orZero(n slurm.Number) map[string]any {
	if !n.Set {
		return number(true, false, 0)
	}
	return numberOf(n)
}

func when(t time.Time) map[string]any {
	if t.IsZero() {
		return number(true, false, 0)
	}
	return number(true, false, uint64(t.Unix()))
}

// words is a list that is never null.
func words[S ~[]string](s S) []string { return append([]string{}, s...) }

func or(s, nothing string) string {
	if s == "" {
		return nothing
	}
	return s
}

func (m *Model) ping(version string) Answer {
	list := []any{}
	for _, p := range m.Controllers {
		o := map[string]any{"hostname": p.Hostname, "responding": p.Responding, "latency": 500, "primary": p.Primary}
		if version == "v0.0.44" {
			o["mode"], o["pinged"] = p.Mode, "DOWN"
			if p.Responding {
				o["pinged"] = "UP"
			}
		} else {
			o["status"] = p.Status
		}
		list = append(list, o)
	}
	return success(field{"pings", list})
}

// diag counts the jobs; of all the rest it says that nothing goes on.
func (m *Model) diag(now time.Time) Answer {
	stats := map[string]any{
		"req_time": when(now), "req_time_start": when(m.Since), "jobs_submitted": m.Submitted, "jobs_started": m.Started,
		"bf_active": false, "bf_when_last_cycle": when(time.Time{}), "job_states_ts": when(time.Time{}),
		"rpcs_by_message_type": []any{}, "rpcs_by_user": []any{},
		"schedule_exit": zeros("end_job_queue", "default_queue_depth", "max_job_start", "max_rpc_cnt", "max_sched_time", "licenses"),
		"bf_exit":       zeros("end_job_queue", "bf_max_job_start", "bf_max_job_test", "bf_max_time", "bf_node_space_size", "state_changed"),
	}
	maps.Copy(stats, zeros(
		"server_thread_count", "agent_count", "agent_thread_count", "agent_queue_size", "dbd_agent_queue_size", "gettimeofday_latency",
		"schedule_cycle_last", "schedule_cycle_max", "schedule_cycle_mean", "schedule_cycle_sum", "schedule_cycle_total",
		"schedule_cycle_depth", "schedule_cycle_mean_depth", "schedule_queue_length",
		"bf_cycle_last", "bf_cycle_max", "bf_cycle_mean", "bf_cycle_sum", "bf_cycle_counter",
		"bf_backfilled_jobs", "bf_last_backfilled_jobs", "bf_backfilled_het_jobs",
		"bf_depth_mean", "bf_depth_mean_try", "bf_depth_sum", "bf_depth_try_sum", "bf_last_depth", "bf_last_depth_try",
		"bf_queue_len", "bf_queue_len_mean", "bf_queue_len_sum", "bf_table_size", "bf_table_size_mean", "bf_table_size_sum",
	))
	for name, state := range map[string]string{
		"jobs_pending": slurm.JobPending, "jobs_running": slurm.JobRunning, "jobs_completed": slurm.JobCompleted,
		"jobs_canceled": slurm.JobCancelled, "jobs_failed": slurm.JobFailed,
	} {
		n := 0
		for _, j := range m.Jobs {
			if j.States.Has(state) {
				n++
			}
		}
		stats[name] = n
	}
	return success(field{"statistics", stats})
}

// zeros are names that are all 0.
func zeros(names ...string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		out[name] = 0
	}
	return out
}

func jobJSON(j JobRecord) map[string]any {
	out := asksJSON(j.Asked)
	maps.Copy(out, map[string]any{
		"account": j.Account, "admin_comment": j.AdminComment, "comment": j.Comment, "cluster": j.Cluster,
		"array_job_id": orZero(j.ArrayJobID), "array_task_id": numberOf(j.ArrayTaskID),
		"het_job_id": orZero(j.HetJobID), "het_job_offset": number(true, false, 0),
		"cpus": numberOf(j.CPUs), "node_count": numberOf(j.NodeCount), "tasks": numberOf(j.Tasks), "priority": numberOf(j.Priority),
		"time_limit":  numberOf(j.TimeLimit),
		"submit_time": when(j.SubmitTime), "eligible_time": when(j.EligibleTime), "start_time": when(j.StartTime), "end_time": when(j.EndTime),
		"preempt_time": when(j.PreemptTime),
		"dependency":   j.Dependency, "licenses": j.Licenses, "flags": words(j.Flags),
		"exit_code": map[string]any{
			"status": []string{"SUCCESS"}, "return_code": orZero(j.ExitCode),
			"signal": map[string]any{"id": number(j.SignalID != 0, false, uint64(j.SignalID)), "name": ""},
		},
		"group_id": j.GroupID, "group_name": j.Group, "user_id": j.UserID, "user_name": j.User,
		"job_id": j.ID, "job_state": words(j.States), "name": j.Name, "nodes": j.Nodes, "scheduled_nodes": j.ScheduledNodes,
		"partition": j.Partition, "qos": j.QOS, "resv_name": j.Reservation,
		"state_reason": or(j.Reason, "None"), "state_description": j.Description,
		"step_id": map[string]any{
			"sluid": j.SLUID, "job_id": number(true, false, uint64(j.ID)), "step_het_component": number(false, false, 0), "step_id": "entire",
		},
		"tres_req_str": j.TRESRequested, "tres_alloc_str": j.TRESAllocated, "array_task_string": j.ArrayTasks,
	})
	return out
}

// asksJSON is what a job asks of its nodes. Slurm gives the command line of none that came by REST.
func asksJSON(a slurm.JobAsks) map[string]any {
	shared := []string{}
	if a.Exclusive {
		shared = append(shared, "none") // Slurm's word for whole nodes
	}
	return map[string]any{
		"features": a.Constraints, "required_nodes": a.RequiredNodes, "excluded_nodes": a.ExcludedNodes, "shared": shared, "submit_line": "",
		"max_nodes": orZero(a.MaximumNodes), "cpus_per_task": orZero(a.CPUsPerTask), "tasks_per_node": orZero(a.TasksPerNode),
		"minimum_cpus_per_node": orZero(a.MinimumCPUsPerNode),
		"memory_per_node":       numberOf(a.MemoryPerNode), "memory_per_cpu": numberOf(a.MemoryPerCPU),
		"tres_per_job": a.TRESPerJob, "tres_per_node": a.TRESPerNode, "tres_per_socket": a.TRESPerSocket, "tres_per_task": a.TRESPerTask,
	}
}

func layoutJSON(a slurm.NodeAllocation) map[string]any {
	bits := new(big.Int)
	for _, c := range a.Cores {
		bits.SetBit(bits, c, 1)
	}
	mask := bits.Text(16)
	if len(mask)%2 == 1 {
		mask = "0" + mask
	}
	gres := []any{}
	for _, g := range a.GRES {
		gres = append(gres, map[string]any{"name": g.Name, "type": g.Type, "count": g.Count, "index": tres.FormatIndexes(g.Indexes)})
	}
	return map[string]any{
		"node": a.Node, "sockets_per_node": a.Sockets, "cores_per_socket": a.CoresPerSocket, "mem_alloc": a.Memory,
		"core_bitmap": "0x" + strings.ToUpper(mask), "channel": number(false, false, 0), "gres": gres,
	}
}

// nodeJSON shows a node with what running jobs use of it.
func (m *Model) nodeJSON(n slurm.Node) map[string]any {
	cores, memory, gres := m.used(n.Name)
	cpus := max(n.AllocCPUs, len(cores)*max(n.Threads, 1))
	states := slices.Clone(n.States)
	if len(cores) > 0 {
		base := slurm.NodeMixed
		if cpus >= n.CPUs {
			base = slurm.NodeAllocated
		}
		states = append(slices.DeleteFunc(states, func(w string) bool { return w == slurm.NodeIdle }), base)
	}
	return map[string]any{
		"name": n.Name, "address": n.Address, "hostname": n.Hostname, "state": words(slurm.StatesOf(states...)),
		"reason": n.Reason, "reason_set_by_user": n.ReasonUser, "reason_changed_at": when(n.ReasonTime),
		"partitions": words(n.Partitions), "features": words(n.Features), "active_features": words(n.ActiveFeatures),
		"cpus": n.CPUs, "boards": n.Boards, "sockets": n.Sockets, "cores": n.Cores, "threads": n.Threads,
		"real_memory": n.RealMemory, "alloc_memory": max(n.AllocMemory, memory), "free_mem": numberOf(n.FreeMemory), "alloc_cpus": cpus,
		"gres": n.GRES, "gres_used": gresUsed(n, gres), "topology": n.Topology, "version": n.Version,
		"comment": n.Comment, "extra": n.Extra, "reservation": n.Reservation,
		"boot_time": when(n.BootTime), "slurmd_start_time": when(n.SlurmdStartTime), "last_busy": when(n.LastBusy),
		"effective_cpus": cmp.Or(n.EffectiveCPUs, n.CPUs), "specialized_memory": n.SpecializedMemory,
	}
}

func gresUsed(n slurm.Node, used []slurm.GRESAllocation) string {
	if n.GRESUsed != "" {
		return n.GRESUsed
	}
	all, err := tres.ParseGRES(n.GRES)
	if err != nil {
		return ""
	}
	var texts []string
	for _, g := range all {
		indexes := busy(used, g.Name)
		slices.Sort(indexes)
		text := tres.GRES{Name: g.Name, Type: g.Type, Count: uint64(len(indexes)), Indexes: indexes}.String()
		if len(indexes) == 0 {
			text += "(IDX:N/A)"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}

func (m *Model) listPartitions(version string, now time.Time) Answer {
	list := []any{}
	for _, p := range m.Partitions {
		var names []string
		cpus := 0
		for _, n := range m.Nodes {
			if slices.Contains(n.Partitions, p.Name) {
				names = append(names, n.Name)
				cpus += n.CPUs
			}
		}
		o := map[string]any{
			"name": p.Name, "node_sets": p.NodeSets, "alternate": p.Alternate,
			"nodes":     map[string]any{"allowed_allocation": "", "configured": strings.Join(names, ","), "total": len(names)},
			"accounts":  map[string]any{"allowed": p.AllowedAccts, "deny": ""},
			"partition": map[string]any{"state": words(p.State)},
			"maximums":  map[string]any{"time": numberOf(p.MaxTime)},
			"defaults":  map[string]any{"time": numberOf(p.DefaultTime)},
			"cpus":      map[string]any{"total": cpus},
		}
		if version != "v0.0.44" {
			flags := []string{}
			if p.Default {
				flags = []string{"DEFAULT"}
			}
			o["flags"] = flags
		}
		list = append(list, o)
	}
	return success(field{"partitions", list}, field{"last_update", when(now)})
}
