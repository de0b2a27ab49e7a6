package nodeset

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/keyring"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
	"github.com/slinky-hpc/slinky/internal/plan/sidecar"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm/conf"
)

const volumeEtc = "slurm-etc"

// base is what the NodeSet's pods have in common.
func (p *planner) base() (*corev1.Pod, error) {
	n := p.NodeSet
	spec, err := p.podSpec()
	if err != nil {
		return nil, err
	}
	mode := v1beta1.ScalingModeStatefulSet
	if p.daemon() {
		mode = v1beta1.ScalingModeDaemonSet
	}
	own := map[string]string{v1beta1.AnnotationDefaultContainer: v1beta1.NameSlurmd}
	maps.Copy(own, p.sshAnnotations())
	labels, annotations := overlay.Metadata(n, n.Spec.Template.Metadata, map[string]string{
		v1beta1.LabelName: v1beta1.NameSlurmd, v1beta1.LabelInstance: n.Name, v1beta1.LabelComponent: v1beta1.ComponentWorker,
		v1beta1.LabelCluster: p.Controller.Name, v1beta1.LabelRevisionHash: p.hash, v1beta1.LabelNodeSetScalingMode: string(mode),
	}, own)
	yes := true
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: n.Namespace, Labels: labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindNodeSet, Name: n.Name, UID: n.UID,
				Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: spec,
	}, nil
}

// buildable tells what keeps pods from being made. Workers stay as they are until that is put
// right: none is drained for a pod that can't take its place.
func (p *planner) buildable() error {
	if _, err := p.base(); err != nil {
		return err
	}
	if p.daemon() {
		_, err := p.claims("any")
		return err
	}
	last := strconv.Itoa(int(max(1, p.desired()) - 1))
	hostname, err := p.hostnameIn(last)
	if err != nil {
		return err
	}
	_, err = p.claims(p.claimSuffix(last, hostname))
	return err
}

// instance is the pod of a slot.
func (p *planner) instance(base *corev1.Pod, slot, hostname string, claims map[string]*corev1.PersistentVolumeClaim) *corev1.Pod {
	pod := base.DeepCopy()
	pod.Name = p.podName(slot)
	pod.Labels[v1beta1.LabelNodeSetPodName] = pod.Name
	pod.Labels[v1beta1.LabelNodeSetPodHostname] = hostname
	pod.Spec.Hostname = hostname
	if p.daemon() {
		p.onNode(pod, slot)
		if p.places[slot].cordoned {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
		}
	} else {
		pod.Labels[v1beta1.LabelNodeSetPodIndex] = p.index(slot)
		if node := p.pinned()[slot]; node != "" {
			p.onNode(pod, node)
		}
	}
	useClaims(&pod.Spec, claims)
	return pod
}

// onNode ties a pod to a Kubernetes node. Where that is in Slurm's topology is then known
// before slurmd registers.
func (p *planner) onNode(pod *corev1.Pod, name string) {
	onNode(&pod.Spec, name)
	if n := p.Nodes[name]; n != nil {
		if at := workernode.Topology(p.NodeSet, n); at != "" {
			pod.Annotations[v1beta1.AnnotationTopology] = at
		}
	}
}

// useClaims adds the volumes of claims, each with the name of its template. They come before
// a user's of the same name, whose volume they stand for.
func useClaims(spec *corev1.PodSpec, claims map[string]*corev1.PersistentVolumeClaim) {
	for _, template := range slices.Sorted(maps.Keys(claims)) {
		spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == template })
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: template, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claims[template].Name}}})
	}
}

// podName is the name of the pod in a slot. In DaemonSet mode it is as good as a generated
// one, but always the same for a Kubernetes node: a pod can't be made twice.
func (p *planner) podName(slot string) string {
	name := p.NodeSet.Name
	if !p.daemon() {
		return name + "-" + p.index(slot)
	}
	out := name + "-" + suffixOf(slot)
	if len(out) > validation.LabelValueMaxLength {
		// A label holds the name. What is cut off counts in the suffix: another NodeSet may begin alike.
		suffix := suffixOf(name + "/" + slot)
		return strings.TrimRight(name[:validation.LabelValueMaxLength-len(suffix)-1], "-.") + "-" + suffix
	}
	return out
}

func suffixOf(text string) string {
	sum := fnv.New64a()
	sum.Write([]byte(text))
	return rand.SafeEncodeString(strconv.FormatUint(sum.Sum64(), 36))
}

// index is an ordinal with as many digits as the NodeSet asks for.
func (p *planner) index(slot string) string {
	return strings.Repeat("0", max(0, p.NodeSet.Spec.OrdinalPadding-len(slot))) + slot
}

// hostnameIn is the host name of a slot's pod, and the node's name in Slurm.
func (p *planner) hostnameIn(slot string) (string, error) {
	hostname, field := p.podName(slot), "metadata.name"
	if p.daemon() {
		hostname, field = p.places[slot].hostname, "scalingMode DaemonSet: Kubernetes node "+slot
	} else if prefix, err := p.NodeSet.HostnamePrefix(); err != nil {
		return "", err
	} else if prefix != "" {
		hostname, field = prefix+p.index(slot), "spec.template.spec.hostname"
	}
	if problems := validation.IsDNS1123Label(hostname); len(problems) > 0 {
		return "", fmt.Errorf("%s gives the host name %q: %s", field, hostname, strings.Join(problems, "; "))
	}
	return hostname, nil
}

// claimSuffix ends the names of a slot's claims.
func (p *planner) claimSuffix(slot, hostname string) string {
	if p.daemon() {
		return hostname
	}
	return p.index(slot)
}

func (p *planner) podSpec() (corev1.PodSpec, error) {
	main, err := p.slurmd()
	if err != nil {
		return corev1.PodSpec{}, err
	}
	logfile, err := sidecar.Logfile("slurmd.log", main.Image, p.NodeSet.Spec.LogFile)
	if err != nil {
		return corev1.PodSpec{}, err
	}
	no := false
	base := corev1.PodSpec{
		AutomountServiceAccountToken: &no,
		EnableServiceLinks:           &no,
		Subdomain:                    p.Controller.WorkersServiceName(),
		DNSConfig:                    &corev1.PodDNSConfig{Searches: []string{p.workersDomain()}},
		Tolerations:                  tolerations(),
		InitContainers:               []corev1.Container{logfile},
		Containers:                   []corev1.Container{main},
		Volumes:                      p.volumes(),
	}
	if !p.NodeSet.Spec.OversubscribeNode {
		base.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey:   corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1beta1.LabelName: v1beta1.NameSlurmd}},
			}},
		}}
	}
	spec, err := overlay.PodSpec(base, p.NodeSet.Spec.Template.PodSpec)
	if err != nil {
		return spec, fmt.Errorf("template.spec: %w", err)
	}
	spec.Hostname = ""
	return spec, setLimits(&spec)
}

// workersDomain is the DNS domain in which workers find each other by their bare names.
func (p *planner) workersDomain() string {
	return p.Controller.WorkersServiceName() + "." + p.NodeSet.Namespace + ".svc." + p.ClusterDomain
}

func (p *planner) volumes() []corev1.Volume {
	mode := int32(0o600)
	var sources []corev1.VolumeProjection
	if p.Controller.Spec.SlurmKeyRef != nil {
		sources = keyring.Projections(p.Controller)
	}
	volumes := []corev1.Volume{
		{Name: volumeEtc, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: sources}}},
		{Name: sidecar.VolumeLog, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
	}
	return append(volumes, p.sshVolumes()...)
}

func (p *planner) slurmd() (corev1.Container, error) {
	line, err := p.nodeConf()
	if err != nil {
		return corev1.Container{}, err
	}
	host, port := p.Controller.Address()
	yes := true
	main := corev1.Container{
		Name:  v1beta1.NameSlurmd,
		Image: p.Image,
		// What slurmd says last tells why it has ended.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Args:                     []string{"-Z", "--conf-server", fmt.Sprintf("%s:%d", host, port), "--conf", line},
		Env: []corev1.EnvVar{{Name: "SLINKY_TOPOLOGY", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + v1beta1.AnnotationTopology + "']"}}}},
		Ports:          []corev1.ContainerPort{{Name: v1beta1.NameSlurmd, ContainerPort: v1beta1.PortSlurmd, Protocol: corev1.ProtocolTCP}},
		StartupProbe:   httpProbe("/livez", 2, startPatience),
		LivenessProbe:  httpProbe("/livez", 10, 6),
		ReadinessProbe: httpProbe("/readyz", 2, 3),
		SecurityContext: &corev1.SecurityContext{Privileged: &yes, Capabilities: &corev1.Capabilities{
			Add: []corev1.Capability{"BPF", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE"}}},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", preStop}}}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeEtc, MountPath: conf.Dir, ReadOnly: true}, {Name: sidecar.VolumeLog, MountPath: conf.LogDir},
		},
	}
	p.addSsh(&main)
	main, err = overlay.Container(main, p.NodeSet.Spec.Slurmd)
	if err != nil {
		return main, fmt.Errorf("slurmd: %w", err)
	}
	return main, nil
}

// preStop takes the Slurm node down, so that jobs on it are known to be lost at once. Where
// somebody else has taken it out of service, their reason stays, and with it the state, until
// they lift it. What slurmctld holds against a slurmd's report ends with that slurmd.
const preStop = `node=$(uname -n)
info=$(scontrol show node "$node")
why=$(echo "$info" | sed -n 's/^ *Reason=\(.*\) \[[^]]*\]$/\1/p')
echo "$info" | grep -q '^ *State=[^ ]*\(DRAIN\|DOWN\|FAIL\)' || why=
case $why in
''|'` + v1beta1.OperatorReasonPrefix + `'*|'Not responding'*|'Low '*|gres/*|'Failed to set topology'*) why='` + v1beta1.ReasonPodTerminating + `' ;;
esac
exec scontrol update nodename="$node" state=down reason="$why"
`

// startPatience is how often slurmd may not answer after its start: a day long. It waits for
// slurmctld as long as that takes, and where it can't start at all it ends by itself. Each kill
// would only make the next try come later.
const startPatience = 24 * 60 * 60 / 2

func httpProbe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		PeriodSeconds: period, FailureThreshold: failures,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(v1beta1.NameSlurmd)}},
	}
}

// nodeConf is slurmd's --conf: what slurm.conf would say about this node.
func (p *planner) nodeConf() (string, error) {
	name, err := p.NodeSet.SlurmName()
	if err != nil {
		return "", err
	}
	extra, err := conf.ParsePairs(p.NodeSet.Spec.ExtraConf)
	if err != nil {
		return "", fmt.Errorf("extraConf: %w", err)
	}
	features := map[string]bool{name: true}
	values := map[string]string{}
	for _, pair := range extra {
		key := strings.ToUpper(pair.Key[:1]) + pair.Key[1:]
		switch {
		case strings.EqualFold(key, "Feature"), strings.EqualFold(key, "Features"):
			for f := range strings.SplitSeq(pair.Value, ",") {
				if f = strings.TrimSpace(f); f != "" {
					features[f] = true
				}
			}
		case values[key] != "":
			values[key] += "," + pair.Value
		default:
			values[key] = pair.Value
		}
	}
	values["Features"] = strings.Join(slices.Sorted(maps.Keys(features)), ",")
	var pairs []conf.Pair
	for _, key := range slices.Sorted(maps.Keys(values)) {
		pairs = append(pairs, conf.Pair{Key: key, Value: values[key]})
	}
	if _, ok := values["Topology"]; !ok {
		pairs = append(pairs, conf.Pair{Key: "Topology", Value: "$SLINKY_TOPOLOGY"})
	}
	text, err := conf.FormatPairs(pairs)
	if err != nil {
		return "", fmt.Errorf("extraConf: %w", err)
	}
	return text, nil
}

// setLimits tells slurmd how much of the machine the pod may use, 0 for no limit: CPUs
// rounded up, memory in MiB rounded down. A limit that is no MiB at all, such as 500m, would
// be taken for none.
func setLimits(spec *corev1.PodSpec) error {
	i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == v1beta1.NameSlurmd })
	limits := corev1.ResourceList{}
	if spec.Resources != nil {
		maps.Copy(limits, spec.Resources.Limits)
	}
	c := &spec.Containers[i]
	maps.Copy(limits, c.Resources.Limits)
	if limit := limits.Memory(); !limit.IsZero() && limit.Value()>>20 == 0 {
		return fmt.Errorf("slurmd.resources.limits: memory is %s, less than the MiB in which Slurm counts: give it a unit such as Mi or Gi", limit)
	}
	cpus := int64(math.Ceil(limits.Cpu().AsApproximateFloat64()))
	set := []corev1.EnvVar{
		{Name: "POD_CPUS", Value: strconv.FormatInt(cpus, 10)},
		{Name: "POD_MEMORY", Value: strconv.FormatInt(limits.Memory().Value()>>20, 10)},
	}
	for _, e := range set {
		if !slices.ContainsFunc(c.Env, func(have corev1.EnvVar) bool { return have.Name == e.Name }) {
			c.Env = append(c.Env, e)
		}
	}
	return nil
}
