package main

// The webhook reads what custom resources refer to, and no Secret but its own.
//
// +kubebuilder:rbac:groups=slinky.slurm.net,resources=controllers;accountings;restapis;nodesets,verbs=get;list
// +kubebuilder:rbac:groups="",resources=configmaps;persistentvolumeclaims,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=slurm-operator-webhook,verbs=get;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
//
// Its lease and its certificate are in its own namespace.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=slinky,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=slinky,resources=leases,resourceNames=slurm-operator-webhook,verbs=get;patch;update
// +kubebuilder:rbac:groups="",namespace=slinky,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=slinky,resources=secrets,resourceNames=slurm-operator-webhook-tls,verbs=get;update
// +kubebuilder:rbac:groups="";events.k8s.io,namespace=slinky,resources=events,verbs=create;patch
