{{- define "dracpu.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the driver's objects: the release's, if it says the chart's name already. */}}
{{- define "dracpu.fullname" -}}
{{- $name := include "dracpu.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 55 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 55 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Never changes, as a DaemonSet's selector can't. */}}
{{- define "dracpu.selector" -}}
app.kubernetes.io/name: {{ include "dracpu.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dracpu.labels" -}}
{{ include "dracpu.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The configuration file: driverConfig, and what the deprecated values overrule of it. */}}
{{- define "dracpu.config" -}}
{{- $config := deepCopy (.Values.driverConfig | default dict) -}}
{{- range $key := list "cpuDeviceMode" "groupBy" "reservedCPUs" "hostnameOverride" -}}
{{- with get $.Values.args $key -}}
{{- $_ := set $config $key . -}}
{{- end -}}
{{- end -}}
{{- if $config -}}
{{- toYaml $config -}}
{{- end -}}
{{- end -}}

{{- define "dracpu.root" -}}
{{- .Values.kubeletRootDir | trimSuffix "/" -}}
{{- end -}}
