// Other projects' custom resources, of which charts and docs have objects. No Go package is used:
// the modules hold the definitions, so that "go mod tidy" would drop them.
module github.com/slinky-hpc/slinky/internal/apitest/kinds

go 1.26.6

require (
	github.com/cert-manager/cert-manager v1.20.0
	github.com/kedacore/keda/v2 v2.19.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/jobset v0.11.1
	sigs.k8s.io/lws v0.8.0
	sigs.k8s.io/scheduler-plugins v0.33.5
)
