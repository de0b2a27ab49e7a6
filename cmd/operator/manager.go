package main

import (
	"crypto/tls"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slinky-hpc/slinky/internal/operator"
)

// cache says what the operator looks at. What it doesn't look at, it doesn't touch.
func (o *options) cache() cache.Options {
	out := operator.CacheOptions()
	for _, name := range list(o.namespaces) {
		if out.DefaultNamespaces == nil {
			out.DefaultNamespaces = map[string]cache.Config{}
		}
		out.DefaultNamespaces[name] = cache.Config{}
	}
	var not []fields.Selector
	for _, name := range list(o.excludedNamespaces) {
		not = append(not, fields.OneTermNotEqualSelector("metadata.namespace", name))
	}
	if len(not) > 0 {
		out.DefaultFieldSelector = fields.AndSelectors(not...)
		// Nodes are in no namespace, and the API server refuses to select them by one.
		out.ByObject = map[client.Object]cache.ByObject{&corev1.Node{}: {Field: fields.Everything()}}
	}
	return out
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// metrics says how metrics are served; secure ones to whom Kubernetes lets read them.
func (o *options) metrics() metricsserver.Options {
	out := metricsserver.Options{BindAddress: o.metricsAddr}
	if o.metricsSecure {
		out.SecureServing, out.FilterProvider = true, filters.WithAuthenticationAndAuthorization
	}
	if !o.enableHTTP2 {
		// HTTP/2 lets a client make a server work a lot at little cost (CVE-2023-44487).
		out.TLSOpts = append(out.TLSOpts, func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} })
	}
	return out
}

func (o *options) profiles() string {
	if o.profile {
		return o.profileAddr
	}
	return ""
}
