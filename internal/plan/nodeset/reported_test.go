package nodeset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// These tests follow defects that users of other operators have reported. Sxxx are the numbers of the cases.

// S001: a record that the operator itself left down and drained stands in the way of nothing.
func TestS001UpdateOfDaemonsGoesOnAfterOurOwnDown(t *testing.T) {
	const ours = v1beta1.OperatorReasonPrefix + "Pod is terminating"
	f := daemons("a", "b")
	one, name := *f.Pods[0].DeepCopy(), f.Pods[0].Name
	f.NodeSet.Spec.Slurmd = raw(`{"image":"slurmd:new"}`)
	f.NodeSet.Spec.UpdateStrategy = v1beta1.NodeSetUpdateStrategy{Type: v1beta1.UpdateRolling, RollingUpdate: &v1beta1.RollingUpdate{MaxUnavailable: new(intstr.FromInt32(1))}}
	f = f.settled()
	f.Pods = f.Pods[1:]
	down := func(states ...string) {
		f.Slurm.Nodes["a"] = slurm.Node{Name: "a", Reason: ours, States: slurm.StatesOf(states...)}
	}
	for _, states := range [][]string{{"DOWN", "DRAIN"}, {"DOWN", "DRAIN", "NOT_RESPONDING"}, {"DOWN"}, {"IDLE", "DRAIN"}} {
		down(states...)
		wantSteps(t, f, "create "+name+": 1 of 2 workers exist")
	}

	hash, err := revision(f.NodeSet)
	if err != nil {
		t.Fatal(err)
	}
	one.Labels[v1beta1.LabelRevisionHash] = hash
	setReady(&one, false, f.Now)
	f.Pods = append(f.Pods, one)
	down("DOWN", "DRAIN")
	wantSteps(t, f) // the second node waits for the first
	setReady(&f.Pods[1], true, f.Now)
	if got := steps(Make(f)); !slices.Contains(got, "resume a: its new pod is ready") {
		t.Errorf("its new pod is ready: %v", got)
	}
	down("IDLE", "DRAIN")
	if got := steps(Make(f)); !slices.Contains(got, "undrain a: the cause of the drain is gone: "+ours) {
		t.Errorf("its slurmd has registered again: %v", got)
	}
	f.Slurm.Nodes["a"] = slurm.Node{Name: "a", States: slurm.StatesOf("IDLE")}
	wantSteps(t, f, "drain b: pod slurm/"+f.Pods[0].Name+" is to be removed: update to the new pod template")
}

// S026: all that a pod is made from makes a revision, and nothing else.
func TestS026WhatMakesARevision(t *testing.T) {
	cases := map[string]struct {
		change func(*v1beta1.NodeSet)
		same   bool
	}{
		"slurmd.image":         {change: func(n *v1beta1.NodeSet) { n.Spec.Slurmd = raw(`{"image":"x"}`) }},
		"slurmd memory limit":  {change: func(n *v1beta1.NodeSet) { n.Spec.Slurmd = raw(`{"resources":{"limits":{"memory":"3Gi"}}}`) }},
		"logfile.resources":    {change: func(n *v1beta1.NodeSet) { n.Spec.LogFile = raw(`{"resources":{"limits":{"memory":"9Mi"}}}`) }},
		"extraConf":            {change: func(n *v1beta1.NodeSet) { n.Spec.ExtraConf = "Weight=3" }},
		"ordinalPadding":       {change: func(n *v1beta1.NodeSet) { n.Spec.OrdinalPadding = 3 }},
		"ssh.enabled":          {change: func(n *v1beta1.NodeSet) { n.Spec.Ssh = &v1beta1.NodeSetSsh{Enabled: true} }},
		"template":             {change: func(n *v1beta1.NodeSet) { n.Spec.Template.PodSpec = raw(`{"hostname":"x-"}`) }},
		"template's labels":    {change: func(n *v1beta1.NodeSet) { n.Spec.Template.Metadata.Labels = map[string]string{"a": "b"} }},
		"the NodeSet's labels": {change: func(n *v1beta1.NodeSet) { n.Labels = map[string]string{"a": "b"} }, same: true},
		"replicas":             {change: func(n *v1beta1.NodeSet) { n.Spec.Replicas = new(int32(7)) }, same: true},
		"partition":            {change: func(n *v1beta1.NodeSet) { n.Spec.Partition.Config = "MaxTime=1" }, same: true},
		"updateStrategy":       {change: func(n *v1beta1.NodeSet) { n.Spec.UpdateStrategy.Type = v1beta1.UpdateOnDelete }, same: true},
	}
	before, err := revision(facts(1).NodeSet)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := facts(1).NodeSet
			tc.change(n)
			after, err := revision(n)
			if err != nil || (after == before) != tc.same {
				t.Errorf("revision %s was %s, want the same: %v; %v", after, before, tc.same, err)
			}
		})
	}

	// The record of the old pod goes before the new pod comes, which then registers with its own memory.
	f := facts(1).withPod("cpu-0", "IDLE", "DRAIN").withReason("cpu-0", v1beta1.OperatorReasonPrefix+"x")
	f.Pods = nil
	wantSteps(t, f.settled(), "forget cpu-0: its pod is gone", "create cpu-0: 0 of 1 workers exist")
}

// S044: names of Kubernetes nodes are cut to their first part where that is unique, and no
// name is too long for the labels that hold it.
func TestS044LongNames(t *testing.T) {
	const aws = "ip-10-0-12-34.eu-north-1.compute.internal"
	f := daemons(aws)
	f.Pods = nil
	f.NodeSet.Name = strings.Repeat("n", 60)
	plan := Make(f)
	var pod *corev1.Pod
	for _, s := range plan.Steps {
		if s.Action == CreatePod {
			pod = s.Pod
		}
	}
	if pod == nil || len(plan.Problems) > 0 {
		t.Fatalf("no pod is made: %v, %v", steps(plan), plan.Problems)
	}
	if pod.Spec.Hostname != "ip-10-0-12-34" {
		t.Errorf("host name %q", pod.Spec.Hostname)
	}
	for key, value := range pod.Labels {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Errorf("label %s is %q: %v", key, value, problems)
		}
	}
	other := f
	other.NodeSet = f.NodeSet.DeepCopy()
	other.NodeSet.Name = f.NodeSet.Name[:59] + "m"
	if p := (&planner{Facts: other}); p.podName(aws) == pod.Name {
		t.Error("NodeSets that differ at the end of their names have pods of one name")
	}

	f = daemons(aws)
	f.Nodes["ip-10-0-12-34.other.example.com"] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-10-0-12-34.other.example.com"}}
	if plan = Make(f); len(plan.Problems) != 1 || !strings.Contains(plan.Problems[0].Message, "would both be Slurm node ip-10-0-12-34") {
		t.Errorf("two nodes of one short name: %v", plan.Problems)
	}

	f = facts(10001)
	f.NodeSet.Name = strings.Repeat("n", 60)
	if plan = Make(f); len(plan.Problems) == 0 || !strings.Contains(plan.Problems[0].Message, "must be no more than 63") {
		t.Errorf("an ordinal that doesn't fit: %v", plan.Problems)
	}
}

// S049: a replaced machine takes over the name of the old one, and the operator lifts only what it set itself.
func TestS049ReplacedMachine(t *testing.T) {
	for reason, want := range map[string][]string{
		v1beta1.OperatorReasonPrefix + "Kubernetes node a is not ready": {
			"undrain a: the cause of the drain is gone: " + v1beta1.OperatorReasonPrefix + "Kubernetes node a is not ready"},
		"bad DIMM, ticket 7": nil,
	} {
		f := daemons("a")
		name := f.Pods[0].Name
		f.Nodes["a"].UID, f.Nodes["a"].Spec.ProviderID = types.UID("new"), "cloud://new"
		f.Slurm.Nodes["a"] = slurm.Node{Name: "a", Reason: reason, States: slurm.StatesOf("DOWN", "DRAIN", "NOT_RESPONDING")}
		pods := f.Pods
		f.Pods = nil
		wantSteps(t, f, "create "+name+": 0 of 1 workers exist")
		f.Pods = pods
		f.Slurm.Nodes["a"] = slurm.Node{Name: "a", Reason: reason, States: slurm.StatesOf("IDLE", "DRAIN")}
		wantSteps(t, f, want...)
	}
	f := facts(1).withPod("cpu-0", "DOWN", "POWERED_DOWN").settled()
	setReady(&f.Pods[0], false, f.Now)
	if s := Make(f).Status; s.ReadyReplicas != 0 || s.UnavailableReplicas != 1 || s.SlurmDown != 1 {
		t.Errorf("a worker that never came up isn't reported: %+v", s)
	}
}

// S008: every permutation of the pods has the same victims.
func TestS008VictimsDoNotDependOnTheOrder(t *testing.T) {
	f := facts(4)
	for i, states := range [][]string{{"IDLE"}, {"ALLOCATED"}, {"MIXED"}, {"IDLE"}, {"IDLE"}, {"IDLE"}} {
		f = f.withPod(fmt.Sprintf("cpu-%d", i), states...)
	}
	f = f.settled()
	setReady(&f.Pods[3], false, f.Now)
	f.Pods[4].Annotations = map[string]string{v1beta1.AnnotationPodCordon: "true"}
	victims := func(f Facts) string {
		var out []string
		for _, s := range Make(f).Steps {
			if (s.Action == Drain || s.Action == DeletePod) && strings.Contains(s.String(), "scale-in") {
				out = append(out, s.String())
			}
		}
		slices.Sort(out)
		return strings.Join(out, "\n")
	}
	want := victims(f)
	if !strings.Contains(want, "cpu-3") || !strings.Contains(want, "cpu-4") || strings.Count(want, "\n") != 1 {
		t.Fatalf("victims:\n%s\nwant the one that isn't ready and the one that is cordoned", want)
	}
	rnd := newWorld(t, 8).rnd
	for range 100 {
		rnd.Shuffle(len(f.Pods), func(i, j int) { f.Pods[i], f.Pods[j] = f.Pods[j], f.Pods[i] })
		if got := victims(f); got != want {
			t.Fatalf("in another order:\n%s\nwant\n%s", got, want)
		}
	}
}

// S192: a worker that is there long before its controller isn't ended while it waits, as it
// would then be started again later and later.
func TestS192WorkersWaitForTheController(t *testing.T) {
	plan := wantSteps(t, facts(1).settled(), "create cpu-0: 0 of 1 workers exist")
	for _, s := range plan.Steps {
		if s.Action != CreatePod {
			continue
		}
		probe := s.Pod.Spec.Containers[0].StartupProbe
		if waits := time.Duration(probe.PeriodSeconds*probe.FailureThreshold) * time.Second; waits < time.Hour || probe.PeriodSeconds > 10 {
			t.Errorf("slurmd is ended after %s, and seen to be up within %d s", waits, probe.PeriodSeconds)
		}
	}
}

// S193: the kubelet never changes a file that is mounted by subPath. What follows its source is mounted as a folder.
func TestS193ConfigurationIsMountedAsAFolder(t *testing.T) {
	for _, s := range Make(facts(1)).Steps {
		if s.Action != CreatePod {
			continue
		}
		for _, c := range slices.Concat(s.Pod.Spec.InitContainers, s.Pod.Spec.Containers) {
			for _, m := range c.VolumeMounts {
				if m.SubPath != "" || m.SubPathExpr != "" {
					t.Errorf("container %s: %s is mounted by subPath", c.Name, m.MountPath)
				}
			}
		}
	}
}

// S162: slurmd is told its memory in MiB, rounded down.
func TestS162MemoryInMiB(t *testing.T) {
	for limit, want := range map[string]string{
		"4Gi": "4096", "4G": "3814", "4096Mi": "4096", "4194304Ki": "4096", "4294967296": "4096", "4.5Gi": "4608", "": "0",
	} {
		f := facts(1)
		if limit != "" {
			f.NodeSet.Spec.Slurmd = raw(`{"resources":{"limits":{"memory":"` + limit + `"}}}`)
		}
		got := map[string]string{}
		for _, s := range Make(f).Steps {
			if s.Action == CreatePod {
				for _, e := range s.Pod.Spec.Containers[0].Env {
					got[e.Name] = e.Value
				}
			}
		}
		if got["POD_MEMORY"] != want {
			t.Errorf("with limit %q slurmd is told %q MiB, want %q", limit, got["POD_MEMORY"], want)
		}
	}
}
