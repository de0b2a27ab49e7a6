package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LoginSetSpec is the wanted state of a set of login pods.
type LoginSetSpec struct {
	// ControllerRef names the Controller whose cluster users log in to.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.name) && size(self.name) > 0",message="controllerRef.name must name a Controller of this namespace"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="controllerRef can't be changed: make a new LoginSet"
	ControllerRef corev1.LocalObjectReference `json:"controllerRef"`

	// Replicas is the number of login pods.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// Strategy replaces login pods on a change.
	// +optional
	Strategy appsv1.DeploymentStrategy `json:"strategy,omitempty,omitzero"`

	// Login is laid over the login container.
	// +optional
	Login ContainerWrapper `json:"login,omitempty,omitzero"`

	// InitConf is laid over the initconf container.
	// +optional
	InitConf ContainerWrapper `json:"initconf,omitempty,omitzero"`

	// Template is laid over the login pod.
	// +optional
	Template PodTemplate `json:"template,omitempty,omitzero"`

	// RootSshAuthorizedKeys is root's authorized_keys.
	// +optional
	RootSshAuthorizedKeys string `json:"rootSshAuthorizedKeys,omitempty"`

	// ExtraSshdConfig holds lines for sshd_config.
	// +optional
	ExtraSshdConfig string `json:"extraSshdConfig,omitempty"`

	// SssdConfRef selects sssd.conf.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.name) && size(self.name) > 0",message="sssdConfRef.name must name a Secret of this namespace"
	SssdConfRef corev1.SecretKeySelector `json:"sssdConfRef"`

	// Service changes the Service of the login pods.
	// +optional
	Service ServiceSpec `json:"service,omitempty,omitzero"`
}

// LoginSetStatus is the observed state of a LoginSet.
type LoginSetStatus struct {
	// Replicas is the number of login pods.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// Selector selects the login pods, for autoscalers.
	// +required
	Selector string `json:"selector"`

	Status `json:",inline"`
}

// LoginSet is a set of pods that users log in to.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=loginsets,singular=loginset,scope=Namespaced,shortName=loginsets;lss;sackd
// +kubebuilder:printcolumn:name="REPLICAS",type=integer,JSONPath=`.status.replicas`,description="The number of login pods."
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type LoginSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   LoginSetSpec   `json:"spec,omitempty"`
	Status LoginSetStatus `json:"status,omitempty,omitzero"`
}

// LoginSetList is a list of LoginSets.
//
// +kubebuilder:object:root=true
type LoginSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LoginSet `json:"items"`
}
