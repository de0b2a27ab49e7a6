package v1beta1

// Labels of generated objects and pods.
const (
	// LabelName, LabelInstance and LabelComponent are Kubernetes' recommended labels.
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	// LabelCluster holds the name of the Controller that an object belongs to.
	LabelCluster = "slinky.slurm.net/cluster"
	// LabelControllerActive is "true" on the slurmctld pod that is the active controller.
	LabelControllerActive = "controller.slinky.slurm.net/active"

	// LabelMetrics is "true" on the one Service through which slurmctld's metrics are read.
	LabelMetrics = "controller.slinky.slurm.net/metrics"

	LabelNodeSetPodName     = "nodeset.slinky.slurm.net/pod-name"
	LabelNodeSetPodIndex    = "nodeset.slinky.slurm.net/pod-index"
	LabelNodeSetPodHostname = "nodeset.slinky.slurm.net/pod-hostname"
	LabelNodeSetScalingMode = "nodeset.slinky.slurm.net/scaling-mode"
	// LabelNodeSetPodProtect is "true" on a worker pod whose Slurm node runs jobs.
	LabelNodeSetPodProtect = "nodeset.slinky.slurm.net/pod-protect"
	// LabelRevisionHash holds the revision of a worker pod's template.
	LabelRevisionHash = "controller.kubernetes.io/hash"
)

// Values of LabelName and LabelComponent, by daemon.
const (
	NameSlurmctld  = "slurmctld"
	NameSlurmdbd   = "slurmdbd"
	NameSlurmrestd = "slurmrestd"
	NameSlurmd     = "slurmd"
	NameLogin      = "login"

	ComponentController = "controller"
	ComponentAccounting = "accounting"
	ComponentRestApi    = "restapi"
	ComponentWorker     = "worker"
	ComponentLogin      = "login"
)

// Annotations of worker pods and of the Kubernetes nodes under them.
const (
	// AnnotationPodCordon is "true" on a worker pod whose Slurm node is to be drained.
	AnnotationPodCordon = "nodeset.slinky.slurm.net/pod-cordon"
	// AnnotationPodCordonCause is why the operator set AnnotationPodCordon. Without it, the
	// annotation is somebody else's, and the operator leaves it alone.
	AnnotationPodCordonCause = "nodeset.slinky.slurm.net/pod-cordon-cause"
	// AnnotationPodDeletionCost is an int32, 0 by default: cheaper pods go first when a NodeSet shrinks.
	AnnotationPodDeletionCost = "nodeset.slinky.slurm.net/pod-deletion-cost"
	// AnnotationPodDeadline is the RFC 3339 time at which the last running job of the Slurm node must have ended.
	AnnotationPodDeadline = "nodeset.slinky.slurm.net/pod-deadline"
	// AnnotationNodeCordonReason on a Kubernetes node becomes the reason of its Slurm node's drain.
	AnnotationNodeCordonReason = "nodeset.slinky.slurm.net/node-cordon-reason"
	// AnnotationHostnameOverride on a Kubernetes node names its worker in DaemonSet mode.
	AnnotationHostnameOverride = "nodeset.slinky.slurm.net/hostname-override"
	// AnnotationTopology is Slurm's dynamic topology string, as "topo-switch:s2,topo-block:b2".
	AnnotationTopology = "topology.slinky.slurm.net/spec"
	// AnnotationFeatures is a comma list that becomes Slurm features with FeaturePrefix.
	AnnotationFeatures = "features.slinky.slurm.net/spec"
	// AnnotationDefaultContainer is kubectl's.
	AnnotationDefaultContainer = "kubectl.kubernetes.io/default-container"

	// FeaturePrefix marks the Slurm features that come from AnnotationFeatures.
	FeaturePrefix = "k8s/"
)

// AnnotationAnyOption is "true" on a Controller whose extraConf may hold options that this
// version doesn't know, for a newer Slurm. Without it slurm.conf stays as it was until they are gone.
const AnnotationAnyOption = "slinky.slurm.net/any-option"

// AnnotationGenerateKey on a Secret names a key of it that the operator is to fill with a
// random value, once. The Secret is immutable from then on.
const AnnotationGenerateKey = "slinky.slurm.net/generate-key"

// Annotations of pod templates: the SHA-256 of what a pod reads, so that a change of it replaces the pod.
const (
	AnnotationSlurmKeyHash = "slinky.slurm.net/slurm-key-hash"
	AnnotationJwtKeyHash   = "slinky.slurm.net/jwt-key-hash"
	// AnnotationApplied is the SHA-256 of what the operator asked for, on objects of foreign kinds.
	AnnotationApplied = "slinky.slurm.net/applied-hash"
	// AnnotationKeysChanged on the Secret with a cluster's keys is the RFC 3339 time of its last change.
	AnnotationKeysChanged      = "slinky.slurm.net/slurm-keys-changed"
	AnnotationSlurmConfigHash  = "slinky.slurm.net/slurm-config-hash"
	AnnotationSlurmdbdConfHash = "slinky.slurm.net/slurmdbd-conf-hash"
	AnnotationSshdConfHash     = "slinky.slurm.net/sshd-conf-hash"
	AnnotationSssdConfHash     = "slinky.slurm.net/sssd-conf-hash"
	AnnotationSshHostKeysHash  = "slinky.slurm.net/ssh-host-keys-hash"
)

// Finalizers and taints of the operator.
const (
	// FinalizerReservation keeps a NodeSet until its Slurm reservation is gone.
	FinalizerReservation = "nodeset.slinky.slurm.net/reservation"
	// FinalizerDrain keeps a NodeSet until the jobs on its workers have ended, or its time to drain is over.
	FinalizerDrain = "nodeset.slinky.slurm.net/drain"
	// TaintWorker is tolerated by worker pods; its effect is NoExecute.
	TaintWorker = "nodeset.slinky.slurm.net/worker"
)

// OperatorReasonPrefix begins every Slurm node reason that the operator writes. The
// operator changes no reason without it.
const OperatorReasonPrefix = "slurm-operator: "

// ReservationPrefix begins the name of a NodeSet's maintenance reservation in Slurm.
const ReservationPrefix = "SlurmOperatorMaint-"

// Names of the bridge on pods and nodes.
const (
	// LabelJobID holds the decimal id of the Slurm job that covers a pod.
	LabelJobID = "scheduler.slinky.slurm.net/slurm-jobid"
	// AnnotationNode holds the Kubernetes node that was chosen for a pod.
	AnnotationNode = "slinky.slurm.net/slurm-node"
	// AnnotationCores holds the cores that Slurm gave a pod, by Slurm's abstract numbers: "0-3,8".
	AnnotationCores = "slinky.slurm.net/slurm-cores"
	// AnnotationJob holds what else the bridge knows of the Slurm job that covers a pod, for itself: JSON with
	// the job's SLUID and the pod's place in it.
	AnnotationJob = "slinky.slurm.net/slurm-job"
	// FinalizerBridge keeps a pod until its end is known and its Slurm job has been released.
	FinalizerBridge = "scheduler.slinky.slurm.net/finalizer"

	// LabelSlurmNodeName on a Kubernetes node holds its Slurm node name where the two differ.
	LabelSlurmNodeName = "slinky.slurm.net/slurm-nodename"
	// LabelExternalNode, with any value, asks to register a Kubernetes node in Slurm as external.
	LabelExternalNode = "scheduler.slinky.slurm.net/external-node"
	// AnnotationExternalNodePartitions is a comma list of Slurm partitions for an external node.
	AnnotationExternalNodePartitions = "scheduler.slinky.slurm.net/external-node-partitions"
	// AnnotationDeviceParts on an external node says into which parts its devices are divided,
	// where their driver lets them be divided, as "mig-1g.5gb=4,mig-3g.20gb=1".
	AnnotationDeviceParts = "scheduler.slinky.slurm.net/device-parts"
	// LabelBridge is a convention of manifests, read by nobody; its usual value is "worker".
	LabelBridge = "scheduler.slinky.slurm.net/slurm-bridge"

	// TaintManagedNode is on every node that a bridge manages: its value is the scheduler's
	// name, its effect NoExecute. Pods of that scheduler tolerate it.
	TaintManagedNode = "slinky.slurm.net/managed-node"

	// AnnotationExtendedResourceClaim marks a ResourceClaim that stands for extended resources; its value is "true".
	AnnotationExtendedResourceClaim = "resource.kubernetes.io/extended-resource-claim"

	// BridgeReasonPrefix begins every Slurm node reason that the bridge writes. The bridge
	// changes no reason without it.
	BridgeReasonPrefix = "slurm-bridge: "
)

// Names with which the bridge tells a pod about its job. Whoever starts a container finds
// them by the downward API, and admission gives containers variables that do.
const (
	// AnnotationEnvironment on a pod, or on a Namespace for the pods in it that have none, is
	// a comma list of what containers are told by environment variables: threads, slurm,
	// peers, ranks, all or none.
	AnnotationEnvironment = "slinky.slurm.net/environment"

	// AnnotationNodeList holds the job's Slurm nodes, as "w[1-2]".
	AnnotationNodeList = "slinky.slurm.net/slurm-nodelist"
	// AnnotationNodeCount holds the number of the job's nodes.
	AnnotationNodeCount = "slinky.slurm.net/slurm-nnodes"
	// AnnotationNodeID holds the number of the pod's node among the job's, from 0.
	AnnotationNodeID = "slinky.slurm.net/slurm-nodeid"
	// AnnotationNodeName holds the Slurm name of the pod's node.
	AnnotationNodeName = "slinky.slurm.net/slurmd-nodename"
	// AnnotationRank holds the number of the pod among the job's, from 0.
	AnnotationRank = "slinky.slurm.net/slurm-procid"
	// AnnotationSize holds the number of the job's pods.
	AnnotationSize = "slinky.slurm.net/slurm-ntasks"
	// AnnotationLocalRank holds the number of the pod among the job's pods on its node, from 0.
	AnnotationLocalRank = "slinky.slurm.net/slurm-localid"
	// AnnotationPeers is a comma list of the names of the job's pods by rank: DNS names where the pods have such.
	AnnotationPeers = "slinky.slurm.net/slurm-peers"
	// AnnotationFirstPeer holds the first of AnnotationPeers.
	AnnotationFirstPeer = "slinky.slurm.net/slurm-first-peer"
)

// Names with which "slinky drain" marks what it did, so that "slinky undrain" lifts that and nothing else.
const (
	// AnnotationDrainedBy on a Kubernetes node says who cordoned it with "slinky drain".
	AnnotationDrainedBy = "slinky.slurm.net/drained-by"
	// DrainReasonPrefix begins every Slurm node reason that "slinky drain" writes.
	DrainReasonPrefix = "slinky: "
)

// Policy of the bridge: prefixes of annotations on a Namespace, before the name of a job
// annotation, as in "slurmjob-allowed.slinky.slurm.net/account: physics,chemistry".
const (
	// PolicyAllowedPrefix is before what the namespace's jobs may ask for: a comma list, "*" for
	// all, "" for nothing; of timelimit and priority it is the greatest value.
	PolicyAllowedPrefix = "slurmjob-allowed.slinky.slurm.net/"
	// PolicyDefaultPrefix is before what jobs get that don't ask.
	PolicyDefaultPrefix = "slurmjob-default.slinky.slurm.net/"
)

// Job annotations of the bridge, on a pod or on the object that owns its group.
const (
	JobAnnotationPrefix = "slurmjob.slinky.slurm.net/"
	// JobAnnotationOldPrefix was used before 1.0; annotations with it have no effect.
	JobAnnotationOldPrefix = "slinky.slurm.net/"

	AnnotationAccount     = JobAnnotationPrefix + "account"
	AnnotationConstraints = JobAnnotationPrefix + "constraints"
	AnnotationCPUPerTask  = JobAnnotationPrefix + "cpu-per-task"
	AnnotationExclusive   = JobAnnotationPrefix + "exclusive"
	// AnnotationGangSize, on the owner of a gang of a configured kind, is how many pods start together.
	AnnotationGangSize    = JobAnnotationPrefix + "gang-size"
	AnnotationGRES        = JobAnnotationPrefix + "gres"
	AnnotationGroupID     = JobAnnotationPrefix + "group-id"
	AnnotationJobName     = JobAnnotationPrefix + "job-name"
	AnnotationLicenses    = JobAnnotationPrefix + "licenses"
	AnnotationMaxNodes    = JobAnnotationPrefix + "max-nodes"
	AnnotationMemPerNode  = JobAnnotationPrefix + "mem-per-node"
	AnnotationMinNodes    = JobAnnotationPrefix + "min-nodes"
	AnnotationPartition   = JobAnnotationPrefix + "partition"
	AnnotationPriority    = JobAnnotationPrefix + "priority"
	AnnotationQOS         = JobAnnotationPrefix + "qos"
	AnnotationReservation = JobAnnotationPrefix + "reservation"
	AnnotationTimeLimit   = JobAnnotationPrefix + "timelimit"
	AnnotationUserID      = JobAnnotationPrefix + "user-id"
	AnnotationWCKey       = JobAnnotationPrefix + "wckey"
)

// Conditions of the operator's kinds.
const (
	// ConditionReady is True while the object does what it is for.
	ConditionReady = "Ready"
	// ConditionProgressing is True while the observed state moves towards the wanted one.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while something needs a person or another object to change.
	ConditionDegraded = "Degraded"
	// ConditionAutoscaling is True while spec.autoscaling of a NodeSet decides on its number of workers.
	ConditionAutoscaling = "AutoscalingActive"
	// ConditionReservationCreated is True while a NodeSet's maintenance reservation exists in Slurm.
	ConditionReservationCreated = "ReservationCreated"

	// ConditionSlurmScheduled on a pod of the bridge tells how its Slurm job stands.
	ConditionSlurmScheduled = "slinky.slurm.net/SlurmScheduled"
	// ConditionSlurmAway on a Kubernetes node of the bridge is True while somebody has drained
	// its node in Slurm, or it is down there. What the bridge drains for Kubernetes' sake doesn't count.
	ConditionSlurmAway = "slinky.slurm.net/SlurmUnavailable"
)

// Reasons of the conditions above.
const (
	ReasonAvailable         = "Available"
	ReasonExternal          = "External"
	ReasonAsExpected        = "AsExpected"
	ReasonWaitingForPods    = "WaitingForPods"
	ReasonWaitingForDrain   = "WaitingForDrain"
	ReasonScaling           = "Scaling"
	ReasonUpdating          = "Updating"
	ReasonReferenceNotFound = "ReferenceNotFound"
	ReasonInvalidSpec       = "InvalidSpec"
	ReasonSyncFailed        = "SyncFailed"
	ReasonSlurmUnknown      = "SlurmUnknown"
	ReasonNotSupported      = "NotSupported"
	ReasonExpired           = "Expired"
	ReasonPodFailed         = "PodFailed"
	// ReasonInvalidRegistration: Slurm refuses what a worker says about itself.
	ReasonInvalidRegistration = "InvalidRegistration"

	// Reasons of ConditionAutoscaling, beside ReasonSlurmUnknown and ReasonInvalidSpec.
	ReasonSteady           = "Steady"
	ReasonScalingUp        = "ScalingUp"
	ReasonScalingDown      = "ScalingDown"
	ReasonLimitedByMaximum = "LimitedByMaximum"
	ReasonOtherAutoscaler  = "OtherAutoscaler"

	ReasonReservationCreated   = "Created"
	ReasonReservationNotExists = "NotExists"
)

// Reasons of a bridge's pod that has its node, in its conditions and events.
const (
	// ReasonSlurmJobLost: Slurm has no record of the pod's job any more.
	ReasonSlurmJobLost = "SlurmJobLost"
	// ReasonSlurmPreempted and the next ones are why a pod was deleted, in its condition DisruptionTarget.
	ReasonSlurmPreempted      = "SlurmPreempted"
	ReasonSlurmSuspended      = "SlurmSuspended"
	ReasonSlurmAllocationLost = "SlurmAllocationLost"
	ReasonSlurmTimeLimit      = "SlurmTimeLimit"
	ReasonSlurmNodeFail       = "SlurmNodeFail"
	ReasonSlurmDeadline       = "SlurmDeadline"
	ReasonSlurmOutOfMemory    = "SlurmOutOfMemory"
	ReasonSlurmCancelled      = "SlurmCancelled"
	ReasonSlurmJobEnded       = "SlurmJobEnded"
	// ReasonSlurmNeedsAction: a pod's job waits for what doesn't come by itself.
	ReasonSlurmNeedsAction = "SlurmNeedsAction"
	// ReasonNodeUnreachable: the pod is to end, but its node doesn't answer.
	ReasonNodeUnreachable = "NodeUnreachable"
)

// Reasons of the CPU driver's events, which are of its node.
const (
	// EventContainersUnconfined: containers were made without the driver and could run on claims' CPUs until it was back.
	EventContainersUnconfined = "ContainersUnconfined"
	// EventReservedCPUsDiffer: kubelet keeps fewer CPUs for the system than the driver.
	EventReservedCPUsDiffer = "ReservedCPUsDiffer"
)

// Reasons of the operator's events.
const (
	EventSyncFailed          = "SyncFailed"
	EventCreateSucceeded     = "CreateSucceeded"
	EventCreateFailed        = "CreateFailed"
	EventPatchFailed         = "PatchFailed"
	EventDeleteSucceeded     = "DeleteSucceeded"
	EventDeleteFailed        = "DeleteFailed"
	EventControllerRefFailed = "ControllerRefFailed"
	EventScalingUp           = "ScalingUp"
	EventScalingDown         = "ScalingDown"
	EventAutoscaling         = "Autoscaling"
	EventRollingUpdate       = "RollingUpdate"
	EventControllerActive    = "ControllerActive"
	EventNodeCordon          = "NodeCordon"
	EventSlurmNodeDrained    = "SlurmNodeDrained"
	EventSlurmNodeDrain      = "SlurmNodeDrain"
	EventSlurmNodeResume     = "SlurmNodeResume"
	EventFailedDaemonPod     = "FailedDaemonPod"
	EventSucceededDaemonPod  = "SucceededDaemonPod"
	EventHostnameMismatch    = "HostnameMismatch"
	EventScheduledUpdate     = "Scheduled Update"
	EventNodeNotRegistered   = "SlurmNodeNotRegistered"
	EventRecordPruned        = "DefunctSlurmNodePruned"
)

// Pod conditions that mirror a Slurm node: exactly one base state, and its flags.
const (
	PodConditionPrefix = "SlurmNodeState"

	PodConditionAllocated = PodConditionPrefix + "Allocated"
	PodConditionDown      = PodConditionPrefix + "Down"
	PodConditionError     = PodConditionPrefix + "Error"
	PodConditionFuture    = PodConditionPrefix + "Future"
	PodConditionIdle      = PodConditionPrefix + "Idle"
	PodConditionMixed     = PodConditionPrefix + "Mixed"
	PodConditionUnknown   = PodConditionPrefix + "Unknown"

	PodConditionCompleting    = PodConditionPrefix + "Completing"
	PodConditionDrain         = PodConditionPrefix + "Drain"
	PodConditionFail          = PodConditionPrefix + "Fail"
	PodConditionInvalid       = PodConditionPrefix + "Invalid"
	PodConditionInvalidReg    = PodConditionPrefix + "InvalidReg"
	PodConditionMaintenance   = PodConditionPrefix + "Maintenance"
	PodConditionNotRegistered = PodConditionPrefix + "NotRegistered" // Slurm doesn't know the node
	PodConditionNotResponding = PodConditionPrefix + "NotResponding"
	PodConditionUndrain       = PodConditionPrefix + "Undrain"

	// ConditionSlurmDrained on a worker pod is there while its Slurm node takes no more jobs:
	// True once none is left, False while some still run.
	ConditionSlurmDrained = "slinky.slurm.net/SlurmDrained"
)

// Reasons of the pod conditions above.
const (
	// ReasonSetByOperator and ReasonSetInSlurm tell who gave the Slurm node its reason.
	ReasonSetByOperator = "SetByOperator"
	ReasonSetInSlurm    = "SetInSlurm"
	// ReasonReported is for states that come from the daemons themselves.
	ReasonReported = "Reported"
	ReasonDrained  = "Drained"
	ReasonDraining = "Draining"
)

// ReasonPodTerminating is the reason with which a worker that ends takes its Slurm node down.
const ReasonPodTerminating = OperatorReasonPrefix + "Pod is terminating"

// Field owners and lease names.
const (
	// OperatorFieldOwner owns the fields that the operator applies.
	OperatorFieldOwner = "slurm-operator"
	// AutoscalerFieldOwner owns spec.replicas of NodeSets with spec.autoscaling.
	AutoscalerFieldOwner = "slurm-operator-autoscaler"
	// OperatorLease is shared with the published operator, so that the two never act at once.
	OperatorLease = "slurm-operator"
	// WebhookLease is that of the webhook's replica that keeps the certificate.
	WebhookLease = "slurm-operator-webhook"
	// WebhookFieldOwner owns the fields that the webhook applies.
	WebhookFieldOwner = "slurm-operator-webhook"
	// AdmissionLease is shared with the published admission of the bridge.
	AdmissionLease = "a1f3cd42.slinky.slurm.net"
	// AdmissionFieldOwner owns the fields that the bridge's admission applies.
	AdmissionFieldOwner = "slurm-bridge-admission"
)
