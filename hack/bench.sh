#!/bin/bash
# Runs the benchmarks of the packages that have some; the others need not be compiled.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t packages < <(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -r -n1 dirname | sort -u)
if [ ${#packages[@]} = 0 ]; then
	echo "There are no benchmarks."
	exit
fi
go test -run '^$' -bench . -benchmem "${packages[@]}"
