package faultserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

func (m *Model) jobStates() Answer {
	list := []any{}
	for _, id := range m.ids() {
		j := m.Jobs[id]
		name := strconv.FormatUint(uint64(id), 10)
		if task, ok := j.ArrayTaskID.Get(); ok {
			name = fmt.Sprintf("%d_%d", j.ArrayJobID.Value, task)
		}
		list = append(list, map[string]any{"job_id": name, "state": words(j.States)})
	}
	return success(field{"jobs", list})
}

func (m *Model) listJobs(now time.Time) Answer {
	list := []any{}
	for _, id := range m.ids() {
		list = append(list, jobJSON(m.Jobs[id]))
	}
	return success(field{"jobs", list}, field{"last_backfill", when(now)}, field{"last_update", when(now)})
}

// job gives all records of a job: those of an array's tasks go by the array's id too.
func (m *Model) job(in inquiry, now time.Time) Answer {
	var list []any
	for _, id := range m.ids() {
		array := m.Jobs[id].ArrayJobID
		if in.target == strconv.FormatUint(uint64(id), 10) || array.Set && in.target == strconv.FormatUint(array.Value, 10) {
			list = append(list, jobJSON(m.Jobs[id]))
		}
	}
	if list == nil {
		return in.refusal(2017)
	}
	return success(field{"jobs", list}, field{"last_backfill", when(now)}, field{"last_update", when(now)})
}

func (m *Model) find(target string) (JobRecord, bool) {
	id, err := strconv.ParseUint(target, 10, 32)
	j, ok := m.Jobs[uint32(id)]
	return j, ok && err == nil
}

func (m *Model) resources(in inquiry) Answer {
	j, ok := m.find(in.target)
	switch {
	case !ok:
		return in.refusal(2017)
	case !j.States.Has(slurm.JobRunning):
		return in.refusal(2085)
	}
	list := []any{}
	for _, a := range j.Allocation {
		list = append(list, layoutJSON(a))
	}
	return success(field{"nodes", list})
}

// wanted is the part of a job request that matters here.
type wanted struct {
	Script string `json:"script"`
	Job    struct {
		Name          string   `json:"name"`
		Partition     string   `json:"partition"`
		Account       string   `json:"account"`
		Comment       string   `json:"comment"`
		AdminComment  string   `json:"admin_comment"`
		Flags         []string `json:"flags"`
		MinimumNodes  int      `json:"minimum_nodes"`
		TasksPerNode  int      `json:"tasks_per_node"`
		CPUsPerTask   int      `json:"cpus_per_task"`
		MemoryPerNode amount   `json:"memory_per_node"`
		TRESPerNode   string   `json:"tres_per_node"`
		TimeLimit     amount   `json:"time_limit"`
		RequiredNodes []string `json:"required_nodes"`
	} `json:"job"`
}

// amount is a number as our client writes it.
type amount struct {
	Set      bool   `json:"set"`
	Infinite bool   `json:"infinite"`
	Number   uint64 `json:"number"`
}

func (a amount) number() slurm.Number {
	return slurm.Number{Value: a.Number, Set: a.Set || a.Infinite, Infinite: a.Infinite}
}

// request reads a job request. A code other than 0 is Slurm's reason to refuse it.
func (m *Model) request(body []byte) (w wanted, d demand, code int) {
	if err := json.Unmarshal(body, &w); err != nil {
		return w, d, -1
	}
	d = demand{
		nodes: max(w.Job.MinimumNodes, 1), cpus: max(w.Job.CPUsPerTask, 1) * max(w.Job.TasksPerNode, 1),
		memory: w.Job.MemoryPerNode.Number, partition: w.Job.Partition,
	}
	d.gres, _ = tres.ParseGRES(w.Job.TRESPerNode)
	if d.partition == "" {
		i := slices.IndexFunc(m.Partitions, func(p Partition) bool { return p.Default })
		if i < 0 {
			return w, d, 2001
		}
		d.partition = m.Partitions[i].Name
	}
	switch {
	case !slices.ContainsFunc(m.Partitions, func(p Partition) bool { return p.Name == d.partition }):
		return w, d, 2000
	case slices.ContainsFunc(w.Job.RequiredNodes, func(name string) bool { return m.Node(name) == nil }):
		return w, d, 2018
	case w.Script != "" && slices.Contains(w.Job.Flags, slurm.FlagExternalJob):
		return w, d, 2189
	}
	return w, d, 0
}

func (m *Model) newJob(w wanted, d demand, now time.Time) JobRecord {
	j := slurm.Job{
		Name: w.Job.Name, Partition: d.partition, Account: w.Job.Account, Comment: w.Job.Comment, AdminComment: w.Job.AdminComment,
		Flags: w.Job.Flags, States: slurm.StatesOf(slurm.JobPending), TimeLimit: w.Job.TimeLimit.number(),
		SubmitTime: now, EligibleTime: now, NodeCount: slurm.NumberOf(uint64(d.nodes)), CPUs: slurm.NumberOf(uint64(d.cpus * d.nodes)),
		Tasks: slurm.NumberOf(uint64(max(w.Job.TasksPerNode, 1) * d.nodes)), TRESRequested: tresOf(d.cpus*d.nodes, d.memory*uint64(d.nodes), d.nodes),
		Asked: slurm.JobAsks{
			CPUsPerTask: slurm.NumberOf(uint64(max(w.Job.CPUsPerTask, 1))), TasksPerNode: slurm.NumberOf(uint64(w.Job.TasksPerNode)),
			MemoryPerNode: w.Job.MemoryPerNode.number(), TRESPerNode: w.Job.TRESPerNode,
		},
	}
	m.own(&j)
	m.writes++
	return JobRecord{Job: j}
}

func (m *Model) submit(in inquiry, body []byte, now time.Time) Answer {
	w, d, code := m.request(body)
	if code != 0 {
		return in.refusal(code)
	}
	j := m.newJob(w, d, now)
	m.Jobs[j.ID] = j
	return success(field{"job_id", j.ID}, field{"step_id", "batch"}, field{"job_submit_user_msg", ""})
}

func (m *Model) allocate(in inquiry, body []byte, now time.Time) Answer {
	w, d, code := m.request(body)
	if code != 0 {
		return in.refusal(code)
	}
	code = m.tooEarly(d)
	j := m.newJob(w, d, now)
	if code != 0 {
		// Slurm keeps the record of the attempt.
		j.States, j.EndTime = slurm.StatesOf(slurm.JobFailed), now
		m.Jobs[j.ID] = j
		return in.refusal(code)
	}
	j.Allocation, _ = m.place(d)
	j.States = slurm.StatesOf(slurm.JobRunning)
	// Slurm gives whole cores.
	var cpus int
	for _, a := range j.Allocation {
		cpus += len(a.Cores) * max(m.Node(a.Node).Threads, 1)
	}
	j.CPUs = slurm.NumberOf(uint64(cpus))
	j.TRESAllocated = tresOf(cpus, d.memory*uint64(d.nodes), d.nodes)
	m.started(&j, now)
	m.Jobs[j.ID] = j
	return success(field{"job_id", j.ID}, field{"job_submit_user_msg", ""})
}

// tooEarly is the reason why a job can't start now, 0 where it can. A job of priority 0 is held and blocks no other.
func (m *Model) tooEarly(d demand) int {
	for _, j := range m.Jobs {
		if j.Partition == d.partition && j.States.Has(slurm.JobPending) && j.Priority.Value > 0 {
			return 2013
		}
	}
	if _, ok := m.place(d); ok {
		return 0
	}
	empty := Model{Nodes: m.Nodes}
	if _, ever := empty.place(d); !ever {
		return 2015
	}
	return 2016
}

func (m *Model) updateJob(in inquiry, body []byte) Answer {
	var change struct {
		Name         *string `json:"name"`
		Comment      *string `json:"comment"`
		AdminComment *string `json:"admin_comment"`
		TimeLimit    *amount `json:"time_limit"`
	}
	j, ok := m.find(in.target)
	switch err := json.Unmarshal(body, &change); {
	case err != nil:
		return in.refusal(-1)
	case !ok:
		return in.refusal(2017)
	case j.States.JobEnded():
		return in.refusal(2021)
	}
	set(&j.Name, change.Name)
	set(&j.Comment, change.Comment)
	set(&j.AdminComment, change.AdminComment)
	if change.TimeLimit != nil {
		j.TimeLimit = change.TimeLimit.number()
	}
	m.Jobs[j.ID] = j
	m.writes++
	return success(field{"results", nil})
}

func set(to, from *string) {
	if from != nil {
		*to = *from
	}
}

func (m *Model) cancelBody(in inquiry, body []byte, now time.Time) Answer {
	var message struct {
		Jobs []string `json:"jobs"`
	}
	if err := json.Unmarshal(body, &message); err != nil {
		return in.refusal(-1)
	}
	return m.cancel(message.Jobs, now)
}

func (m *Model) cancel(targets []string, now time.Time) Answer {
	status := []any{}
	for _, target := range targets {
		j, ok := m.find(target)
		switch {
		case !ok:
			status = append(status, jobProblem(target, 2017, false))
		case j.States.JobEnded():
			status = append(status, jobProblem(target, 2021, true))
		default:
			m.SetState(j.ID, now, slurm.JobCancelled)
			m.writes++
		}
	}
	return success(field{"status", status})
}
