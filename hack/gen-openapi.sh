#!/bin/bash
# Brings the Slurm client up to the Slurm that its tests start: the OpenAPI documents from a
# real slurmrestd, the types generated from them, and the recorded answers. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
export SLINKY_TEST_SLURM=1
go test ./slurm/rest -count 1 -run '^TestDocuments$' -update
go generate ./slurm/rest/...
go test ./slurm/rest -count 1 -run '^TestRecord$' -record
git --no-pager diff --stat -- slurm/rest
