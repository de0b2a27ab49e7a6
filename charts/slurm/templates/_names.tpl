{{/* The name of the cluster's objects: the release's, if it says "slurm" already. */}}
{{- define "slurm.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "slurm.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/* The custom resources pass their labels on to pods, so none of these changes with the version of the chart. */}}
{{- define "slurm.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: slurm
{{- end -}}

{{/* slurm.metadata (dict "root" $ "name" name "user" {labels, annotations}) */}}
{{- define "slurm.metadata" -}}
{{- $user := .user | default dict -}}
{{- $out := dict "name" .name "namespace" (include "slurm.namespace" .root) -}}
{{- $_ := set $out "labels" (mergeOverwrite (dict) ($user.labels | default dict) (include "slurm.labels" .root | fromYaml)) -}}
{{- with $user.annotations -}}
{{- $_ := set $out "annotations" . -}}
{{- end -}}
{{- toYaml $out -}}
{{- end -}}

{{/* slurm.ref (dict "ref" {name, key} "name" default "key" default) */}}
{{- define "slurm.ref" -}}
{{- $ref := .ref | default dict -}}
name: {{ $ref.name | default .name }}
key: {{ $ref.key | default .key }}
{{- end -}}

{{- define "slurm.slurmKeyRef" -}}
{{- include "slurm.ref" (dict "ref" .Values.slurmKey.secretRef "name" (printf "%s-auth-slurm" (include "slurm.fullname" .)) "key" "slurm.key") -}}
{{- end -}}

{{- define "slurm.jwtKeyRef" -}}
{{- include "slurm.ref" (dict "ref" .Values.jwtKey.secretRef "name" (printf "%s-auth-jwt" (include "slurm.fullname" .)) "key" "jwt.key") -}}
{{- end -}}

{{- define "slurm.jwksKeyRef" -}}
{{- include "slurm.ref" (dict "ref" .Values.jwksKeys.configMapRef "name" (printf "%s-auth-jwks" (include "slurm.fullname" .)) "key" "jwks.json") -}}
{{- end -}}

{{- define "slurm.sssdConfRef" -}}
{{- include "slurm.ref" (dict "ref" .Values.sssd.secretRef "name" (printf "%s-sssd-conf" (include "slurm.fullname" .)) "key" "sssd.conf") -}}
{{- end -}}
