package main

// Admission reads namespaces, and of objects no more than it is asked about.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=slurm-bridge-admission,verbs=get;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
//
// The administrator's rules, its lease and its certificate are in its own namespace.
//
// +kubebuilder:rbac:groups="",namespace=slinky,resources=configmaps,resourceNames=slurm-bridge-policy,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=slinky,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=slinky,resources=leases,resourceNames=a1f3cd42.slinky.slurm.net,verbs=get;patch;update
// +kubebuilder:rbac:groups="",namespace=slinky,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=slinky,resources=secrets,resourceNames=slurm-bridge-admission-tls,verbs=get;update
// +kubebuilder:rbac:groups="";events.k8s.io,namespace=slinky,resources=events,verbs=create;patch
