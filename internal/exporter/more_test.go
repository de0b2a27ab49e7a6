package exporter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// S124: whatever users invent, the number of series is bounded, and no number is lost.
func TestLimits(t *testing.T) {
	f := Facts{}
	for i := range 50 {
		f.Jobs = append(f.Jobs, slurm.Job{ID: uint32(i + 1), UserID: uint32(1000 + i), User: fmt.Sprintf("u%d", i), Account: fmt.Sprintf("a%d", i),
			Partition: "p", States: slurm.StatesOf("PENDING"), Reason: fmt.Sprintf("Reason%d", i)})
		f.Partitions = append(f.Partitions, slurm.Partition{Name: fmt.Sprintf("q%d", i)})
		f.Licenses = append(f.Licenses, slurm.License{Name: fmt.Sprintf("l%d", i)})
		n := aNode(fmt.Sprintf("n%02d", i), "IDLE")
		n.Partitions, n.GRES = []string{"p", fmt.Sprintf("q%d", i)}, fmt.Sprintf("gpu:t%d:1", i)
		f.Nodes = append(f.Nodes, n)
	}
	f.Jobs = append(f.Jobs, slurm.Job{ID: 99, UserID: 1049, User: "u49", Account: "a49", Partition: "p", States: slurm.StatesOf("PENDING")})
	got := series(t, f, Options{Limit: 3, NodeLimit: 10})
	want(t, got, map[string]float64{
		"slurm_user_jobs_pending{username=u49}": 2, "slurm_user_jobs_pending{username=_other}": 47,
		"slurm_user_jobs_pending_total{userid=_other,username=_other}": 47, "slurm_account_jobs_pending{account=_other}": 47,
		"slurm_partition_jobs_pending{partition=p}": 51, "slurm_partition_pending_jobs{partition=p,reason=_other}": 48,
		"slurm_partition_nodes{partition=p}": 50, "slurm_partition_nodes{partition=_other}": 48, "slurm_nodes": 50, "slurm_node_cpus{node=n09}": 16,
		"slurm_exporter_cut_values{label=user}": 47, "slurm_exporter_cut_values{label=node}": 40, "slurm_exporter_cut_values{label=partition}": 48,
		"slurm_exporter_cut_values{label=license}": 47, "slurm_exporter_cut_values{label=gres}": 47, "slurm_license_size{license=l0}": 0,
	})
	users, nodes := 0, 0
	for name := range got {
		if strings.HasPrefix(name, "slurm_user_jobs{") {
			users++
		}
		if strings.HasPrefix(name, "slurm_node_cpus{") {
			nodes++
		}
	}
	if users != 4 || nodes != 10 {
		t.Errorf("%d users and %d nodes have series", users, nodes)
	}
}

// Each NodeSet's workers are counted, and as many are wanted as run jobs, and as would let the waiting ones run.
func TestNodeSets(t *testing.T) {
	worker := func(name, set string, alloc int, states ...string) slurm.Node {
		n := aNode(name, states...)
		n.Comment = fmt.Sprintf(`{"namespace":"slurm","podName":"slurm-worker-%s","node":"k1","nodeSetName":"%s"}`, name, set)
		n.AllocCPUs, n.SlurmdStartTime = alloc, time.Unix(1e9, 0)
		n.GRES = "gpu:h100:4"
		return n
	}
	f := Facts{Now: time.Unix(2e9, 0), Nodes: []slurm.Node{
		worker("gpu-0", "gpu", 16, "ALLOCATED"), worker("gpu-1", "gpu", 0, "IDLE"), worker("gpu-2", "gpu", 0, "DOWN", "NOT_RESPONDING"),
		worker("cpu-0", "cpu", 0, "IDLE"), aNode("metal", "IDLE"),
	}}
	f.Nodes[3].Partitions = []string{"b"}
	f.Nodes[4].Partitions = []string{"c"}
	wanted := func(jobs ...slurm.Job) map[string]float64 {
		f.Jobs = append([]slurm.Job{{ID: 1, States: slurm.StatesOf("RUNNING"), Partition: "a", Nodes: "gpu-0", TRESAllocated: "cpu=16,node=1"}}, jobs...)
		return series(t, f, Options{})
	}
	labels := func(set string) string { return "{nodeset=" + set + ",nodeset_namespace=slurm}" }
	want(t, wanted(), map[string]float64{
		"slurm_nodeset_workers" + labels("gpu"): 3, "slurm_nodeset_workers_idle" + labels("gpu"): 1, "slurm_nodeset_workers_down" + labels("gpu"): 1,
		"slurm_nodeset_workers_wanted" + labels("gpu"): 2, "slurm_nodeset_waiting_jobs" + labels("gpu"): 0, "slurm_nodeset_gpus" + labels("gpu"): 12,
		"slurm_nodeset_workers_wanted" + labels("cpu"): 0, "slurm_nodeset_cpus_alloc" + labels("gpu"): 16,
	})
	pending := func(id uint32, nodes int) slurm.Job {
		return slurm.Job{ID: id, States: slurm.StatesOf("PENDING"), Partition: "a", Reason: "Resources", Priority: slurm.NumberOf(1),
			TRESRequested: fmt.Sprintf("cpu=%d,mem=%dM,node=%d", 16*nodes, 100*nodes, nodes), NodeCount: slurm.NumberOf(uint64(nodes)),
			CPUs: slurm.NumberOf(uint64(16 * nodes)), Tasks: slurm.NumberOf(uint64(nodes))}
	}
	held := pending(4, 9)
	held.Priority, held.Reason = slurm.NumberOf(0), "JobHeldUser"
	got := wanted(pending(2, 1), pending(3, 3), held)
	// One more runs on gpu-1; of the three for the other one, all must come.
	want(t, got, map[string]float64{"slurm_nodeset_workers_wanted" + labels("gpu"): 6, "slurm_nodeset_workers_wanted" + labels("cpu"): 0})
}

// What accounts and users were given, may have at once, and have.
func TestShares(t *testing.T) {
	half, level := 0.5, 2.0
	f := Facts{
		Shares: []slurm.Share{
			{Name: "root"}, {Name: "phys", Parent: "root", Shares: slurm.NumberOf(3), Normalized: &half, Usage: 100, EffectiveUsage: &half, Level: &level},
			{User: true, Name: "ann", Parent: "phys", Shares: slurm.NumberOf(1), Usage: 100, Factor: &half},
			{User: true, Name: "ann", Parent: "phys", Partition: "a", Shares: slurm.NumberOf(9)},
		},
		Associations: []slurm.Association{
			{AssociationKey: slurm.AssociationKey{Account: "phys"}, ParentAccount: "root", GrpTRES: "cpu=100,mem=1G,gres/gpu=8"},
			{AssociationKey: slurm.AssociationKey{Account: "lab"}, ParentAccount: "phys", GrpTRES: "oops"},
			{AssociationKey: slurm.AssociationKey{Account: "lab", User: "ann"}, MaxJobs: slurm.NumberOf(2), GrpJobs: slurm.NumberOf(5), MaxSubmitJobs: slurm.NumberOf(9)},
		},
		Jobs: []slurm.Job{
			{ID: 1, User: "ann", Account: "lab", States: slurm.StatesOf("RUNNING"), TRESAllocated: "cpu=10,mem=512M,gres/gpu=2,gres/gpu:h100=2"},
			{ID: 2, User: "bob", UserID: 1, Account: "phys", States: slurm.StatesOf("RUNNING"), TRESAllocated: "cpu=1"},
			{ID: 3, User: "ann", Account: "lab", States: slurm.StatesOf("PENDING"), ArrayTasks: "1-4"},
			{ID: 4, User: "ann", Account: "lab", States: slurm.StatesOf("COMPLETED"), TRESAllocated: "cpu=99"},
		},
	}
	got := series(t, f, Options{Vpenso: true})
	want(t, got, map[string]float64{
		"slurm_account_shares{account=phys}": 3, "slurm_account_fairshare_level{account=phys}": 2, "slurm_account_usage_billing_seconds{account=phys}": 100,
		"slurm_user_shares{account=phys,username=ann}": 1, "slurm_user_fairshare{account=phys,username=ann}": 0.5,
		"slurm_account_limit{account=phys,resource=cpu}": 100, "slurm_account_limit_used{account=phys,resource=cpu}": 11,
		"slurm_account_limit{account=phys,resource=mem}": 1 << 30, "slurm_account_limit_used{account=phys,resource=mem}": 512 << 20,
		"slurm_account_limit{account=phys,resource=gres/gpu}": 8, "slurm_account_limit_used{account=phys,resource=gres/gpu}": 2,
		"slurm_user_limit{account=lab,username=ann,resource=jobs}": 2, "slurm_user_limit_used{account=lab,username=ann,resource=jobs}": 1,
		"slurm_user_limit{account=lab,username=ann,resource=submitted_jobs}": 9, "slurm_user_limit_used{account=lab,username=ann,resource=submitted_jobs}": 5,
		"slurm_user_cpus_running{user=ann}": 10,
	})
	for name := range series(t, f, Options{NoUsers: true, NoAccounts: true}) {
		if strings.HasPrefix(name, "slurm_user_") || strings.HasPrefix(name, "slurm_account_") {
			t.Errorf("turned off, there is %s", name)
		}
	}
}
