#!/bin/bash
# Writes all generated files. Each part has a line of its own; `make gen` runs this,
# and a run on a clean checkout changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

tool() { go tool -modfile=hack/tools/go.mod "$@"; }

# API types: deepcopy functions and CRDs.
tool controller-gen object paths=./api/... crd output:crd:dir=config/crd

# REST client: types of each data parser version, from Slurm's own OpenAPI document.
go generate ./slurm/rest/...

# RBAC of the bridge's programs, from the markers beside their main functions.
for program in bridge bridge-scheduler bridge-admission; do
    component=${program#bridge-}
    component=${component/#bridge/controllers}
    tool controller-gen rbac:roleName="slurm-bridge-$component" paths="./cmd/$program/..." output:rbac:dir="config/rbac/$program"
    cp "config/rbac/$program/role.yaml" "charts/slurm-bridge/files/$component-role.yaml"
done

# RBAC of the web page in a pod, from the markers beside the command's main function.
tool controller-gen rbac:roleName=slurm-bridge-web paths=./cmd/slinky output:rbac:dir=config/rbac/web
cp config/rbac/web/role.yaml charts/slurm-bridge/files/web-role.yaml

# RBAC of the CPU driver, from the markers beside its main function.
tool controller-gen rbac:roleName=dra-driver-cpu paths=./cmd/dra-cpu/... output:rbac:dir=config/rbac/dra-cpu

# RBAC of the exporter's external metrics API, from the markers beside it.
tool controller-gen rbac:roleName=slurm-exporter paths=./cmd/exporter/... output:rbac:dir=config/rbac/exporter

# RBAC of the webhook: what it may do in the cluster, and in its own namespace.
tool controller-gen rbac:roleName=slurm-operator-webhook paths=./cmd/operator-webhook/... output:rbac:dir=config/rbac/operator-webhook

# RBAC of the operator, from the markers in its packages.
tool controller-gen rbac:roleName=slurm-operator paths=./internal/operator/... paths=./cmd/operator/... output:rbac:dir=config/rbac/operator

# The API reference, from the CRDs.
go run ./hack/apidocs config/crd docs/api.md

# Charts: the same custom resources, which stay when the chart goes, and the same roles.
for crd in config/crd/*.yaml; do
    sed 's|^  annotations:$|&\n    {{- if .Values.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}|' "$crd" \
        >"charts/slurm-operator-crds/templates/${crd#config/crd/slinky.slurm.net_}"
done
cp config/rbac/operator/role.yaml charts/slurm-operator/files/operator-role.yaml
cp config/rbac/operator-webhook/role.yaml charts/slurm-operator/files/webhook-role.yaml
cp config/rbac/dra-cpu/role.yaml charts/dra-driver-cpu/files/role.yaml
cp config/rbac/exporter/role.yaml charts/slurm-exporter/files/role.yaml
go run ./hack/dashboards charts/slurm-exporter/files/dashboards
go run ./hack/chart-readme charts/slurm-operator-crds charts/slurm-operator charts/slurm charts/slurm-bridge charts/dra-driver-cpu charts/slurm-exporter
