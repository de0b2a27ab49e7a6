// Package externalmetrics serves what the exporter counts as Kubernetes' external metrics API, for autoscalers:
// a HorizontalPodAutoscaler follows the jobs that wait without a Prometheus in between.
//
// The API server is the only client: it aggregates this API, has authenticated the user, and says who that is.
package externalmetrics
