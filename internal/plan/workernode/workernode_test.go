package workernode

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

const (
	ours     = v1beta1.OperatorReasonPrefix
	ourMark  = `{"namespace":"slurm","podName":"cpu-0","node":"k1","nodeSetName":"cpu","nodeSetUID":"set"}`
	cordon   = v1beta1.AnnotationPodCordon
	cordonBy = v1beta1.AnnotationPodCordonCause
)

type change func(*Facts)

// worker is one that is ready, idle and described: nothing is to be done for it.
func worker(changes ...change) Facts {
	f := Facts{
		NodeSet: &v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Name: "cpu", Namespace: "slurm", UID: "set"}},
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "cpu-0", Namespace: "slurm", Labels: map[string]string{}, Annotations: map[string]string{}},
			Spec:       corev1.PodSpec{NodeName: "k1"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
				{Type: v1beta1.PodConditionIdle, Status: corev1.ConditionTrue, Reason: v1beta1.ReasonReported},
			}},
		},
		Kube: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "k1", Annotations: map[string]string{}}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}}}},
		Name: "cpu-0", Known: true, Registered: true,
		Slurm: slurm.Node{Name: "cpu-0", States: slurm.StatesOf("IDLE"), Comment: ourMark, Features: []string{"cpu"}, ActiveFeatures: []string{"cpu"}},
		Now:   time.Unix(1_000_000, 0),
	}
	for _, c := range changes {
		c(&f)
	}
	return f
}

func states(words ...string) change {
	return func(f *Facts) {
		f.Slurm.States = slurm.StatesOf(words...)
		f.Pod.Status.Conditions = f.Pod.Status.Conditions[:1]
		p := planner{Facts: *f}
		f.Pod.Status.Conditions = append(f.Pod.Status.Conditions, p.conditions()...)
	}
}

// reason comes before states, which makes the pod show it.
func reason(text string) change { return func(f *Facts) { f.Slurm.Reason = text } }
func remove(why string) change  { return func(f *Facts) { f.Remove = why } }
func cordoned(f *Facts)         { f.Kube.Spec.Unschedulable = true }
func notReady(f *Facts)         { f.Pod.Status.Conditions[0].Status = corev1.ConditionFalse }
func noSlurm(f *Facts)          { f.Known, f.Registered, f.Slurm = false, false, slurm.Node{} }
func noKube(f *Facts)           { f.Kube = nil }
func unprotected(f *Facts)      { f.NodeSet.Spec.WorkloadDisruptionProtection = new(bool) }

func onPod(key, value string) change { return func(f *Facts) { f.Pod.Annotations[key] = value } }
func onKube(key, value string) change {
	return func(f *Facts) { f.Kube.Annotations[key] = value }
}
func protected(f *Facts) { f.Pod.Labels[v1beta1.LabelNodeSetPodProtect] = "true" }

func kubeCondition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) change {
	return func(f *Facts) {
		c := corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message}
		if i := slices.IndexFunc(f.Kube.Status.Conditions, func(have corev1.NodeCondition) bool { return have.Type == kind }); i >= 0 {
			f.Kube.Status.Conditions[i] = c
			return
		}
		f.Kube.Status.Conditions = append(f.Kube.Status.Conditions, c)
	}
}

func propagated(kinds ...string) change { return func(f *Facts) { f.Propagated = kinds } }

func taint(key, value string) change {
	return func(f *Facts) { f.Kube.Spec.Taints = append(f.Kube.Spec.Taints, corev1.Taint{Key: key, Value: value}) }
}

func disrupted(reason, message string) change {
	return func(f *Facts) {
		f.Pod.Status.Conditions = append(f.Pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message})
	}
}

// text is a plan for people.
func text(p Plan) []string {
	var out []string
	if u := p.Update; u != nil {
		line := string(u.Action)
		if u.Change.State != "" {
			line += " " + u.Change.State
		}
		if u.Change.Reason != "" {
			line += " " + u.Change.Reason
		}
		for name, value := range map[string]*string{"comment": u.Change.Comment, "extra": u.Change.Extra, "topology": u.Change.Topology} {
			if value != nil {
				line += " " + name + "=" + *value
			}
		}
		if u.Change.Features != nil {
			line += fmt.Sprintf(" features=%s active=%s", strings.Join(u.Change.Features, ","), strings.Join(u.Change.ActiveFeatures, ","))
		}
		out = append(out, line)
	}
	for _, changes := range []map[string]*string{p.Labels, p.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(changes)) {
			value := "-"
			if changes[key] != nil {
				value = "=" + *changes[key]
			}
			out = append(out, key[strings.Index(key, "/")+1:]+value)
		}
	}
	for _, c := range p.Conditions {
		out = append(out, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	for _, g := range p.Gone {
		out = append(out, string(g)+" gone")
	}
	for _, t := range []string{p.Drained, p.Problem} {
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}

type table map[string]struct {
	facts Facts
	want  []string
}

func (tt table) run(t *testing.T) {
	t.Helper()
	for name, tc := range tt {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, text(Make(tc.facts))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func marked(text string) []string { return []string{"pod-cordon=true", "pod-cordon-cause=" + text} }

func TestCheck32CordonBecomesADrain(t *testing.T) {
	with := func(reason string) []string {
		return append([]string{"drain DRAIN " + ours + reason}, marked(reason)...)
	}
	drained := []change{reason(ours + "bad DIMM"), states("IDLE", "DRAIN"), onPod(cordon, "true"), onPod(cordonBy, "bad DIMM")}
	undrained := []string{"undrain UNDRAIN", "pod-cordon-", "pod-cordon-cause-"}
	strategy := func(kind v1beta1.UpdateStrategyType) change {
		return func(f *Facts) { f.NodeSet.Spec.UpdateStrategy.Type = kind }
	}
	table{
		"nothing":           {worker(), nil},
		"no reason":         {worker(cordoned), with("Kubernetes node k1 is cordoned")},
		"annotation":        {worker(cordoned, onKube(v1beta1.AnnotationNodeCordonReason, "bad\n DIMM\x00")), with("bad DIMM")},
		"annotation first":  {worker(cordoned, onKube(v1beta1.AnnotationNodeCordonReason, "x"), propagated("Hot"), kubeCondition("Hot", "True", "H", "h")), with("x")},
		"long annotation":   {worker(cordoned, onKube(v1beta1.AnnotationNodeCordonReason, strings.Repeat("ä", 300))), with(strings.Repeat("ä", 256))},
		"conditions":        {worker(cordoned, propagated("Hot", "Cold", "Wet", "Dry"), kubeCondition("Hot", "True", "TooHot", "90 C"), kubeCondition("Wet", "True", "Rain", ""), kubeCondition("Dry", "False", "No", "no")), with("(TooHot: 90 C); (Rain)")},
		"not propagated":    {worker(cordoned, kubeCondition("Hot", "True", "TooHot", "90 C")), with("Kubernetes node k1 is cordoned")},
		"condition alone":   {worker(propagated("Hot"), kubeCondition("Hot", "True", "TooHot", "90 C")), nil},
		"stays":             {worker(append(drained, cordoned, onKube(v1beta1.AnnotationNodeCordonReason, "bad DIMM"))...), nil},
		"another reason":    {worker(append(drained, cordoned, onKube(v1beta1.AnnotationNodeCordonReason, "new kernel"))...), with("new kernel")},
		"uncordoned":        {worker(drained...), undrained},
		"under OnDelete":    {worker(append(drained, strategy(v1beta1.UpdateOnDelete))...), undrained},
		"under Scheduled":   {worker(append(drained, strategy(v1beta1.UpdateScheduled))...), undrained},
		"pod not ready":     {worker(append(drained, notReady)...), undrained[1:]},
		"node not known":    {worker(append(drained, noKube)...), nil},
		"without Slurm":     {worker(append(drained, noSlurm)...), undrained[1:]},
		"cordon, no Slurm":  {worker(cordoned, noSlurm), marked("Kubernetes node k1 is cordoned")},
		"drain being ended": {worker(reason(ours+"x"), states("IDLE", "DRAIN", "UNDRAIN")), nil},
	}.run(t)
}

func TestCheck33AdminDrainIsNeverTouched(t *testing.T) {
	admin := []change{reason("bad disk"), states("IDLE", "DRAIN")}
	down := []change{reason("broken"), states("DOWN")}
	with := func(base []change, more ...change) Facts { return worker(append(slices.Clone(base), more...)...) }
	table{
		"nothing else":              {with(admin), nil},
		"cordon":                    {with(admin, cordoned), marked("Kubernetes node k1 is cordoned")},
		"uncordon":                  {with(admin, onPod(cordon, "true"), onPod(cordonBy, "x")), []string{"pod-cordon-", "pod-cordon-cause-"}},
		"scale-in":                  {with(admin, remove("scale-in to 0 workers")), marked("pod slurm/cpu-0 is to be removed: scale-in to 0 workers")},
		"pod-cordon":                {with(admin, onPod(cordon, "true")), nil},
		"node trouble":              {with(admin, kubeCondition(corev1.NodeReady, "Unknown", "NodeStatusUnknown", "")), marked("Kubernetes node k1 is not ready (NodeStatusUnknown)")},
		"down":                      {with(down), nil},
		"down and cordoned":         {with(down, cordoned), marked("Kubernetes node k1 is cordoned")},
		"health check":              {with([]change{reason("NHC: check_fs_mount"), states("MIXED", "DRAIN"), protected}), nil},
		"a reason without a drain":  {with([]change{reason("watch this"), states("IDLE")}), nil},
		"it and a cordon":           {with([]change{reason("watch this"), states("IDLE")}, cordoned), append([]string{"drain DRAIN watch this"}, marked("Kubernetes node k1 is cordoned")...)},
		"down, and it is to go":     {with(down, remove("x")), append([]string{"drain DRAIN broken"}, marked("pod slurm/cpu-0 is to be removed: x")...)},
		"a prefix that looks alike": {with([]change{reason("slurm-operator is slow"), states("IDLE", "DRAIN")}), nil},
	}.run(t)
}

func TestCheck34PodCordonIsHonouredUntilRemoved(t *testing.T) {
	why := "pod slurm/cpu-0 has the annotation " + cordon
	table{
		"set":                  {worker(onPod(cordon, "true")), []string{"drain DRAIN " + ours + why}},
		"only true counts":     {worker(onPod(cordon, "True")), nil},
		"stays":                {worker(reason(ours+why), states("IDLE", "DRAIN"), onPod(cordon, "true")), nil},
		"removed":              {worker(reason(ours+why), states("IDLE", "DRAIN")), []string{"undrain UNDRAIN"}},
		"beside a cordon":      {worker(onPod(cordon, "true"), cordoned), []string{"drain DRAIN " + ours + "Kubernetes node k1 is cordoned"}},
		"stays after uncordon": {worker(reason(ours+"Kubernetes node k1 is cordoned"), states("IDLE", "DRAIN"), onPod(cordon, "true")), []string{"drain DRAIN " + ours + why}},
		"set by the operator":  {worker(reason(ours+"x"), states("IDLE", "DRAIN"), onPod(cordon, "true"), onPod(cordonBy, "x")), []string{"undrain UNDRAIN", "pod-cordon-", "pod-cordon-cause-"}},
		"removed too early":    {worker(cordoned, reason(ours+"Kubernetes node k1 is cordoned"), states("IDLE", "DRAIN"), onPod(cordonBy, "Kubernetes node k1 is cordoned")), marked("Kubernetes node k1 is cordoned")},
	}.run(t)
}

func TestNodeTroubleBecomesADrain(t *testing.T) {
	with := func(reason string) []string {
		return append([]string{"drain DRAIN " + ours + reason}, marked(reason)...)
	}
	table{
		"not ready":         {worker(kubeCondition(corev1.NodeReady, "False", "KubeletNotReady", "no network")), with("Kubernetes node k1 is not ready (KubeletNotReady: no network)")},
		"unknown":           {worker(kubeCondition(corev1.NodeReady, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")), with("Kubernetes node k1 is not ready (NodeStatusUnknown: Kubelet stopped posting node status.)")},
		"memory":            {worker(kubeCondition(corev1.NodeMemoryPressure, "True", "KubeletHasInsufficientMemory", "m")), with("Kubernetes node k1 has the condition MemoryPressure (KubeletHasInsufficientMemory: m)")},
		"memory not known":  {worker(kubeCondition(corev1.NodeMemoryPressure, "Unknown", "x", "m")), nil},
		"out of service":    {worker(taint(corev1.TaintNodeOutOfService, "nodeshutdown")), with("Kubernetes node k1 is out of service (nodeshutdown)")},
		"some taint":        {worker(taint("a", "b")), nil},
		"shutdown":          {worker(disrupted("TerminationByKubelet", "Pod was terminated in response to imminent node shutdown.")), with("Kubernetes is about to end pod slurm/cpu-0 (TerminationByKubelet: Pod was terminated in response to imminent node shutdown.)")},
		"removal is first":  {worker(cordoned, remove("update")), with("pod slurm/cpu-0 is to be removed: update")},
		"it has passed":     {worker(reason(ours+"Kubernetes node k1 is not ready"), states("IDLE", "DRAIN")), []string{"undrain UNDRAIN"}},
		"it is another now": {worker(cordoned, reason(ours+"Kubernetes node k1 is not ready"), states("MIXED", "DRAIN"), protected), with("Kubernetes node k1 is cordoned")},
	}.run(t)
}

func TestCheck48OnlyThePreStopsDownIsCleared(t *testing.T) {
	terminating := reason(v1beta1.ReasonPodTerminating)
	table{
		"the pre-stop's":          {worker(terminating, states("DOWN")), []string{"resume RESUME"}},
		"and our drain":           {worker(terminating, states("DOWN", "DRAIN")), []string{"resume RESUME"}},
		"not there yet":           {worker(terminating, states("DOWN"), notReady), nil},
		"slurmd isn't there":      {worker(terminating, states("DOWN", "NOT_RESPONDING")), nil},
		"an administrator's":      {worker(reason("broken"), states("DOWN")), nil},
		"Slurm's":                 {worker(reason("Not responding"), states("DOWN", "NOT_RESPONDING")), nil},
		"cordoned":                {worker(terminating, states("DOWN"), cordoned), append([]string{"drain DRAIN " + ours + "Kubernetes node k1 is cordoned"}, marked("Kubernetes node k1 is cordoned")...)},
		"cordoned and down":       {worker(terminating, states("DOWN", "DRAIN"), cordoned, onPod(cordon, "true"), onPod(cordonBy, "Kubernetes node k1 is cordoned")), nil},
		"moved, an admin's stays": {worker(reason("broken"), states("DOWN"), func(f *Facts) { f.Pod.Spec.NodeName, f.Kube.Name = "k2", "k2" }), []string{"describe comment=" + strings.Replace(ourMark, `"k1"`, `"k2"`, 1)}},
	}.run(t)
}

func TestCheck48CommentIsWrittenOncePerPlacement(t *testing.T) {
	comment := func(c, extra string) change { return func(f *Facts) { f.Slurm.Comment, f.Slurm.Extra = c, extra } }
	other := strings.Replace(ourMark, `"k1"`, `"k0"`, 1)
	table{
		"written":                {worker(), nil},
		"first":                  {worker(comment("", "")), []string{"describe comment=" + ourMark}},
		"moved":                  {worker(comment(other, "")), []string{"describe comment=" + ourMark}},
		"somebody else's":        {worker(comment("rack 7", "")), []string{"describe extra=" + ourMark}},
		"then it's in extra":     {worker(comment("rack 7", ourMark)), nil},
		"moved, in extra":        {worker(comment("rack 7", other)), []string{"describe extra=" + ourMark}},
		"both are somebody's":    {worker(comment("rack 7", "x")), nil},
		"JSON that isn't ours":   {worker(comment(`{"a":1}`, "")), []string{"describe extra=" + ourMark}},
		"not until it is ready":  {worker(comment("", ""), notReady), nil},
		"not where not known":    {worker(comment("", ""), noSlurm), nil},
		"a drain comes first":    {worker(comment("", ""), onPod(cordon, "true")), []string{"drain DRAIN " + ours + "pod slurm/cpu-0 has the annotation " + cordon}},
		"the pod has no node":    {worker(comment("", ""), func(f *Facts) { f.Pod.Spec.NodeName = ""; f.Kube = nil }), nil},
		"with a drained node":    {worker(comment("", ""), reason("admin"), states("IDLE", "DRAIN")), []string{"describe comment=" + ourMark}},
		"not in Slurm's records": {worker(comment("", ""), func(f *Facts) { f.Registered, f.Slurm = false, slurm.Node{} }), []string{"SlurmNodeStateIdle gone"}},
	}.run(t)
}

func TestMarkOf(t *testing.T) {
	m, ok := MarkOf(slurm.Node{Comment: "rack 7", Extra: ourMark})
	if want := (Mark{"slurm", "cpu-0", "k1", "cpu", "set"}); !ok || m != want {
		t.Errorf("got %+v, %v", m, ok)
	}
	if m, ok := MarkOf(slurm.Node{Comment: "{}", Extra: "["}); ok {
		t.Errorf("got %+v", m)
	}
}

func fromLabels(f *Facts) {
	f.NodeSet.Spec.TopologyFromLabels = []v1beta1.LabelTopology{
		{Topology: "tree", Root: "top", Labels: []string{corev1.LabelTopologyZone, "example.com/rack"}}, {Topology: "block", Labels: []string{"example.com/rack"}}}
}

func rack(zone, rack string) change {
	return func(f *Facts) {
		f.Kube.Labels = map[string]string{corev1.LabelTopologyZone: zone, "example.com/rack": rack}
	}
}

func TestCheck49Topology(t *testing.T) {
	in := func(topology string) change { return func(f *Facts) { f.Slurm.Topology = topology } }
	const key = v1beta1.AnnotationTopology
	template := func(f *Facts) { f.NodeSet.Spec.Template.Metadata.Annotations = map[string]string{key: "tree:s9"} }
	table{
		"none":                        {worker(), nil},
		"an administrator's stays":    {worker(in("tree:s1")), nil},
		"new":                         {worker(onKube(key, "tree:s1,block:b1")), []string{"describe topology=tree:s1,block:b1", "spec=tree:s1,block:b1"}},
		"known":                       {worker(onKube(key, "tree:s1,block:b1"), onPod(key, "tree:s1,block:b1"), in("tree:s1,block:b1")), nil},
		"in another order":            {worker(onKube(key, "tree:s1,block:b1"), onPod(key, "tree:s1,block:b1"), in("block:b1,tree:s1")), nil},
		"moved":                       {worker(onKube(key, "tree:s2"), onPod(key, "tree:s1"), in("tree:s1")), []string{"describe topology=tree:s2", "spec=tree:s2"}},
		"removed":                     {worker(onPod(key, "tree:s1"), in("tree:s1")), []string{"describe topology="}},
		"then from the pod, too":      {worker(onPod(key, "tree:s1")), []string{"spec-"}},
		"from the template":           {worker(template, onPod(key, "tree:s9"), in("tree:s9")), nil},
		"the node is more exact":      {worker(template, onPod(key, "tree:s9"), in("tree:s9"), onKube(key, "tree:s1")), []string{"describe topology=tree:s1", "spec=tree:s1"}},
		"for the pod, without Slurm":  {worker(onKube(key, "tree:s1"), noSlurm), []string{"spec=tree:s1"}},
		"labels":                      {worker(fromLabels, rack("z1", "r7")), []string{"describe topology=tree:top:z1:r7,block:r7", "spec=tree:top:z1:r7,block:r7"}},
		"labels are known":            {worker(fromLabels, rack("z1", "r7"), onPod(key, "tree:top:z1:r7,block:r7"), in("tree:top:z1:r7,block:r7")), nil},
		"one label is missing":        {worker(fromLabels, rack("", "r7")), []string{"describe topology=block:r7", "spec=block:r7"}},
		"no circles":                  {worker(fromLabels, rack("top", "r7")), []string{"describe topology=block:r7", "spec=block:r7"}},
		"no long numbers":             {worker(fromLabels, rack("z1", "r12345678901234567890")), nil},
		"an annotation before labels": {worker(fromLabels, rack("z1", "r7"), onKube(key, "tree:s1")), []string{"describe topology=tree:s1", "spec=tree:s1"}},
		"labels before the template":  {worker(template, fromLabels, rack("z1", "r7")), []string{"describe topology=tree:top:z1:r7,block:r7", "spec=tree:top:z1:r7,block:r7"}},
		"not where node is not known": {worker(onPod(key, "tree:s1"), in("tree:s1"), noKube), nil},
	}.run(t)
}

func TestCheck50OnlyOurFeaturesAreReplaced(t *testing.T) {
	features := func(available, active string) change {
		return func(f *Facts) {
			f.Slurm.Features, f.Slurm.ActiveFeatures = strings.Split(available, ","), strings.Split(active, ",")
		}
	}
	const key = v1beta1.AnnotationFeatures
	table{
		"new":              {worker(onKube(key, "fast, ssd,,fast")), []string{"describe features=cpu,k8s/fast,k8s/ssd active=cpu,k8s/fast,k8s/ssd"}},
		"known":            {worker(onKube(key, "ssd,fast"), features("k8s/fast,cpu,k8s/ssd", "cpu,k8s/fast,k8s/ssd")), nil},
		"one goes":         {worker(onKube(key, "ssd"), features("cpu,k8s/fast,k8s/ssd", "cpu,k8s/fast,k8s/ssd")), []string{"describe features=cpu,k8s/ssd active=cpu,k8s/ssd"}},
		"all go":           {worker(features("cpu,k8s/fast", "cpu,k8s/fast")), []string{"describe features=cpu active=cpu"}},
		"others stay":      {worker(onKube(key, "ssd"), features("cpu,avx,knl,flat", "cpu,avx,knl")), []string{"describe features=cpu,avx,knl,flat,k8s/ssd active=cpu,avx,knl,k8s/ssd"}},
		"not active":       {worker(onKube(key, "ssd"), features("cpu,k8s/ssd", "cpu")), []string{"describe features=cpu,k8s/ssd active=cpu,k8s/ssd"}},
		"what isn't one":   {worker(onKube(key, "a b,c&d,[e],ok")), []string{"describe features=cpu,k8s/ok active=cpu,k8s/ok"}},
		"node isn't known": {worker(features("cpu,k8s/fast", "cpu"), noKube), nil},
	}.run(t)
}

func TestCheck51BusyPodsAreProtected(t *testing.T) {
	busy := states("ALLOCATED")
	table{
		"idle":                   {worker(), nil},
		"busy":                   {worker(busy), []string{"pod-protect=true"}},
		"busy already":           {worker(busy, protected), nil},
		"completing":             {worker(states("IDLE", "COMPLETING")), []string{"pod-protect=true"}},
		"draining":               {worker(reason("admin"), states("MIXED", "DRAIN"), protected), nil},
		"drained":                {worker(reason("admin"), states("IDLE", "DRAIN"), protected), []string{"pod-protect-"}},
		"idle again":             {worker(protected), []string{"pod-protect-"}},
		"off":                    {worker(busy, unprotected), nil},
		"switched off":           {worker(busy, protected, unprotected), []string{"pod-protect-"}},
		"stays without Slurm":    {worker(protected, noSlurm), nil},
		"not set without Slurm":  {worker(noSlurm), nil},
		"off goes without Slurm": {worker(protected, unprotected, noSlurm), []string{"pod-protect-"}},
	}.run(t)
}

func TestCheck47PodConditionsMirrorSlurm(t *testing.T) {
	says := func(words ...string) change { return func(f *Facts) { f.Slurm.States = slurm.StatesOf(words...) } }
	table{
		"stale goes":    {worker(says("MIXED"), protected), []string{"SlurmNodeStateMixed True Reported: ", "SlurmNodeStateIdle gone"}},
		"flags":         {worker(says("IDLE", "COMPLETING", "NOT_RESPONDING", "MAINTENANCE", "RESERVED", "DYNAMIC_NORM", "PLANNED"), protected), []string{"SlurmNodeStateCompleting True Reported: ", "SlurmNodeStateMaintenance True Reported: ", "SlurmNodeStateNotResponding True Reported: "}},
		"draining":      {worker(says("ALLOCATED", "DRAIN"), reason("bad disk"), protected), []string{"SlurmNodeStateAllocated True SetInSlurm: bad disk", "SlurmNodeStateDrain True SetInSlurm: bad disk", "slinky.slurm.net/SlurmDrained False Draining: jobs still run: bad disk", "SlurmNodeStateIdle gone", "Slurm node cpu-0 was drained in Slurm: bad disk; it stays so until it is resumed there"}},
		"who did it":    {worker(says("IDLE", "DRAIN"), reason("bad disk"), func(f *Facts) { f.Slurm.ReasonUser = "root" }), []string{"SlurmNodeStateDrain True SetInSlurm: bad disk", "SlurmNodeStateIdle True SetInSlurm: bad disk", "slinky.slurm.net/SlurmDrained True Drained: bad disk", "Slurm node cpu-0 was drained in Slurm by root: bad disk; it stays so until it is resumed there"}},
		"ours":          {worker(says("IDLE", "DRAIN"), reason(ours+"pod slurm/cpu-0 has the annotation "+cordon), onPod(cordon, "true")), []string{"SlurmNodeStateDrain True SetByOperator: " + ours + "pod slurm/cpu-0 has the annotation " + cordon, "SlurmNodeStateIdle True SetByOperator: " + ours + "pod slurm/cpu-0 has the annotation " + cordon, "slinky.slurm.net/SlurmDrained True Drained: " + ours + "pod slurm/cpu-0 has the annotation " + cordon}},
		"the pod first": {worker(says("MIXED")), []string{"pod-protect=true"}},
		"no answer":     {worker(noSlurm), nil},
	}.run(t)
}

func TestEachStateIsMirrored(t *testing.T) {
	for _, state := range []string{"ALLOCATED", "DOWN", "ERROR", "FUTURE", "IDLE", "MIXED", "UNKNOWN",
		"COMPLETING", "DRAIN", "FAIL", "INVALID", "INVALID_REG", "MAINTENANCE", "NOT_RESPONDING", "UNDRAIN"} {
		kind, _ := mirrored(state)
		f := worker(states("IDLE"))
		f.Slurm.States = slurm.StatesOf(state)
		p := planner{Facts: f}
		p.mirror()
		shown := slices.ContainsFunc(p.conditions(), func(c corev1.PodCondition) bool { return c.Type == kind })
		if !shown || !strings.EqualFold(strings.ReplaceAll(state, "_", ""), strings.TrimPrefix(string(kind), v1beta1.PodConditionPrefix)) {
			t.Errorf("%s is shown as %s: %v", state, kind, shown)
		}
	}
}

func TestTransitionTime(t *testing.T) {
	f := worker()
	f.Pod.Status.Conditions[1].LastTransitionTime = metav1.Unix(5, 0)
	f.Slurm.Reason = "watch this"
	got := Make(f).Conditions
	if len(got) != 1 || !got[0].LastTransitionTime.Equal(&f.Pod.Status.Conditions[1].LastTransitionTime) {
		t.Errorf("got %+v: the status is as before, and so is the time", got)
	}
	f.Slurm.States = slurm.StatesOf("MIXED")
	f.Pod.Labels[v1beta1.LabelNodeSetPodProtect] = "true"
	if got := Make(f).Conditions; len(got) != 1 || !got[0].LastTransitionTime.Time.Equal(f.Now) {
		t.Errorf("got %+v, want the time of the change", got)
	}
}

func TestRefusedRegistrationIsAProblem(t *testing.T) {
	for reason, refused := range map[string]bool{
		"Low RealMemory (reported:1000 < 100.00% of configured:2000)": true, "gres/gpu count reported lower than configured (0 < 8)": true,
		"Low socket*core*thread count, Low CPUs": true, "Failed to set topology 'tree:s9'": true, "Low power": false, "bad disk": false, "": false,
	} {
		f := worker(func(f *Facts) { f.Slurm.Reason = reason }, states("IDLE", "DRAIN"))
		if p := Make(f).Problem; (p != "") != refused || refused && (!strings.Contains(p, reason) || !strings.Contains(p, "cpu-0")) {
			t.Errorf("%q: problem %q", reason, p)
		}
	}
	if p := Make(worker(states("IDLE", "INVALID_REG"))).Problem; !strings.Contains(p, "no reason is given") {
		t.Errorf("problem %q", p)
	}
}
