{{/*
bridge.rbac (dict "root" $ "component" "controllers"): the service account with the
rights in files/<component>-role.yaml, which are generated from the program. What
is a Role there holds in the bridge's own namespace only.
*/}}
{{- define "bridge.rbac" -}}
{{- $args := . -}}
{{- if (get .root.Values .component).serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "bridge.serviceAccountName" . }}
  namespace: {{ include "bridge.namespace" .root }}
  labels:
    {{- include "bridge.labels" . | nindent 4 }}
{{- range splitList "\n---\n" (.root.Files.Get (printf "files/%s-role.yaml" .component)) }}
{{- $role := fromYaml . }}
{{- $cluster := eq $role.kind "ClusterRole" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $role.kind }}
metadata:
  {{- include "bridge.roleMetadata" (dict "args" $args "cluster" $cluster) | nindent 2 }}
rules:
  {{- include "bridge.rules" (dict "args" $args "rules" $role.rules) | nindent 2 }}
  {{- if and $cluster (eq $args.component "scheduler") }}
  {{- range $args.root.Values.sharedConfig.ownerKinds }}
  - apiGroups:
      - {{ .group | default "" | quote }}
    resources:
      - {{ .resource }}
    verbs:
      - get
  {{- end }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $role.kind }}Binding
metadata:
  {{- include "bridge.roleMetadata" (dict "args" $args "cluster" $cluster) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $role.kind }}
  name: {{ include "bridge.objectName" $args }}
subjects:
  {{- include "bridge.subjects" $args | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "bridge.roleMetadata" -}}
name: {{ include "bridge.objectName" .args }}
{{- if not .cluster }}
namespace: {{ include "bridge.namespace" .args.root }}
{{- end }}
labels:
  {{- include "bridge.labels" .args | nindent 2 }}
{{- end -}}

{{- define "bridge.subjects" -}}
- kind: ServiceAccount
  name: {{ include "bridge.serviceAccountName" . }}
  namespace: {{ include "bridge.namespace" .root }}
{{- end -}}

{{/* Rights on one named object follow the names in the values. */}}
{{- define "bridge.rules" -}}
{{- $out := list -}}
{{- $args := .args -}}
{{- range .rules -}}
{{- $rule := deepCopy . -}}
{{- if $rule.resourceNames -}}
{{- if has "secrets" $rule.resources -}}
{{- $_ := set $rule "resourceNames" (list (include "bridge.certificateName" $args.root)) -}}
{{- else if has "validatingwebhookconfigurations" $rule.resources -}}
{{- $_ := set $rule "resourceNames" (list (include "bridge.objectName" $args)) -}}
{{- else if has "configmaps" $rule.resources -}}
{{- $_ := set $rule "resourceNames" (list (include "bridge.policyName" $args.root)) -}}
{{- else if and (has "leases" $rule.resources) (eq $args.component "scheduler") -}}
{{- $_ := set $rule "resourceNames" (list (include "bridge.objectName" $args)) -}}
{{- end -}}
{{- end -}}
{{- $out = append $out $rule -}}
{{- end -}}
{{- toYaml $out -}}
{{- end -}}
