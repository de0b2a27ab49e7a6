// Command bridge-scheduler is kube-scheduler with the bridge's plugin: it binds
// pods to the nodes that Slurm chooses for them.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() { os.Exit(cli.Run(newCommand(os.Getenv))) }
