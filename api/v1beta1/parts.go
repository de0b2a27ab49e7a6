package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContainerWrapper is a core/v1 Container that is laid over the one that the operator builds.
// Its name is not required.
type ContainerWrapper = RawObject

// Metadata is added to an object's own.
type Metadata struct {
	// Annotations to add.
	// +optional
	// +nullable
	Annotations map[string]string `json:"annotations,omitempty"`

	// Labels to add.
	// +optional
	// +nullable
	Labels map[string]string `json:"labels,omitempty"`
}

// PodTemplate is laid over the pod that the operator builds.
type PodTemplate struct {
	// Metadata is added to the pod's.
	// +optional
	Metadata Metadata `json:"metadata,omitempty,omitzero"`

	// PodSpec is a core/v1 PodSpec. Its containers are added to the operator's, the rest is merged.
	// +optional
	PodSpec RawObject `json:"spec,omitempty,omitzero"`
}

// ServiceSpec changes a Service that the operator builds.
type ServiceSpec struct {
	// Metadata is added to the Service's.
	// +optional
	Metadata Metadata `json:"metadata,omitempty,omitzero"`

	// ServiceSpec is a core/v1 ServiceSpec; its externalIPs are ignored.
	// +optional
	ServiceSpec RawObject `json:"spec,omitempty,omitzero"`

	// Port is the Service's port; 0 means the daemon's own.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int `json:"port,omitempty"`

	// NodePort is the port on every Kubernetes node, for a Service of type NodePort or LoadBalancer.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	NodePort int `json:"nodePort,omitempty"`
}

// ExternalConfig tells where a daemon outside of Kubernetes listens.
type ExternalConfig struct {
	// Host is a host name or an IP address.
	// +required
	// +kubebuilder:validation:Pattern=`^[^\s\x00-\x1f\x7f\x{85}\x{2028}\x{2029}"'#\\(),=]+$`
	Host string `json:"host"`

	// Port is a TCP port.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int `json:"port"`
}

// PrometheusDuration is a duration as Prometheus writes it, such as 30s or 1m30s.
//
// +kubebuilder:validation:Pattern:="^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"
type PrometheusDuration string

// Metrics configures slurmctld's own metrics.
type Metrics struct {
	// Enabled makes slurmctld serve metrics in OpenMetrics format.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// ServiceMonitor asks for a ServiceMonitor of the Prometheus operator.
	// +optional
	ServiceMonitor ServiceMonitor `json:"serviceMonitor,omitempty,omitzero"`
}

// ServiceMonitor configures a ServiceMonitor of the Prometheus operator.
type ServiceMonitor struct {
	Metadata `json:",inline"`

	// Enabled asks for a ServiceMonitor.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Interval between scrapes, for endpoints without their own.
	// +optional
	Interval PrometheusDuration `json:"interval,omitempty"`

	// ScrapeTimeout for endpoints without their own.
	// +optional
	ScrapeTimeout PrometheusDuration `json:"scrapeTimeout,omitempty"`

	// Endpoints to scrape; those for jobs, nodes, partitions and scheduler when empty.
	// +optional
	Endpoints []MetricsEndpoint `json:"endpoints,omitempty"`
}

// MetricsEndpoint is one path to scrape.
type MetricsEndpoint struct {
	// Path such as /metrics/jobs.
	// +required
	Path string `json:"path"`

	// Interval between scrapes.
	// +optional
	Interval PrometheusDuration `json:"interval,omitempty"`

	// ScrapeTimeout of one scrape.
	// +optional
	ScrapeTimeout PrometheusDuration `json:"scrapeTimeout,omitempty"`
}

// Status is what all kinds report.
type Status struct {
	// Conditions Ready, Progressing and Degraded, each with the generation it was observed at.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}
