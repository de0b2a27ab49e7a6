// Package environment plans what containers are told by environment variables: how many
// CPUs they have, and their place in the Slurm job.
package environment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// Groups are the groups of variables that containers are given.
type Groups struct {
	// Threads: how many threads libraries start, and how many CPUs the container has.
	Threads bool
	// Slurm: what srun tells a task about its job.
	Slurm bool
	// Peers: the names of the job's pods.
	Peers bool
	// Ranks: what PyTorch and its like read.
	Ranks bool
}

// Parse reads a comma list of groups.
func Parse(text string) (Groups, error) {
	var g Groups
	for word := range strings.SplitSeq(text, ",") {
		switch strings.ToLower(strings.TrimSpace(word)) {
		case "threads":
			g.Threads = true
		case "slurm":
			g.Slurm = true
		case "peers":
			g.Peers = true
		case "ranks":
			g.Ranks = true
		case "all":
			g = Groups{Threads: true, Slurm: true, Peers: true, Ranks: true}
		case "none", "":
		default:
			return g, fmt.Errorf("%q is none of threads, slurm, peers, ranks, all and none", strings.TrimSpace(word))
		}
	}
	return g, nil
}

// threadNames are the variables that hold a number of threads.
func threadNames() []string {
	return []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "GOMAXPROCS"}
}

// Add gives the containers of a new pod the variables of the groups. What a container has
// already stays. Asked tells that the pod asked for the groups itself.
func Add(pod *corev1.Pod, g Groups, asked bool) {
	placed := placeVariables(g)
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if g.Threads && !sidecar {
			addThreads(pod, c, asked)
		}
		add(c, placed...)
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if g.Threads {
			addThreads(pod, c, asked)
		}
		add(c, placed...)
	}
}

// addThreads adds what follows from a container's CPUs. A variable of ours would count more
// than one from a ConfigMap or Secret, whose content isn't known here: such containers only
// get numbers of threads when the pod asks for them.
func addThreads(pod *corev1.Pod, c *corev1.Container, asked bool) {
	n := CPUs(pod, c)
	if n == 0 {
		return
	}
	text := strconv.FormatInt(n, 10)
	if len(c.EnvFrom) == 0 || asked {
		for _, name := range threadNames() {
			add(c, corev1.EnvVar{Name: name, Value: text})
		}
	}
	add(c, corev1.EnvVar{Name: "SLURM_CPUS_PER_TASK", Value: text}, corev1.EnvVar{Name: "SLURM_CPUS_ON_NODE", Value: text})
}

// CPUs returns how many CPUs a container has, 0 where neither it nor its pod says it. Parts
// of a CPU count as a whole one, as they do in the pod's Slurm job.
func CPUs(pod *corev1.Pod, c *corev1.Container) int64 {
	sources := []corev1.ResourceRequirements{c.Resources}
	if pod.Spec.Resources != nil {
		sources = append(sources, *pod.Spec.Resources)
	}
	for _, r := range sources {
		for _, name := range []corev1.ResourceName{workload.ResourceCPUClass, corev1.ResourceCPU} {
			for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
				if q, ok := list[name]; ok && q.Sign() > 0 {
					return q.Value()
				}
			}
		}
	}
	return 0
}

// placeVariables are those that refer to what is only known once the pod has its node.
func placeVariables(g Groups) []corev1.EnvVar {
	var out []corev1.EnvVar
	if g.Slurm {
		out = append(out,
			fromPod("SLURM_JOB_ID", "labels", v1beta1.LabelJobID),
			fromPod("SLURM_JOB_NODELIST", "annotations", v1beta1.AnnotationNodeList),
			fromPod("SLURM_JOB_NUM_NODES", "annotations", v1beta1.AnnotationNodeCount),
			fromPod("SLURM_NTASKS", "annotations", v1beta1.AnnotationSize),
			fromPod("SLURM_PROCID", "annotations", v1beta1.AnnotationRank),
			fromPod("SLURM_LOCALID", "annotations", v1beta1.AnnotationLocalRank),
			fromPod("SLURM_NODEID", "annotations", v1beta1.AnnotationNodeID),
			fromPod("SLURMD_NODENAME", "annotations", v1beta1.AnnotationNodeName),
		)
	}
	if g.Peers {
		out = append(out, fromPod("SLINKY_PEERS", "annotations", v1beta1.AnnotationPeers))
	}
	if g.Ranks {
		out = append(out,
			fromPod("RANK", "annotations", v1beta1.AnnotationRank),
			fromPod("WORLD_SIZE", "annotations", v1beta1.AnnotationSize),
			fromPod("LOCAL_RANK", "annotations", v1beta1.AnnotationLocalRank),
			fromPod("MASTER_ADDR", "annotations", v1beta1.AnnotationFirstPeer),
		)
	}
	return out
}

func fromPod(name, field, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
		APIVersion: "v1", FieldPath: "metadata." + field + "['" + key + "']",
	}}}
}

// add adds variables that a container doesn't have.
func add(c *corev1.Container, all ...corev1.EnvVar) {
	for _, v := range all {
		if !slices.ContainsFunc(c.Env, func(have corev1.EnvVar) bool { return have.Name == v.Name }) {
			c.Env = append(c.Env, v)
		}
	}
}
