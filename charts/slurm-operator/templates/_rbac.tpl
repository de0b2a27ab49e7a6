{{/*
operator.rbac (dict "root" $ "component" "operator" "scope" list of namespaces): the
service account with the rights in files/<component>-role.yaml, which are
generated from the programs. Without namespaces the rights hold everywhere. With
namespaces they hold there, but for those on objects that have no namespace, and
the lease is kept beside the program.
*/}}
{{- define "operator.rbac" -}}
{{- $args := . -}}
{{- $root := .root -}}
{{- $name := include "operator.objectName" . -}}
{{- $namespace := include "operator.namespace" .root -}}
{{- $rules := list -}}
{{- $everywhere := list -}}
{{- $within := list -}}
{{- $beside := list -}}
{{- range splitList "\n---\n" (.root.Files.Get (printf "files/%s-role.yaml" .component)) -}}
{{- $role := fromYaml . -}}
{{- if eq $role.kind "Role" -}}
{{- $beside = concat $beside (include "operator.renamed" (dict "root" $root "rules" $role.rules) | fromYamlArray) -}}
{{- else -}}
{{- $rules = concat $rules (include "operator.renamed" (dict "root" $root "rules" $role.rules) | fromYamlArray) -}}
{{- end -}}
{{- end -}}
{{- if .scope -}}
{{- $cluster := list "nodes" "tokenreviews" "subjectaccessreviews" "validatingwebhookconfigurations" "mutatingwebhookconfigurations" "namespaces" -}}
{{- range $rules -}}
{{- $global := list -}}
{{- $local := list -}}
{{- $lease := list -}}
{{- range .resources -}}
{{- if has . $cluster -}}{{- $global = append $global . -}}
{{- else if eq . "leases" -}}{{- $lease = append $lease . -}}
{{- else -}}{{- $local = append $local . -}}{{- end -}}
{{- end -}}
{{- if $global -}}{{- $everywhere = append $everywhere (mergeOverwrite (deepCopy .) (dict "resources" $global)) -}}{{- end -}}
{{- if $local -}}{{- $within = append $within (mergeOverwrite (deepCopy .) (dict "resources" $local)) -}}{{- end -}}
{{- if $lease -}}{{- $beside = append $beside (mergeOverwrite (deepCopy .) (dict "resources" $lease)) -}}{{- end -}}
{{- if has "events" .resources -}}{{- $beside = append $beside (mergeOverwrite (deepCopy .) (dict "resources" (list "events"))) -}}{{- end -}}
{{- end -}}
{{- else -}}
{{- $everywhere = $rules -}}
{{- end }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "operator.serviceAccountName" . }}
  namespace: {{ $namespace }}
  labels:
    {{- include "operator.labels" . | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- include "operator.labels" . | nindent 4 }}
rules:
  {{- toYaml $everywhere | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "operator.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "operator.serviceAccountName" . }}
    namespace: {{ $namespace }}
{{- if .scope }}
{{- range .scope }}
{{- include "operator.role" (dict "args" $args "name" $name "namespace" . "rules" $within) }}
{{- end }}
{{- end }}
{{- if $beside }}
{{- include "operator.role" (dict "args" $args "name" (printf "%s-self" $name) "namespace" $namespace "rules" $beside) }}
{{- end }}
{{- end -}}

{{/* operator.renamed (dict "root" $ "rules" list): rights on one named object follow the names in the values. */}}
{{- define "operator.renamed" -}}
{{- $out := list -}}
{{- $root := .root -}}
{{- range .rules -}}
{{- $rule := deepCopy . -}}
{{- if $rule.resourceNames -}}
{{- if has "secrets" $rule.resources -}}
{{- $_ := set $rule "resourceNames" (list (include "operator.certificateName" $root)) -}}
{{- else if has "validatingwebhookconfigurations" $rule.resources -}}
{{- $_ := set $rule "resourceNames" (list (include "operator.objectName" (dict "root" $root "component" "webhook"))) -}}
{{- end -}}
{{- end -}}
{{- $out = append $out $rule -}}
{{- end -}}
{{- toYaml $out -}}
{{- end -}}

{{- define "operator.role" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "operator.labels" .args | nindent 4 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "operator.labels" .args | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "operator.serviceAccountName" .args }}
    namespace: {{ include "operator.namespace" .args.root }}
{{- end }}
