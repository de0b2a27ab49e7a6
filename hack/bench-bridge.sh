#!/bin/bash
# Measures the bridge beside the stock scheduler and bare Slurm, and prints a table. As root.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/" ./cmd/bridge ./cmd/bridge-scheduler ./cmd/slinky
KUBEBUILDER_ASSETS=$("$bin/slinky" tools envtest)
export KUBEBUILDER_ASSETS SLINKY_BENCH_BIN=$bin SLINKY_TEST_APISERVER=1 SLINKY_TEST_SLURM=1
# In a process namespace of their own, the servers end with the run however it ends.
unshare --pid --fork --kill-child --mount-proc \
	go test ./test/bench -run TestBridgeTable -count 1 -timeout 40m -v "$@"
