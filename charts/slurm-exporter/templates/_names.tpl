{{- define "exporter.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the objects: the release's, if it says the chart's name already. */}}
{{- define "exporter.fullname" -}}
{{- $name := include "exporter.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Never changes, as a Deployment's selector can't. */}}
{{- define "exporter.selector" -}}
app.kubernetes.io/name: {{ include "exporter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "exporter.labels" -}}
{{ include "exporter.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "exporter.metadata" -}}
name: {{ include "exporter.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "exporter.labels" . | nindent 2 }}
{{- end -}}

{{/* The Secret with the token, given or made. */}}
{{- define "exporter.tokenSecret" -}}
{{- .Values.exporter.secretName | default (printf "%s-token" (include "exporter.fullname" .)) -}}
{{- end -}}

{{/* Values that somebody set to null are gone; sections that templates look into come back, empty. */}}
{{- define "exporter.prepare" -}}
{{- range $path := list "exporter" "exporter.image" "exporter.token" "exporter.jwtKeySecret" "exporter.externalMetrics" "exporter.serviceMonitor" "prometheusRule" "grafana" -}}
{{- $at := $.Values -}}
{{- range splitList "." $path -}}
{{- if kindIs "invalid" (index $at .) -}}
{{- $_ := set $at . dict -}}
{{- end -}}
{{- $at = get $at . -}}
{{- end -}}
{{- end -}}
{{- $e := .Values.exporter -}}
{{- if $e.enabled -}}
{{- if $e.token.create -}}
{{- if not $e.jwtKeySecret.name -}}
{{- fail "exporter.token.create needs exporter.jwtKeySecret.name, the Secret with the JWT key that the token is signed with" -}}
{{- end -}}
{{- else if and $e.secretName $e.jwtKeySecret.name -}}
{{- fail "exporter.secretName and exporter.jwtKeySecret are both set: leave one of them empty" -}}
{{- else if not (or $e.secretName $e.jwtKeySecret.name) -}}
{{- fail "exporter.jwtKeySecret.name must name the Secret with the Slurm cluster's JWT key, or exporter.secretName that with a token" -}}
{{- end -}}
{{- end -}}
{{- end -}}
