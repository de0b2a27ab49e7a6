package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ControllerSpec is the wanted state of a Slurm control plane.
//
// +kubebuilder:validation:XValidation:rule="(has(self.external) && self.external) || has(self.slurmKeyRef)",message="slurmKeyRef is required unless external is true"
// +kubebuilder:validation:XValidation:rule="(has(self.external) && self.external) || has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)",message="jwtKeyRef is required unless external is true"
// +kubebuilder:validation:XValidation:rule="!(has(self.external) && self.external) || has(self.externalConfig)",message="externalConfig is required when external is true"
// +kubebuilder:validation:XValidation:rule="!(has(self.ha) && self.ha.enabled) || (has(self.persistence) && self.persistence.enabled && has(self.persistence.existingClaim) && size(self.persistence.existingClaim) > 0)",message="ha needs persistence.enabled and a persistence.existingClaim that several pods can write to"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.slurmKeyRef) || (has(self.slurmKeyRef) && self.slurmKeyRef.name == oldSelf.slurmKeyRef.name)",message="slurmKeyRef.name can't be changed: put the new key into the same Secret"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.jwtKeyRef) || has(oldSelf.jwtHs256KeyRef)) || ((has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)) && (has(self.jwtKeyRef) ? self.jwtKeyRef.name : self.jwtHs256KeyRef.name) == (has(oldSelf.jwtKeyRef) ? oldSelf.jwtKeyRef.name : oldSelf.jwtHs256KeyRef.name) && (has(self.jwtKeyRef) ? self.jwtKeyRef.key : self.jwtHs256KeyRef.key) == (has(oldSelf.jwtKeyRef) ? oldSelf.jwtKeyRef.key : oldSelf.jwtHs256KeyRef.key))",message="jwtKeyRef can't be changed: put the new key into the same key of the same Secret"
// +kubebuilder:validation:XValidation:rule="(has(self.persistence) && self.persistence.enabled) == (has(oldSelf.persistence) && oldSelf.persistence.enabled)",message="persistence.enabled can't be changed: slurmctld would start with an empty state; make a new Controller"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.persistence) && oldSelf.persistence.enabled) || !(has(self.persistence) && self.persistence.enabled) || ((has(self.persistence.existingClaim) && size(self.persistence.existingClaim) > 0) == (has(oldSelf.persistence.existingClaim) && size(oldSelf.persistence.existingClaim) > 0) && (!has(self.persistence.existingClaim) || !has(oldSelf.persistence.existingClaim) || self.persistence.existingClaim == oldSelf.persistence.existingClaim))",message="persistence.existingClaim can't be changed: slurmctld would start with another state; make a new Controller"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.clusterName) || size(oldSelf.clusterName) == 0 || (has(self.clusterName) && (size(self.clusterName) == 0 || self.clusterName == oldSelf.clusterName)) || !has(self.clusterName)",message="clusterName can't be changed: Slurm's state and accounting are kept under it; make a new Controller"
type ControllerSpec struct {
	// ClusterName is Slurm's ClusterName; <namespace>_<name> when empty.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[^\s\x00-\x1f\x7f\x{85}\x{2028}\x{2029}"'#\\/,=]*$`
	ClusterName string `json:"clusterName,omitempty"`

	// SlurmKeyRef selects the key of auth/slurm.
	// +optional
	SlurmKeyRef *corev1.SecretKeySelector `json:"slurmKeyRef,omitempty"`

	// JwtKeyRef selects the HS256 key of auth/jwt.
	// +optional
	JwtKeyRef *corev1.SecretKeySelector `json:"jwtKeyRef,omitempty"`

	// JwtHs256KeyRef is the former name of jwtKeyRef, which wins over it.
	// +optional
	JwtHs256KeyRef *corev1.SecretKeySelector `json:"jwtHs256KeyRef,omitempty"`

	// JwksKeyRef selects a JSON Web Key Set whose tokens are accepted as well.
	// +optional
	JwksKeyRef *corev1.ConfigMapKeySelector `json:"jwksKeyRef,omitempty"`

	// AccountingRef names the Accounting that this cluster reports to.
	// +optional
	AccountingRef *corev1.LocalObjectReference `json:"accountingRef,omitempty"`

	// External means that slurmctld runs outside of Kubernetes.
	// +optional
	External bool `json:"external,omitempty"`

	// ExternalConfig tells where the external slurmctld listens.
	// +optional
	ExternalConfig *ExternalConfig `json:"externalConfig,omitempty"`

	// ExtraConf holds lines for slurm.conf.
	// +optional
	ExtraConf string `json:"extraConf,omitempty"`

	// ConfigFileRefs name ConfigMaps whose keys become files in /etc/slurm.
	// +optional
	ConfigFileRefs []corev1.LocalObjectReference `json:"configFileRefs,omitempty"`

	// PrologScriptRefs name ConfigMaps whose keys become Prolog scripts.
	// +optional
	PrologScriptRefs []corev1.LocalObjectReference `json:"prologScriptRefs,omitempty"`

	// EpilogScriptRefs name ConfigMaps whose keys become Epilog scripts.
	// +optional
	EpilogScriptRefs []corev1.LocalObjectReference `json:"epilogScriptRefs,omitempty"`

	// PrologSlurmctldScriptRefs name ConfigMaps whose keys become PrologSlurmctld scripts.
	// +optional
	PrologSlurmctldScriptRefs []corev1.LocalObjectReference `json:"prologSlurmctldScriptRefs,omitempty"`

	// EpilogSlurmctldScriptRefs name ConfigMaps whose keys become EpilogSlurmctld scripts.
	// +optional
	EpilogSlurmctldScriptRefs []corev1.LocalObjectReference `json:"epilogSlurmctldScriptRefs,omitempty"`

	// Slurmctld is laid over the slurmctld container.
	// +optional
	Slurmctld ContainerWrapper `json:"slurmctld,omitempty,omitzero"`

	// Reconfigure is laid over the reconfigure container.
	// +optional
	Reconfigure ContainerWrapper `json:"reconfigure,omitempty,omitzero"`

	// InplaceReconfigure makes slurmctld read a changed configuration instead of being restarted.
	// +optional
	InplaceReconfigure bool `json:"inplaceReconfigure,omitempty"`

	// LogFile is laid over the logfile container.
	// +optional
	LogFile ContainerWrapper `json:"logfile,omitempty,omitzero"`

	// Template is laid over the slurmctld pod.
	// +optional
	Template PodTemplate `json:"template,omitempty,omitzero"`

	// HA runs backup controllers.
	// +optional
	HA *ControllerHA `json:"ha,omitempty"`

	// Persistence keeps slurmctld's state.
	// +optional
	Persistence *ControllerPersistence `json:"persistence,omitempty"`

	// Service changes the Service of slurmctld.
	// +optional
	Service ServiceSpec `json:"service,omitempty,omitzero"`

	// Metrics of slurmctld.
	// +optional
	Metrics Metrics `json:"metrics,omitempty,omitzero"`
}

// ControllerHA configures backup controllers.
type ControllerHA struct {
	// Enabled runs backup controllers.
	// +required
	Enabled bool `json:"enabled"`

	// Backups is the number of backup controllers.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	Backups *int32 `json:"backups,omitempty"`
}

// ControllerPersistence configures where slurmctld keeps its state.
type ControllerPersistence struct {
	// Enabled keeps the state in a PersistentVolumeClaim.
	// +required
	// +default=true
	Enabled *bool `json:"enabled"`

	// ExistingClaim names a claim to use rather than one of the operator's.
	// +optional
	ExistingClaim string `json:"existingClaim,omitempty"`

	// The claim that the operator makes.
	corev1.PersistentVolumeClaimSpec `json:",inline"`
}

// Controller is a Slurm control plane: slurmctld and its configuration.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=controllers,singular=controller,scope=Namespaced,shortName=slurmctld
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Controller struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ControllerSpec `json:"spec,omitempty"`
	Status Status         `json:"status,omitempty,omitzero"`
}

// ControllerList is a list of Controllers.
//
// +kubebuilder:object:root=true
type ControllerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Controller `json:"items"`
}
