// Package bench measures the bridge on a real API server and a real Slurm with
// simulated kubelets, beside the stock kube-scheduler and bare Slurm submissions
// in the same run. `make bench` prints the table; docs/performance.md explains it.
package bench
