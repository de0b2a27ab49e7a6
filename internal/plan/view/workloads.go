package view

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/policy"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Gathered are the workloads of one key, or why they can't be told.
type Gathered struct {
	Key       workload.Key
	Workloads []workload.Observed
	Err       error
}

// workloadPlans runs the planner that asks Slurm for jobs for pods. It also returns the pods, as
// namespace/name, of which it says what happens to them.
func (m *Model) workloadPlans() (out []Planned, told map[string]bool) {
	why := m.noBridge()
	switch {
	case why != "":
	case m.Bridge == nil:
		return nil, nil
	case !m.Slurm.Known:
		why = "Slurm couldn't be asked: " + m.Slurm.Error
	case !m.Kubernetes.has(PartPods):
		why = lacking(PartPods, cmp.Or(m.Kubernetes.why(PartPods), m.Kubernetes.Error))
	case m.Bridge.Groups == nil:
		why = lacking("what tells which pods start together", olderFile)
	}
	if why != "" {
		return []Planned{{Planner: PlannerWorkloads, About: "all workloads", Unplanned: why}}, nil
	}
	told = map[string]bool{}
	for _, g := range m.Gather() {
		p := Planned{Planner: PlannerWorkloads, About: g.Key.String()}
		if g.Err != nil {
			p.Unplanned = g.Err.Error()
			out = append(out, p)
			continue
		}
		for _, o := range g.Workloads {
			for _, s := range workload.Next(o) {
				step := m.workloadStep(o, s)
				p.Steps = append(p.Steps, step)
				for _, pod := range step.Pods {
					told[pod] = true
				}
			}
		}
		if len(p.Steps) > 0 {
			out = append(out, p)
		}
	}
	return out, told
}

// Gather returns what the bridge knows of each of its workloads, in the order of their names.
func (m *Model) Gather() []Gathered {
	g := m.grouper()
	byKey := map[workload.Key][]*corev1.Pod{}
	for i := range m.Kubernetes.Pods {
		if pod := &m.Kubernetes.Pods[i]; pod.Spec.SchedulerName == m.Bridge.Policy.SchedulerName {
			key := g.Kinds.KeyOf(pod)
			byKey[key] = append(byKey[key], pod)
		}
	}
	jobs := m.jobsByID(byKey)
	out := make([]Gathered, 0, len(byKey))
	for key, pods := range byKey {
		found := Gathered{Key: key}
		found.Workloads, found.Err = g.gather(key, pods)
		for i := range found.Workloads {
			o := &found.Workloads[i]
			o.Cluster = m.Bridge.Policy.Cluster
			o.Jobs = naming(jobs, o.IDs())
		}
		out = append(out, found)
	}
	slices.SortFunc(out, func(a, b Gathered) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), workload.CompareNatural(a.Key.Name, b.Key.Name),
			cmp.Compare(a.Key.Kind, b.Key.Kind), cmp.Compare(a.Key.UID, b.Key.UID))
	})
	return out
}

// gather returns the workloads of a key with the rules of their namespace.
func (g *grouper) gather(key workload.Key, pods []*corev1.Pod) ([]workload.Observed, error) {
	if err := g.lacks(PartRules, key.Namespace); err != nil {
		return nil, err
	}
	out, err := g.Kinds.Gather(key, pods, workload.Reader{Objects: g.objects, Owner: g.owner})
	if err != nil {
		return nil, err
	}
	rules := policy.For(g.Rules, key.Namespace, g.Namespaces[key.Namespace], g.Book)
	for i := range out {
		rules.Apply(&out[i].Group)
	}
	return out, nil
}

// jobsByID are the bridge's jobs by the UIDs that they carry. A job whose mark somebody has
// overwritten is known by what its pods say of it.
func (m *Model) jobsByID(pods map[workload.Key][]*corev1.Pod) map[types.UID][]slurm.Job {
	said := map[uint32][]*corev1.Pod{}
	for _, list := range pods {
		for _, pod := range list {
			if _, id, ok := workload.RecordOf(pod); ok {
				said[id] = append(said[id], pod)
			}
		}
	}
	cluster := m.Bridge.Policy.Cluster
	out := map[types.UID][]slurm.Job{}
	for _, j := range m.Slurm.Jobs {
		mark, ours := workload.Owned(j, cluster)
		if !ours {
			c, remembered := workload.Remembered(j, said[j.ID], cluster)
			if !remembered {
				continue
			}
			j.AdminComment = c.Encode()
			mark = *c.Mark
		}
		for _, uid := range append([]types.UID{mark.Workload}, mark.Pods...) {
			if uid != "" {
				out[uid] = append(out[uid], j)
			}
		}
	}
	return out
}

// naming returns the jobs that carry one of the UIDs, by id.
func naming(jobs map[types.UID][]slurm.Job, ids []types.UID) []slurm.Job {
	var out []slurm.Job
	for _, uid := range ids {
		for _, j := range jobs[uid] {
			if !slices.ContainsFunc(out, func(o slurm.Job) bool { return o.ID == j.ID }) {
				out = append(out, j)
			}
		}
	}
	slices.SortFunc(out, func(a, b slurm.Job) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// workloadStep is a step of the bridge's planner in words.
func (m *Model) workloadStep(o workload.Observed, s workload.Step) Step {
	out := Step{On: podNames(s.Pods), Job: s.Job.ID}
	for _, pod := range s.Pods {
		out.Pods = append(out.Pods, pod.Namespace+"/"+pod.Name)
	}
	job := fmt.Sprintf("Slurm job %d", s.Job.ID)
	switch s.Kind {
	case workload.StepWait:
		out.Do, out.Why = "wait", s.Reason
	case workload.StepQueued:
		out.Do, out.Why = "leave "+job+" in the queue", explain.Waiting(s.Job, m.queue, m.Taken)
	case workload.StepSubmit:
		out.Do, out.Why = m.submit(o, s)
	case workload.StepPlace:
		out.Do, out.Why = "place on the nodes of "+job, fmt.Sprintf("it runs on %s", s.Job.Nodes)
	case workload.StepRejoin:
		out.Do, out.Why = "let join "+job, "it has places of members that have gone, or that were kept"
	case workload.StepUpdate:
		out.Do, out.Why = "change "+job, "it waits, and asks for something else than its workload is by now"
	case workload.StepCancel:
		out.Do, out.Why = "cancel "+job, s.Reason
	default:
		out.Do, out.Why = string(s.Kind), s.Reason
	}
	return out
}

// submit is a step that asks for a job, unless something holds that back.
func (m *Model) submit(o workload.Observed, s workload.Step) (do, why string) {
	last, wait := workload.ResubmitAfter(o, s.Pods, m.Taken)
	switch n := len(s.Pods); {
	case o.Group.Forbidden != nil:
		return "wait", "no job is allowed: " + o.Group.Forbidden.Error()
	case wait > 0:
		return "wait", fmt.Sprintf("%s before the pod started; a new job follows in %s", explain.Ended(last), explain.Span(wait))
	case s.Extra:
		why = "its workload has started, and this pod has no job yet"
	case n == 1:
		why = "it has no job yet"
	case s.Least < n:
		why = fmt.Sprintf("%d pods have no job yet: one for all if there is room at once, else for the first %d", n, s.Least)
	default:
		why = fmt.Sprintf("all %d pods that start together are there", n)
	}
	for _, c := range s.Pods[0].Status.Conditions {
		if c.Type == v1beta1.ConditionSlurmScheduled && c.Status == corev1.ConditionFalse && explain.ConditionNeedsPerson(c.Reason) {
			why += "; the last try failed: " + c.Message
		}
	}
	return "ask Slurm for a job", why
}

// mostNames is how many pods of a step are named.
const mostNames = 4

func podNames(pods []*corev1.Pod) string {
	if len(pods) == 1 {
		return "pod " + pods[0].Name
	}
	if len(pods) == 0 {
		return ""
	}
	if len(pods) <= mostNames {
		return "pods " + workload.Names(pods)
	}
	return fmt.Sprintf("pods %s and %d more", workload.Names(pods[:mostNames-1]), len(pods)-mostNames+1)
}
