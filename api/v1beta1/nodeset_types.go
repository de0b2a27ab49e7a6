package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ScalingMode tells how many worker pods a NodeSet has, and where.
//
// +kubebuilder:validation:Enum=StatefulSet;DaemonSet
type ScalingMode string

const (
	// ScalingModeStatefulSet: spec.replicas pods with ordinals.
	ScalingModeStatefulSet ScalingMode = "StatefulSet"
	// ScalingModeDaemonSet: one pod on every Kubernetes node that fits.
	ScalingModeDaemonSet ScalingMode = "DaemonSet"
)

// UpdateStrategyType tells how pods of an old revision are replaced.
//
// +kubebuilder:validation:Enum=RollingUpdate;OnDelete;ScheduledUpdate
type UpdateStrategyType string

const (
	// UpdateRolling drains and replaces old pods, a few at a time.
	UpdateRolling UpdateStrategyType = "RollingUpdate"
	// UpdateOnDelete replaces a pod once somebody deletes it.
	UpdateOnDelete UpdateStrategyType = "OnDelete"
	// UpdateScheduled replaces old pods within a Slurm maintenance reservation.
	UpdateScheduled UpdateStrategyType = "ScheduledUpdate"
)

// ClaimRetention tells what happens to a pod's claims when the pod goes.
//
// +kubebuilder:validation:Enum=Retain;Delete
type ClaimRetention string

const (
	ClaimRetain ClaimRetention = "Retain"
	ClaimDelete ClaimRetention = "Delete"
)

// PrunePolicy tells which Slurm node records are deleted.
//
// +kubebuilder:validation:Enum=Never;NodeNotFound
type PrunePolicy string

const (
	PruneNever        PrunePolicy = "Never"
	PruneNodeNotFound PrunePolicy = "NodeNotFound"
)

// NodeSetSpec is the wanted state of a set of Slurm nodes.
//
// +kubebuilder:validation:XValidation:rule="(has(self.volumeClaimTemplates) && size(self.volumeClaimTemplates) > 0) == (has(oldSelf.volumeClaimTemplates) && size(oldSelf.volumeClaimTemplates) > 0)",message="volumeClaimTemplates can't be changed: make a new NodeSet"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.scalingMode) || self.scalingMode != 'DaemonSet'",message="autoscaling sets replicas, which have no effect with scalingMode DaemonSet: remove one of the two"
type NodeSetSpec struct {
	// ControllerRef names the Controller that the workers register with.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.name) && size(self.name) > 0",message="controllerRef.name must name a Controller of this namespace"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="controllerRef can't be changed: make a new NodeSet"
	ControllerRef corev1.LocalObjectReference `json:"controllerRef"`

	// ScalingMode is StatefulSet for spec.replicas pods, DaemonSet for one pod on each fitting node.
	// +optional
	// +default="StatefulSet"
	ScalingMode ScalingMode `json:"scalingMode,omitempty"`

	// Replicas is the number of workers in StatefulSet mode.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// Autoscaling lets the operator set spec.replicas by the jobs that wait.
	// +optional
	Autoscaling *NodeSetAutoscaling `json:"autoscaling,omitempty"`

	// OrdinalPadding is the least number of digits of a pod's ordinal.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	OrdinalPadding int `json:"ordinalPadding,omitempty"`

	// PinToNode keeps each ordinal on the first Kubernetes node it ran on.
	// +optional
	// +default=false
	PinToNode bool `json:"pinToNode,omitempty"`

	// RegistrationLimit is how many workers at most may be on their way to register in Slurm
	// at a time. Unset: no limit. A big NodeSet that starts at once keeps slurmctld busy.
	// +optional
	// +kubebuilder:validation:Minimum=1
	RegistrationLimit *int32 `json:"registrationLimit,omitempty"`

	// DeletionDrainTimeout is how long the jobs on the workers of a deleted NodeSet are waited
	// for: its Slurm nodes are drained first, and its pods go as their jobs end. Unset: 10m if
	// jobs run when the NodeSet is deleted. 0s: they aren't waited for.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=24
	DeletionDrainTimeout *metav1.Duration `json:"deletionDrainTimeout,omitempty"`

	// OversubscribeNode allows several workers on one Kubernetes node.
	// +optional
	// +default=false
	OversubscribeNode bool `json:"oversubscribeNode,omitempty"`

	// Slurmd is laid over the slurmd container.
	// +optional
	Slurmd ContainerWrapper `json:"slurmd,omitempty,omitzero"`

	// LogFile is laid over the logfile container.
	// +optional
	LogFile ContainerWrapper `json:"logfile,omitempty,omitzero"`

	// Template is laid over the worker pod.
	// +optional
	Template PodTemplate `json:"template,omitempty,omitzero"`

	// ExtraConf holds Key=Value words, separated by blanks, for slurmd's --conf.
	// +optional
	// +kubebuilder:validation:Pattern=`^\s*([A-Za-z][A-Za-z0-9_]*=("[^"\x00-\x1f\x7f\x{85}\x{2028}\x{2029}]*"|[^\s"\x00-\x1f\x7f\x{85}\x{2028}\x{2029}])+([ \t]+|\s*$))*$`
	ExtraConf string `json:"extraConf,omitempty"`

	// Partition of this NodeSet.
	// +optional
	Partition NodeSetPartition `json:"partition,omitempty,omitzero"`

	// Ssh access to the workers.
	// +optional
	Ssh *NodeSetSsh `json:"ssh,omitempty"`

	// UpdateStrategy tells how pods of an old revision are replaced.
	// +optional
	UpdateStrategy NodeSetUpdateStrategy `json:"updateStrategy,omitempty,omitzero"`

	// RevisionHistoryLimit is the number of old revisions that are kept.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit int32 `json:"revisionHistoryLimit,omitempty"`

	// VolumeClaimTemplates are core/v1 PersistentVolumeClaims that each pod gets its own copy of.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="volumeClaimTemplates can't be changed: make a new NodeSet"
	VolumeClaimTemplates []RawObject `json:"volumeClaimTemplates,omitempty"`

	// PersistentVolumeClaimRetentionPolicy tells what happens to the pods' claims.
	// +optional
	PersistentVolumeClaimRetentionPolicy ClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty,omitzero"`

	// MinReadySeconds is how long a pod must be ready to count as available.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// TopologyFromLabels says by labels of its Kubernetes node where a worker is in Slurm's
	// topologies. An annotation topology.slinky.slurm.net/spec of the node comes before it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TopologyFromLabels []LabelTopology `json:"topologyFromLabels,omitempty"`

	// WorkloadDisruptionProtection blocks the eviction of workers with jobs.
	// +optional
	// +default=true
	WorkloadDisruptionProtection *bool `json:"workloadDisruptionProtection,omitempty"`

	// PruneSlurmNodeRecords deletes Slurm node records whose pod and Kubernetes node are gone.
	// +optional
	// +default="Never"
	PruneSlurmNodeRecords PrunePolicy `json:"pruneSlurmNodeRecords,omitempty"`
}

// LabelTopology is a place in one topology of topology.yaml.
type LabelTopology struct {
	// Topology is its name in topology.yaml.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_.-]*$`
	Topology string `json:"topology"`

	// Root is a switch of a tree below which the labels' values are switches. Slurm makes those
	// that don't exist. Without it all have to exist, and so has the block of a block topology.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_.-]*$`
	Root string `json:"root,omitempty"`

	// Labels are keys of node labels, from the outermost switch to the node's own; one for a
	// block. A node that lacks one of them isn't placed.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Labels []string `json:"labels"`
}

// NodeSetPartition configures a partition with the nodes of one NodeSet.
type NodeSetPartition struct {
	// Enabled makes a partition of the NodeSet's name.
	// +required
	Enabled bool `json:"enabled"`

	// Config holds Key=Value words, separated by blanks, for the partition's line in slurm.conf.
	// +optional
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f\x{85}\x{2028}\x{2029}#\\]+$`
	Config string `json:"config,omitempty"`
}

// NodeSetSsh configures ssh access to workers.
//
// +kubebuilder:validation:XValidation:rule="!self.enabled || (has(self.sssdConfRef.name) && size(self.sssdConfRef.name) > 0)",message="sssdConfRef.name must name a Secret of this namespace while ssh is enabled"
type NodeSetSsh struct {
	// Enabled runs sshd in the workers; users get in where they have a job.
	// +required
	Enabled bool `json:"enabled"`

	// SssdConfRef selects sssd.conf.
	// +required
	SssdConfRef corev1.SecretKeySelector `json:"sssdConfRef"`

	// ExtraSshdConfig holds lines for sshd_config.
	// +optional
	ExtraSshdConfig string `json:"extraSshdConfig,omitempty"`
}

// NodeSetUpdateStrategy tells how pods of an old revision are replaced.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'ScheduledUpdate' || (has(self.scheduledUpdate) && has(self.scheduledUpdate.startTime) && has(self.scheduledUpdate.duration))",message="ScheduledUpdate needs scheduledUpdate.startTime and scheduledUpdate.duration"
type NodeSetUpdateStrategy struct {
	// Type of the strategy.
	// +optional
	// +default="RollingUpdate"
	Type UpdateStrategyType `json:"type,omitempty"`

	// RollingUpdate configures the strategy of that name.
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`

	// ScheduledUpdate configures the strategy of that name.
	// +optional
	ScheduledUpdate *ScheduledUpdate `json:"scheduledUpdate,omitempty"`
}

// RollingUpdate configures the replacement of old pods.
type RollingUpdate struct {
	// MaxUnavailable is how many workers may be unavailable: a number, or a percentage that is rounded up.
	// +optional
	// +kubebuilder:default="25%"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? int(self) >= 1 : string(self).matches('^0*([1-9][0-9]?|100)%$')",message="must be a number of at least 1, or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// ScheduledUpdate configures the maintenance reservation.
type ScheduledUpdate struct {
	// StartTime of the first window.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$`
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// Duration of the window.
	// +optional
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="must be a duration of at least 1m, such as 30m"
	Duration *metav1.Duration `json:"duration,omitempty"`

	// Flags are more flags of the Slurm reservation.
	// +optional
	Flags []string `json:"flags,omitempty"`
}

// ClaimRetentionPolicy tells what happens to the pods' claims.
type ClaimRetentionPolicy struct {
	// WhenDeleted is for a NodeSet that is deleted.
	// +optional
	// +default="Retain"
	WhenDeleted ClaimRetention `json:"whenDeleted,omitempty"`

	// WhenScaled is for a pod that is removed when the NodeSet shrinks.
	// +optional
	// +default="Retain"
	WhenScaled ClaimRetention `json:"whenScaled,omitempty"`
}

// NodeSetStatus is the observed state of a NodeSet.
type NodeSetStatus struct {
	// Replicas is the number of pods.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// UpdatedReplicas is the number of pods of the current revision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`

	// ReadyReplicas is the number of ready pods.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// AvailableReplicas is the number of pods that have been ready for minReadySeconds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// UnavailableReplicas is how many pods lack to be available.
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas,omitempty"`

	// Desired is the wanted number of pods.
	// +optional
	Desired int32 `json:"desired,omitempty"`

	// SlurmIdle is the number of idle Slurm nodes.
	// +optional
	SlurmIdle int32 `json:"slurmIdle,omitempty"`

	// SlurmAllocated is the number of Slurm nodes with jobs.
	// +optional
	SlurmAllocated int32 `json:"slurmAllocated,omitempty"`

	// SlurmDown is the number of Slurm nodes that are down.
	// +optional
	SlurmDown int32 `json:"slurmDown,omitempty"`

	// SlurmDrain is the number of Slurm nodes that are drained or draining.
	// +optional
	SlurmDrain int32 `json:"slurmDrain,omitempty"`

	// ObservedGeneration is the generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// NodeSetHash is the current revision.
	// +required
	NodeSetHash string `json:"nodeSetHash"`

	// CollisionCount makes a revision's hash unique.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// OrdinalToNode is where pinned ordinals belong.
	// +optional
	// +nullable
	OrdinalToNode map[string]string `json:"ordinalToNode,omitempty"`

	// Autoscaling is what spec.autoscaling remembers.
	// +optional
	Autoscaling *NodeSetAutoscalingStatus `json:"autoscaling,omitempty"`

	// Selector selects the worker pods, for autoscalers.
	// +required
	Selector string `json:"selector"`

	Status `json:",inline"`
}

// NodeSet is a set of Slurm nodes: pods with slurmd.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=nodesets,singular=nodeset,scope=Namespaced,shortName=nodesets;nss;slurmd
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.status.desired`,description="The wanted number of pods."
// +kubebuilder:printcolumn:name="REPLICAS",type=integer,JSONPath=`.status.replicas`,description="The number of pods."
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updatedReplicas`,description="The number of pods of the current revision."
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyReplicas`,description="The number of ready pods."
// +kubebuilder:printcolumn:name="IDLE",type=integer,priority=1,JSONPath=`.status.slurmIdle`,description="The number of idle Slurm nodes."
// +kubebuilder:printcolumn:name="ALLOCATED",type=integer,priority=1,JSONPath=`.status.slurmAllocated`,description="The number of Slurm nodes with jobs."
// +kubebuilder:printcolumn:name="DOWN",type=integer,priority=1,JSONPath=`.status.slurmDown`,description="The number of Slurm nodes that are down."
// +kubebuilder:printcolumn:name="DRAIN",type=integer,priority=1,JSONPath=`.status.slurmDrain`,description="The number of Slurm nodes that are drained or draining."
// +kubebuilder:printcolumn:name="AUTOSCALING",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="AutoscalingActive")].message`,description="Why spec.autoscaling changes the number of workers, or doesn't."
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NodeSetSpec   `json:"spec,omitempty"`
	Status NodeSetStatus `json:"status,omitempty,omitzero"`
}

// NodeSetList is a list of NodeSets.
//
// +kubebuilder:object:root=true
type NodeSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeSet `json:"items"`
}
