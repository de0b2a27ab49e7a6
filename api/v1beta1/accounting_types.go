package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AccountingSpec is the wanted state of slurmdbd.
//
// +kubebuilder:validation:XValidation:rule="(has(self.external) && self.external) || has(self.slurmKeyRef)",message="slurmKeyRef is required unless external is true"
// +kubebuilder:validation:XValidation:rule="(has(self.external) && self.external) || has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)",message="jwtKeyRef is required unless external is true"
// +kubebuilder:validation:XValidation:rule="!(has(self.external) && self.external) || has(self.externalConfig)",message="externalConfig is required when external is true"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.jwtKeyRef) || has(oldSelf.jwtHs256KeyRef)) || ((has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)) && (has(self.jwtKeyRef) ? self.jwtKeyRef.name : self.jwtHs256KeyRef.name) == (has(oldSelf.jwtKeyRef) ? oldSelf.jwtKeyRef.name : oldSelf.jwtHs256KeyRef.name) && (has(self.jwtKeyRef) ? self.jwtKeyRef.key : self.jwtHs256KeyRef.key) == (has(oldSelf.jwtKeyRef) ? oldSelf.jwtKeyRef.key : oldSelf.jwtHs256KeyRef.key))",message="jwtKeyRef can't be changed: put the new key into the same key of the same Secret"
type AccountingSpec struct {
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

	// External means that slurmdbd runs outside of Kubernetes.
	// +optional
	External bool `json:"external,omitempty"`

	// ExternalConfig tells where the external slurmdbd listens.
	// +optional
	ExternalConfig *ExternalConfig `json:"externalConfig,omitempty"`

	// StorageConfig tells which database slurmdbd uses.
	// +optional
	StorageConfig *StorageConfig `json:"storageConfig,omitempty"`

	// Slurmdbd is laid over the slurmdbd container.
	// +optional
	Slurmdbd ContainerWrapper `json:"slurmdbd,omitempty,omitzero"`

	// Template is laid over the slurmdbd pod.
	// +optional
	Template PodTemplate `json:"template,omitempty,omitzero"`

	// ExtraConf holds lines for slurmdbd.conf.
	// +optional
	ExtraConf string `json:"extraConf,omitempty"`

	// Service changes the Service of slurmdbd.
	// +optional
	Service ServiceSpec `json:"service,omitempty,omitzero"`
}

// StorageConfig tells where slurmdbd's MySQL or MariaDB is.
type StorageConfig struct {
	// Host of the database.
	// +required
	// +kubebuilder:validation:Pattern=`^[^\s\x00-\x1f\x7f\x{85}\x{2028}\x{2029}"'#\\(),=]+$`
	Host string `json:"host"`

	// Port of the database.
	// +optional
	// +default=3306
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int `json:"port,omitempty"`

	// Database is the name of the database.
	// +optional
	// +default="slurm_acct_db"
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f\x{85}\x{2028}\x{2029}]*$`
	Database string `json:"database,omitempty"`

	// Username of the database user.
	// +optional
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f\x{85}\x{2028}\x{2029}]*$`
	Username string `json:"username,omitempty"`

	// PasswordKeyRef selects the password of the database user.
	// +required
	PasswordKeyRef corev1.SecretKeySelector `json:"passwordKeyRef"`
}

// Accounting is a slurmdbd.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=accountings,singular=accounting,scope=Namespaced,shortName=slurmdbd
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Accounting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AccountingSpec `json:"spec,omitempty"`
	Status Status         `json:"status,omitempty,omitzero"`
}

// AccountingList is a list of Accountings.
//
// +kubebuilder:object:root=true
type AccountingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Accounting `json:"items"`
}
