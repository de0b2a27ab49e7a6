// Package worlds reads what Kubernetes and Slurm say at one moment, for package view: once,
// for a command, or all the time, for a page.
package worlds

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// Slurm is what is asked of Slurm.
type Slurm interface {
	Jobs(ctx context.Context) ([]slurm.Job, error)
	Nodes(ctx context.Context) ([]slurm.Node, error)
	Partitions(ctx context.Context) ([]slurm.Partition, error)
	Ping(ctx context.Context) ([]slurm.Ping, error)
	Allocation(ctx context.Context, id uint32) (slurm.Allocation, error)
	Associations(ctx context.Context, f slurm.AssociationFilter) ([]slurm.Association, error)
	QOSes(ctx context.Context) ([]slurm.QOS, error)
}

// Sources are the clusters to ask. Kube is nil where only Slurm is known, and Slurm
// where it can't be reached; SlurmError then says why.
type Sources struct {
	Kube          kubernetes.Interface
	SchedulerName string
	Slurm         Slurm
	SlurmURL      string
	SlurmError    error
	// SlurmAbsent is set where no Slurm is meant to be there.
	SlurmAbsent bool
	// bridge is what the installed bridge says about itself, nil where that isn't known; noBridge then is why.
	bridge   *bridge
	noBridge error
	// again finds the sources anew: what was away may have come.
	again func(ctx context.Context) (Sources, error)
	// Namespace is where to look for what may not be seen in all namespaces; "" for nowhere.
	Namespace string
}

// Want is what a question needs beyond jobs, pods and nodes.
type Want struct {
	// Namespace limits the pods; "" asks for all. Fallback is where to look for pods if all may not be seen.
	Namespace, Fallback string
	// Limits also reads the limits for which jobs wait.
	Limits bool
	// Allocations is how many allocations of running jobs to read at most, one call each;
	// of jobs on Node alone if that is set.
	Allocations int
	Node        string
	// Planners also reads what only they need.
	Planners bool
	// Salt is for the sums that stand for what may be secret in what planners need: random, and
	// different for each file, so that nobody can find out what they stand for.
	Salt []byte
}

// patience is how long one world may take to answer. Its end must not hide the other world.
const patience = 30 * time.Second

// Read asks both worlds at the same time. It never fails: what couldn't be read is told in the facts.
func (s Sources) Read(ctx context.Context, w Want) view.Facts {
	f := view.Facts{SchedulerName: s.SchedulerName}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var both sync.WaitGroup
	var kinds operatorKinds
	both.Go(func() { f.Kubernetes, kinds = s.kubernetes(bounded, w) })
	both.Go(func() { f.Slurm = s.slurm(bounded, w) })
	both.Wait()
	f.Taken = time.Now()
	if w.Planners && f.Kubernetes.Known {
		s.planners(ctx, w, &f, kinds)
	}
	view.Clean(&f)
	return f
}

func (s Sources) kubernetes(ctx context.Context, w Want) (k view.Kubernetes, kinds operatorKinds) {
	if s.Kube == nil {
		return view.Kubernetes{Absent: true}, kinds
	}
	k = view.Kubernetes{Source: view.Source{Read: time.Now()}, Namespace: w.Namespace}
	version, err := s.Kube.Discovery().ServerVersion()
	if err != nil {
		return view.Kubernetes{Source: view.Source{Error: fmt.Errorf("ask the API server: %w", err).Error()}}, kinds
	}
	k.Version = version.GitVersion
	// lacks notes a part that can't be had, as the rest of the world is worth seeing.
	lacks := func(what, right string, err error) {
		p := view.Part{What: what, Error: err.Error(), Forbidden: apierrors.IsForbidden(err)}
		if p.Forbidden {
			p.Error = right
			k.Hidden = append(k.Hidden, what+" are not shown: "+right)
		}
		k.Missing = append(k.Missing, p)
	}
	if k.Nodes, err = s.nodes(ctx); err != nil {
		lacks(view.PartNodes, lacking("list", "nodes", ""), err)
	}
	k.Pods, err = s.pods(ctx, w.Namespace)
	if apierrors.IsForbidden(err) && w.Namespace == "" && w.Fallback != "" {
		k.Namespace = w.Fallback
		if k.Pods, err = s.pods(ctx, w.Fallback); err == nil {
			k.Hidden = append(k.Hidden, degraded(view.PartPods, way{namespace: w.Fallback, lacks: []string{lacking("list", "pods", "")}})...)
		}
	}
	if err != nil {
		lacks(view.PartPods, lacking("list", "pods", k.Namespace), err)
	}
	note, err := listVisible(ctx, s.Kube, "controllers", w.Fallback, &kinds.controllers)
	if err != nil {
		lacks(view.PartControllers, lacking("list", "controllers."+v1beta1.GroupVersion.Group, w.Fallback), err)
	}
	if note != "" {
		k.Hidden = append(k.Hidden, note)
	}
	for i := range kinds.controllers.Items {
		k.Controllers = append(k.Controllers, controller(&kinds.controllers.Items[i]))
	}
	if note, err = listVisible(ctx, s.Kube, "nodesets", w.Fallback, &kinds.sets); err != nil {
		lacks(view.PartNodeSets, lacking("list", "nodesets."+v1beta1.GroupVersion.Group, w.Fallback), err)
	}
	if note != "" {
		k.Hidden = append(k.Hidden, note)
	}
	for i := range kinds.sets.Items {
		k.NodeSets = append(k.NodeSets, nodeSet(&kinds.sets.Items[i]))
	}
	k.Known = true
	return k, kinds
}

func controller(c *v1beta1.Controller) view.Controller {
	return view.Controller{Namespace: c.Namespace, Name: c.Name, Conditions: c.Status.Conditions}
}

func nodeSet(n *v1beta1.NodeSet) view.NodeSet {
	return view.NodeSet{
		Namespace: n.Namespace, Name: n.Name, Controller: n.Spec.ControllerRef.Name, Desired: n.Status.Desired, Ready: n.Status.ReadyReplicas,
		Idle: n.Status.SlurmIdle, Busy: n.Status.SlurmAllocated, Down: n.Status.SlurmDown, Drained: n.Status.SlurmDrain, Conditions: n.Status.Conditions,
	}
}

// page is how many objects one answer of the API server brings.
const page = 1000

func (s Sources) nodes(ctx context.Context) ([]corev1.Node, error) {
	var out []corev1.Node
	for o := (metav1.ListOptions{Limit: page}); ; {
		list, err := s.Kube.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		for i := range list.Items {
			out = append(out, view.SlimNode(&list.Items[i]))
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return out, nil
		}
	}
}

func (s Sources) pods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	var out []corev1.Pod
	for o := (metav1.ListOptions{Limit: page}); ; {
		list, err := s.Kube.CoreV1().Pods(namespace).List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		for i := range list.Items {
			out = append(out, view.SlimPod(&list.Items[i]))
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return out, nil
		}
	}
}

func (s Sources) slurm(ctx context.Context, w Want) view.Slurm {
	f := view.Slurm{URL: s.SlurmURL, Absent: s.SlurmAbsent}
	if s.Slurm == nil {
		f.Error = cmp.Or(s.SlurmError, errNoSlurm).Error()
		return f
	}
	f.Read = time.Now()
	jobs, err := s.Slurm.Jobs(ctx)
	if err == nil {
		f.Nodes, err = s.Slurm.Nodes(ctx)
	}
	if err != nil {
		return view.Slurm{URL: s.SlurmURL, Source: view.Source{Error: err.Error()}}
	}
	f.Known = true
	for i := range jobs {
		f.Jobs = append(f.Jobs, view.SlimJob(jobs[i]))
	}
	for i := range f.Nodes {
		f.Nodes[i] = view.SlimSlurmNode(f.Nodes[i])
	}
	if f.Partitions, err = s.Slurm.Partitions(ctx); err != nil {
		f.Missing = append(f.Missing, view.Part{What: view.PartPartitions, Error: err.Error()})
	}
	if f.Controllers, err = s.Slurm.Ping(ctx); err != nil {
		f.Missing = append(f.Missing, view.Part{What: view.PartPings, Error: err.Error()})
	}
	if w.Limits {
		s.limits(ctx, &f)
	}
	f.Allocations = s.allocations(ctx, f, w)
	return f
}

// limits reads what accounts and QOS allow, where a job waits for that. Many may not read
// it, and a Slurm may have no accounting: then the explanation is without it.
func (s Sources) limits(ctx context.Context, f *view.Slurm) {
	var accounts []string
	for i := range f.Jobs {
		if j := &f.Jobs[i]; j.States.Has(slurm.JobPending) && explain.WaitsForLimit(j.Reason) && j.Account != "" {
			accounts = append(accounts, j.Account)
		}
	}
	slices.Sort(accounts)
	if accounts = slices.Compact(accounts); len(accounts) == 0 {
		return
	}
	f.Associations, _ = s.Slurm.Associations(ctx, slurm.AssociationFilter{Accounts: accounts})
	f.QOS, _ = s.Slurm.QOSes(ctx)
}

// allocations reads which cores running jobs have, a few at a time. What can't be read is left out.
func (s Sources) allocations(ctx context.Context, f view.Slurm, w Want) []slurm.Allocation {
	const atOnce = 4
	wanted := namesOf(f.Nodes, w.Node)
	var ids []uint32
	for i := range f.Jobs {
		if j := &f.Jobs[i]; len(ids) < w.Allocations && Running(j) && (w.Node == "" || holds(j, wanted)) {
			ids = append(ids, j.ID)
		}
	}
	got := make([]slurm.Allocation, len(ids))
	var workers sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		workers.Go(func() {
			for i := range next {
				if a, err := s.Slurm.Allocation(ctx, ids[i]); err == nil {
					got[i] = a
				}
			}
		})
	}
	for i := range ids {
		next <- i
	}
	close(next)
	workers.Wait()
	return slices.DeleteFunc(got, func(a slurm.Allocation) bool { return a.JobID == 0 })
}

// namesOf are the Slurm nodes that a name may mean: one of that name, or those on a Kubernetes node of that name.
func namesOf(nodes []slurm.Node, name string) []string {
	var out []string
	for i := range nodes {
		n := &nodes[i]
		worker, _ := workernode.MarkOf(*n)
		external := mirror.MarkOf(n)
		if n.Name == name || worker.Node == name || external != nil && external.Node == name {
			out = append(out, n.Name)
		}
	}
	return out
}

// Running tells whether a job holds nodes, so that it has an allocation to be read.
func Running(j *slurm.Job) bool {
	return j.Nodes != "" && j.States.HasAny(slurm.JobRunning, slurm.JobSuspended) && !j.States.JobEnded()
}

func holds(j *slurm.Job, nodes []string) bool {
	names, err := hostlist.Expand(j.Nodes)
	return err == nil && slices.ContainsFunc(names, func(n string) bool { return slices.Contains(nodes, n) })
}
