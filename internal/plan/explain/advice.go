package explain

import (
	"fmt"
	"strings"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// conditionAdvice is what to do about a pod that has no job, by the reason of its condition.
var conditionAdvice = map[string][]string{
	"NoUsableNode": {
		"change the pod's nodeSelector, affinity or requests, or give nodes to Slurm: kubectl label node NODE " + v1beta1.LabelExternalNode + "=",
		"see what Slurm has: sinfo --Node --long",
	},
	"InvalidJob":       {"correct what the sentence names, and create the pod anew"},
	"RefusedBySlurm":   {"correct the annotation that Slurm's error is about, or ask Slurm's administrator: sacctmgr show assoc, scontrol show partition"},
	"CannotPlace":      {"tell the bridge which Kubernetes node it is: kubectl label node NODE " + v1beta1.LabelSlurmNodeName + "=NAME"},
	"SlurmUnavailable": {"see whether slurmrestd and slurmctld run; the pod goes on by itself when they answer"},
}

// advice is what to do about a job that waits.
func advice(j slurm.Job, b *Block) []string {
	word := firstWord(j.Reason)
	if b != nil && b.Limit != nil {
		return limitAdvice(b.Limit)
	}
	switch word {
	case "JobHeldUser", "JobHeldAdmin":
		return []string{fmt.Sprintf("release it: scontrol release %d", j.ID)}
	case "Dependency":
		return []string{"wait for what it depends on: " + j.Dependency}
	case "DependencyNeverSatisfied":
		return []string{"delete the pod; what it depends on can't end as asked: " + j.Dependency}
	case "PartitionDown", "PartitionInactive":
		return []string{fmt.Sprintf("ask the administrator: scontrol update partitionname=%s state=up", j.Partition)}
	case "PartitionTimeLimit":
		return []string{fmt.Sprintf("give it less time (annotation %s), or another partition: scontrol show partition %s", v1beta1.AnnotationTimeLimit, j.Partition)}
	case "PartitionNodeLimit", "PartitionConfig":
		return []string{"ask for less, or another partition: scontrol show partition " + j.Partition}
	case "BadConstraints":
		return []string{"no node has what it asks for together: compare its features and size with sinfo --Node --long"}
	case "AccountNotAllowed", "InvalidAccount", "QOSNotAllowed", "InvalidQOS":
		return []string{fmt.Sprintf("use another account or QOS (annotations %s, %s): sacctmgr show assoc", v1beta1.AnnotationAccount, v1beta1.AnnotationQOS)}
	case "Licenses":
		return []string{"wait for licenses (" + j.Licenses + "): scontrol show licenses"}
	case "Reservation", "ReservationDeleted":
		return []string{"see its reservation " + j.Reservation + ": scontrol show reservation"}
	case "Priority":
		return []string{fmt.Sprintf("nothing: its turn comes. What its priority is made of: sprio --jobs=%d", j.ID), timeAdvice(j)}
	case "Resources", "ReqNodeNotAvail", "NodeDown", "", "None":
		out := []string{"nothing: it starts when nodes are free", timeAdvice(j)}
		if b != nil && len(b.Unusable) > 0 {
			out = append(out, fmt.Sprintf("get nodes back that take no jobs (%s): sinfo --list-reasons", brief(b.Unusable)))
		}
		return out
	}
	return nil
}

// timeAdvice is about what lets Slurm start a job in a gap, "" where it has that.
func timeAdvice(j slurm.Job) string {
	if _, finite := j.TimeLimit.Get(); finite {
		return ""
	}
	return fmt.Sprintf("give pods a time limit (annotation %s, in minutes): Slurm then fits them into gaps", v1beta1.AnnotationTimeLimit)
}

func limitAdvice(l *Limit) []string {
	what := "sacctmgr show assoc where account=" + l.Name
	if l.Of == "QOS" {
		what = "sacctmgr show qos " + l.Name
	}
	if l.Of == "partition" {
		what = "scontrol show partition " + l.Name
	}
	if l.never {
		return []string{"ask for less, or have the limit raised: " + what}
	}
	return []string{"wait until jobs that count against the limit end, or have it raised: " + what}
}

// brief names the first of a list.
func brief(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// ConditionNeedsPerson tells whether a pod without a job waits for ever unless somebody does
// something, by the reason of its condition.
func ConditionNeedsPerson(reason string) bool {
	return len(conditionAdvice[reason]) > 0 && reason != "SlurmUnavailable"
}
