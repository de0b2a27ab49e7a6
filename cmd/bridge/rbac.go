package main

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=nodes/status,verbs=patch
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=resource.k8s.io,resources=deviceclasses,verbs=list
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaims,verbs=get;delete
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=scheduling.k8s.io;scheduling.x-k8s.io,resources=podgroups,verbs=get
// +kubebuilder:rbac:groups=scheduling.k8s.io;scheduling.x-k8s.io,resources=podgroups/status,verbs=patch
//
// Who reads metrics, where they are not for everybody.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
//
// Its lease is in its own namespace.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=slinky,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=slinky,resources=leases,resourceNames=69d5fe47.my.slinky.slurm.net,verbs=get;update
