package v1beta1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeSetAutoscaling bounds the number of workers that follows the jobs that wait.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",message="minReplicas can't be more than maxReplicas"
type NodeSetAutoscaling struct {
	// MinReplicas is the least number of workers.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// MaxReplicas is the greatest number of workers.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65533
	MaxReplicas int32 `json:"maxReplicas"`

	// IdleTime is how long a worker is without a job before it goes.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s')",message="must be a duration of at least 10s, such as 5m"
	IdleTime *metav1.Duration `json:"idleTime,omitempty"`

	// PendingTime is how long a job waits before workers are added for it.
	// +optional
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=24
	PendingTime *metav1.Duration `json:"pendingTime,omitempty"`

	// Priority: of several NodeSets that could run a job, the one with the greatest priority gets the
	// new workers; among equals the one whose workers have the least that the job doesn't ask for.
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// Capacity is what a worker offers to jobs. What is left out is taken from a worker that has
	// registered, from the limits of spec.slurmd and from spec.extraConf. Slurm shows it while there
	// is no worker, and takes jobs that need it.
	// +optional
	Capacity *NodeSetCapacity `json:"capacity,omitempty"`
}

// NodeSetCapacity is what one worker offers to jobs.
type NodeSetCapacity struct {
	// CPUs is their number, as Slurm counts them.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	CPUs int32 `json:"cpus,omitempty"`

	// Memory of the worker.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// Gres are generic resources as Slurm writes them, such as gpu:a100:4.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.:,-]+$`
	Gres string `json:"gres,omitempty"`

	// Features of the worker beside those of spec.extraConf.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9_./:-]+$`
	Features []string `json:"features,omitempty"`
}

// NodeSetAutoscalingStatus is what spec.autoscaling remembers.
type NodeSetAutoscalingStatus struct {
	// Worker is what the workers offered when they were last seen.
	// +optional
	Worker *NodeSetCapacity `json:"worker,omitempty"`
}
