package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RestApiSpec is the wanted state of slurmrestd.
type RestApiSpec struct {
	// ControllerRef names the Controller that slurmrestd talks to.
	// +required
	ControllerRef corev1.LocalObjectReference `json:"controllerRef"`

	// Replicas is the number of slurmrestd pods.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// Slurmrestd is laid over the slurmrestd container; its args come before the listen address.
	// +optional
	Slurmrestd ContainerWrapper `json:"slurmrestd,omitempty,omitzero"`

	// Template is laid over the slurmrestd pod.
	// +optional
	Template PodTemplate `json:"template,omitempty,omitzero"`

	// Service changes the Service of slurmrestd.
	// +optional
	Service ServiceSpec `json:"service,omitempty,omitzero"`
}

// RestApi is a slurmrestd.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=restapis,singular=restapi,scope=Namespaced,shortName=slurmrestd
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type RestApi struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RestApiSpec `json:"spec,omitempty"`
	Status Status      `json:"status,omitempty,omitzero"`
}

// RestApiList is a list of RestApis.
//
// +kubebuilder:object:root=true
type RestApiList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RestApi `json:"items"`
}
