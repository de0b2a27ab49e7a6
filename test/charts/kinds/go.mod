// Other projects' custom resources, of which charts render objects. No Go package is used:
// the modules hold the definitions, so that "go mod tidy" would drop them.
module github.com/slinky-hpc/slinky/test/charts/kinds

go 1.26.6

require (
	github.com/cert-manager/cert-manager v1.20.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
