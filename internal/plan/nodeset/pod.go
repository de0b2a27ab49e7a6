package nodeset

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
	"github.com/slinky-hpc/slinky/internal/plan/sidecar"
	"github.com/slinky-hpc/slinky/slurm/conf"
)

const volumeEtc = "slurm-etc"

// pod is the worker with an ordinal.
func (p *planner) pod(ordinal int, claims map[string]*corev1.PersistentVolumeClaim) (*corev1.Pod, error) {
	n := p.NodeSet
	index := fmt.Sprintf("%0*d", n.Spec.OrdinalPadding, ordinal)
	name := n.Name + "-" + index
	hostname, err := p.hostname(name, index)
	if err != nil {
		return nil, err
	}
	spec, err := p.podSpec(hostname, claims)
	if err != nil {
		return nil, err
	}
	labels, annotations := overlay.Metadata(n, n.Spec.Template.Metadata, map[string]string{
		v1beta1.LabelName: v1beta1.NameSlurmd, v1beta1.LabelInstance: n.Name, v1beta1.LabelComponent: v1beta1.ComponentWorker,
		v1beta1.LabelCluster: p.Controller.Name, v1beta1.LabelRevisionHash: p.hash,
		v1beta1.LabelNodeSetPodName: name, v1beta1.LabelNodeSetPodIndex: index,
		v1beta1.LabelNodeSetPodHostname: hostname, v1beta1.LabelNodeSetScalingMode: string(v1beta1.ScalingModeStatefulSet),
	}, map[string]string{v1beta1.AnnotationDefaultContainer: v1beta1.NameSlurmd})
	yes := true
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: n.Namespace, Labels: labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindNodeSet, Name: n.Name, UID: n.UID,
				Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: spec,
	}, nil
}

// hostname is also the node's name in Slurm.
func (p *planner) hostname(podName, index string) (string, error) {
	prefix, err := p.NodeSet.HostnamePrefix()
	if err != nil {
		return "", err
	}
	hostname, field := podName, "metadata.name"
	if prefix != "" {
		hostname, field = prefix+index, "spec.template.spec.hostname"
	}
	if problems := validation.IsDNS1123Label(hostname); len(problems) > 0 {
		return "", fmt.Errorf("%s gives the host name %q: %s", field, hostname, strings.Join(problems, "; "))
	}
	return hostname, nil
}

func (p *planner) podSpec(hostname string, claims map[string]*corev1.PersistentVolumeClaim) (corev1.PodSpec, error) {
	main, err := p.slurmd(hostname)
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
		Hostname:                     hostname,
		Subdomain:                    p.Controller.WorkersServiceName(),
		DNSConfig:                    &corev1.PodDNSConfig{Searches: []string{p.workersDomain()}},
		Tolerations:                  []corev1.Toleration{{Key: v1beta1.TaintWorker, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
		InitContainers:               []corev1.Container{logfile},
		Containers:                   []corev1.Container{main},
		Volumes:                      p.volumes(claims),
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
	spec.Hostname = hostname
	setLimits(&spec)
	return spec, nil
}

// workersDomain is the DNS domain in which workers find each other by their bare names.
func (p *planner) workersDomain() string {
	return p.Controller.WorkersServiceName() + "." + p.NodeSet.Namespace + ".svc." + p.ClusterDomain
}

func (p *planner) volumes(claims map[string]*corev1.PersistentVolumeClaim) []corev1.Volume {
	mode := int32(0o600)
	var sources []corev1.VolumeProjection
	if ref := p.Controller.Spec.SlurmKeyRef; ref != nil {
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name},
			Items:                []corev1.KeyToPath{{Key: ref.Key, Path: "slurm.key"}}}})
	}
	volumes := []corev1.Volume{
		{Name: volumeEtc, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: sources}}},
		{Name: sidecar.VolumeLog, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
	}
	for _, template := range slices.Sorted(maps.Keys(claims)) {
		volumes = append(volumes, corev1.Volume{Name: template, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claims[template].Name}}})
	}
	return volumes
}

func (p *planner) slurmd(hostname string) (corev1.Container, error) {
	line, err := p.nodeConf()
	if err != nil {
		return corev1.Container{}, err
	}
	host, port := p.Controller.Address()
	yes := true
	main := corev1.Container{
		Name:  v1beta1.NameSlurmd,
		Image: p.Image,
		Args:  []string{"-Z", "--conf-server", fmt.Sprintf("%s:%d", host, port), "--conf", line},
		Env: []corev1.EnvVar{{Name: "SLINKY_TOPOLOGY", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + v1beta1.AnnotationTopology + "']"}}}},
		Ports:          []corev1.ContainerPort{{Name: v1beta1.NameSlurmd, ContainerPort: v1beta1.PortSlurmd, Protocol: corev1.ProtocolTCP}},
		StartupProbe:   httpProbe("/livez", 2, 60),
		LivenessProbe:  httpProbe("/livez", 10, 6),
		ReadinessProbe: httpProbe("/readyz", 2, 3),
		SecurityContext: &corev1.SecurityContext{Privileged: &yes, Capabilities: &corev1.Capabilities{
			Add: []corev1.Capability{"BPF", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE"}}},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{
			"scontrol", "update", "nodename=" + hostname, "state=down", "reason=" + v1beta1.OperatorReasonPrefix + "Pod is terminating"}}}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeEtc, MountPath: conf.Dir, ReadOnly: true}, {Name: sidecar.VolumeLog, MountPath: conf.LogDir},
		},
	}
	main, err = overlay.Container(main, p.NodeSet.Spec.Slurmd)
	if err != nil {
		return main, fmt.Errorf("slurmd: %w", err)
	}
	return main, nil
}

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
// rounded up, memory in MiB.
func setLimits(spec *corev1.PodSpec) {
	i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == v1beta1.NameSlurmd })
	limits := corev1.ResourceList{}
	if spec.Resources != nil {
		maps.Copy(limits, spec.Resources.Limits)
	}
	c := &spec.Containers[i]
	maps.Copy(limits, c.Resources.Limits)
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
}
