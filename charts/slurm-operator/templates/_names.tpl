{{/* The name of the operator's objects: the release's, if it says the chart's name already. */}}
{{- define "operator.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 55 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 55 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "operator.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/* operator.selector (dict "root" $ "component" "operator"): never changes, as a Deployment's selector can't. */}}
{{- define "operator.selector" -}}
app.kubernetes.io/name: {{ include "operator.component" . }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "operator.component" -}}
{{- $name := .root.Values.nameOverride | default .root.Chart.Name -}}
{{- ternary $name (printf "%s-%s" $name .component) (eq .component "operator") -}}
{{- end -}}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: slurm-operator
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The operator's objects have the full name, the webhook's add to it. */}}
{{- define "operator.objectName" -}}
{{- $name := include "operator.fullname" .root -}}
{{- ternary $name (printf "%s-%s" $name .component) (eq .component "operator") -}}
{{- end -}}

{{- define "operator.metadata" -}}
name: {{ include "operator.objectName" . }}
namespace: {{ include "operator.namespace" .root }}
labels:
  {{- include "operator.labels" . | nindent 2 }}
{{- end -}}

{{- define "operator.serviceAccountName" -}}
{{- (get .root.Values .component).serviceAccount.name | default (include "operator.objectName" .) -}}
{{- end -}}

{{/* The namespaces that were asked for, as a list. */}}
{{- define "operator.namespaces" -}}
{{- $out := list -}}
{{- range splitList "," (. | default "" | toString) -}}
{{- with trim . -}}{{- $out = append $out . -}}{{- end -}}
{{- end -}}
{{- toYaml ($out | uniq) -}}
{{- end -}}

{{/* operator.image (dict "root" $ "image" value "repository" default) */}}
{{- define "operator.image" -}}
{{- $image := .image -}}
{{- $reference := "" -}}
{{- if and (kindIs "string" $image) $image -}}
{{- $reference = $image -}}
{{- else -}}
{{- $parts := dict -}}
{{- if kindIs "map" $image -}}{{- $parts = $image -}}{{- end -}}
{{- $repository := $parts.repository | default .repository -}}
{{- if $parts.digest -}}
{{- $reference = printf "%s@%s" $repository $parts.digest -}}
{{- else -}}
{{- $reference = printf "%s:%s" $repository (toString ($parts.tag | default .root.Chart.AppVersion)) -}}
{{- end -}}
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

{{/* Values that somebody set to null are gone; sections that templates look into come back, empty. */}}
{{- define "operator.prepare" -}}
{{- range $path := list "crds" "operator" "operator.serviceAccount" "operator.pdb" "rbac"
      "webhook" "webhook.serviceAccount" "webhook.pdb" "webhook.validating" "webhook.mutating"
      "certManager" "networkPolicy" "tests" -}}
{{- $at := $.Values -}}
{{- range splitList "." $path -}}
{{- if kindIs "invalid" (index $at .) -}}
{{- $_ := set $at . dict -}}
{{- end -}}
{{- $at = get $at . -}}
{{- if not (kindIs "map" $at) -}}
{{- fail (printf "%s must be a map" $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.rbac.namespaced (not (include "operator.namespaces" .Values.operator.namespaces | fromYamlArray)) -}}
{{- fail "rbac.namespaced needs operator.namespaces, a comma list of the namespaces in which the operator may act" -}}
{{- end -}}
{{- if and .Values.rbac.namespaced .Values.webhook.enabled (not (include "operator.namespaces" .Values.webhook.namespaces | fromYamlArray)) -}}
{{- fail "rbac.namespaced needs webhook.namespaces, too, or webhook.enabled: false" -}}
{{- end -}}
{{- if and .Values.operator.metricsSecure (eq (toString .Values.operator.metricsPort) "0") -}}
{{- fail "operator.metricsSecure needs an operator.metricsPort other than 0" -}}
{{- end -}}
{{- if and .Values.webhook.metricsSecure (eq (toString .Values.webhook.metricsPort) "0") -}}
{{- fail "webhook.metricsSecure needs a webhook.metricsPort other than 0" -}}
{{- end -}}
{{- end -}}
