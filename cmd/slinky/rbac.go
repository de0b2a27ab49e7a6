package main

// The rights of "slinky web --in-cluster", where the bridge's configuration and credentials are mounted.
//
// +kubebuilder:rbac:groups="",resources=pods;nodes,verbs=list;watch
// +kubebuilder:rbac:groups=slinky.slurm.net,resources=controllers;nodesets,verbs=list
//
// Who may look is asked of the API server.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
