// Package v1beta1 holds the kinds of the API group slinky.slurm.net, and every
// name by which Slinky's parts and its users know each other.
//
// +kubebuilder:object:generate=true
// +groupName=slinky.slurm.net
package v1beta1
