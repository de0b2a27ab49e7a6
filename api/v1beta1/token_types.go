package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TokenSpec is the wanted state of a JSON Web Token for Slurm.
//
// +kubebuilder:validation:XValidation:rule="has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)",message="jwtKeyRef is required"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.jwtKeyRef) || has(oldSelf.jwtHs256KeyRef)) || ((has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)) && (has(self.jwtKeyRef) ? self.jwtKeyRef.name : self.jwtHs256KeyRef.name) == (has(oldSelf.jwtKeyRef) ? oldSelf.jwtKeyRef.name : oldSelf.jwtHs256KeyRef.name) && (has(self.jwtKeyRef) ? self.jwtKeyRef.key : self.jwtHs256KeyRef.key) == (has(oldSelf.jwtKeyRef) ? oldSelf.jwtKeyRef.key : oldSelf.jwtHs256KeyRef.key))",message="jwtKeyRef can't be changed: put the new key into the same key of the same Secret, or make a new Token"
type TokenSpec struct {
	// JwtKeyRef selects the HS256 key that signs the token.
	// +optional
	JwtKeyRef *corev1.SecretKeySelector `json:"jwtKeyRef,omitempty"`

	// JwtHs256KeyRef is the former name of jwtKeyRef, which wins over it.
	// +optional
	JwtHs256KeyRef *corev1.SecretKeySelector `json:"jwtHs256KeyRef,omitempty"`

	// Username is the Slurm user whom the token stands for.
	// +required
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f\x{85}\x{2028}\x{2029}]*$`
	Username string `json:"username"`

	// Lifetime of a token; 15 minutes when empty.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^-?(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="duration(self) < duration('2500000h')",message="must be a duration such as 15m or 1h30m"
	Lifetime *metav1.Duration `json:"lifetime,omitempty"`

	// Refresh replaces the token when 80% of its lifetime have passed.
	// +optional
	// +default=true
	Refresh bool `json:"refresh"`

	// SecretRef selects the Secret and key that receive the token; by default <token>-jwt-<username> and SLURM_JWT.
	// +optional
	SecretRef *corev1.SecretKeySelector `json:"secretRef,omitempty"`
}

// TokenStatus is the observed state of a Token.
type TokenStatus struct {
	// IssuedAt is when the current token was issued.
	// +optional
	IssuedAt *metav1.Time `json:"issuedAt,omitempty"`

	Status `json:",inline"`
}

// Token is a JSON Web Token for Slurm, kept in a Secret.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=tokens,singular=token,scope=Namespaced,shortName=tokens;jwt
// +kubebuilder:printcolumn:name="USER",type=string,JSONPath=`.spec.username`
// +kubebuilder:printcolumn:name="IAT",type=date,JSONPath=`.status.issuedAt`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Token struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TokenSpec   `json:"spec,omitempty"`
	Status TokenStatus `json:"status,omitempty,omitzero"`
}

// TokenList is a list of Tokens.
//
// +kubebuilder:object:root=true
type TokenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Token `json:"items"`
}
