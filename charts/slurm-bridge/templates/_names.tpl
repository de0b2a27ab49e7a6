{{/* The name of the bridge's objects: the release's, if it says the chart's name already. */}}
{{- define "bridge.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "bridge.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{- define "bridge.schedulerName" -}}
{{- .Values.schedulerConfig.schedulerName | default "slurm-bridge-scheduler" -}}
{{- end -}}

{{/* bridge.objectName (dict "root" $ "component" "controllers"): the scheduler's objects have its own name. */}}
{{- define "bridge.objectName" -}}
{{- if eq .component "scheduler" -}}
{{- include "bridge.schedulerName" .root -}}
{{- else -}}
{{- printf "%s-%s" (include "bridge.fullname" .root) .component -}}
{{- end -}}
{{- end -}}

{{/* Never changes, as a Deployment's selector can't. */}}
{{- define "bridge.selector" -}}
app.kubernetes.io/name: {{ printf "%s-%s" (.root.Values.nameOverride | default .root.Chart.Name) .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "bridge.labels" -}}
{{- if .component -}}
{{ include "bridge.selector" . }}
app.kubernetes.io/component: {{ .component }}
{{- else -}}
app.kubernetes.io/name: {{ .root.Values.nameOverride | default .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: slurm-bridge
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "bridge.metadata" -}}
name: {{ include "bridge.objectName" . }}
namespace: {{ include "bridge.namespace" .root }}
labels:
  {{- include "bridge.labels" . | nindent 2 }}
{{- end -}}

{{- define "bridge.serviceAccountName" -}}
{{- (get .root.Values .component).serviceAccount.name | default (include "bridge.objectName" .) -}}
{{- end -}}

{{/* The Secret of the webhooks' certificate. */}}
{{- define "bridge.certificateName" -}}
{{- include "bridge.objectName" (dict "root" . "component" "admission") -}}-tls
{{- end -}}

{{/* bridge.image (dict "root" $ "component" "scheduler") */}}
{{- define "bridge.image" -}}
{{- $image := (get .root.Values .component).image -}}
{{- $own := dict "scheduler" "bridge-scheduler" "controllers" "bridge" "admission" "bridge-admission" "web" "slinky" -}}
{{- $repository := $image.repository | default (printf "ghcr.io/slinky-hpc/%s" (get $own .component)) -}}
{{- $reference := printf "%s:%s" $repository (toString ($image.tag | default .root.Chart.AppVersion)) -}}
{{- if $image.digest -}}
{{- $reference = printf "%s@%s" $repository $image.digest -}}
{{- end -}}
{{- if .root.Values.imageRegistry -}}
{{- $parts := splitList "/" $reference -}}
{{- $first := first $parts -}}
{{- if and (gt (len $parts) 1) (or (contains "." $first) (contains ":" $first) (eq $first "localhost")) -}}
{{- $parts = rest $parts -}}
{{- end -}}
{{- $reference = printf "%s/%s" (trimSuffix "/" .root.Values.imageRegistry) (join "/" $parts) -}}
{{- end -}}
{{- $reference -}}
{{- end -}}
