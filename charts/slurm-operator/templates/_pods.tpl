{{/* operator.podFields (dict "root" $ "component" "operator"): what the pods of both Deployments have in common. */}}
{{- define "operator.podFields" -}}
{{- $values := .root.Values -}}
{{- $c := get $values .component -}}
serviceAccountName: {{ include "operator.serviceAccountName" . }}
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- $pod := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "seccompProfile" (dict "type" "RuntimeDefault") }}
  {{- toYaml (mergeOverwrite $pod ($c.podSecurityContext | default dict)) | nindent 2 }}
{{- range $field := list "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints" }}
{{- with get $c $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* operator.containerFields (dict "root" $ "component" "operator") */}}
{{- define "operator.containerFields" -}}
{{- $values := .root.Values -}}
{{- $c := get $values .component -}}
{{- $repository := ternary "ghcr.io/slinky-hpc/operator" "ghcr.io/slinky-hpc/operator-webhook" (eq .component "operator") -}}
image: {{ include "operator.image" (dict "root" .root "image" $c.image "repository" $repository) }}
imagePullPolicy: {{ $c.imagePullPolicy | default $values.imagePullPolicy | default "IfNotPresent" }}
livenessProbe:
  httpGet:
    path: /healthz
    port: health
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 2
{{- with $c.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- $own := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
  {{- toYaml (mergeOverwrite $own ($c.securityContext | default dict)) | nindent 2 }}
{{- end -}}

{{/* operator.commonArgs: flags that both programs have. */}}
{{- define "operator.commonArgs" -}}
{{- $c := get .root.Values .component -}}
{{- if $c.leaderElection }}
- --leader-elect
{{- end }}
- --health-addr=:{{ $c.healthPort | default 8081 }}
- --metrics-addr={{ if and $c.metricsPort (ne (toString $c.metricsPort) "0") }}:{{ $c.metricsPort }}{{ else }}0{{ end }}
{{- if $c.metricsSecure }}
- --metrics-secure
{{- end }}
{{- with include "operator.namespaces" $c.namespaces | fromYamlArray }}
- --namespaces={{ join "," . }}
{{- end }}
- --zap-log-level={{ $c.logLevel | default "info" }}
{{- end -}}

{{/* operator.budget (dict "root" $ "component" "operator") */}}
{{- define "operator.budget" -}}
{{- $pdb := (get .root.Values .component).pdb -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "operator.metadata" . | nindent 2 }}
spec:
  {{- if not (kindIs "invalid" $pdb.maxUnavailable) }}
  maxUnavailable: {{ $pdb.maxUnavailable }}
  {{- else if not (kindIs "invalid" $pdb.minAvailable) }}
  minAvailable: {{ $pdb.minAvailable }}
  {{- else }}
  {{- fail (printf "%[1]s.pdb.enabled needs %[1]s.pdb.minAvailable or %[1]s.pdb.maxUnavailable" .component) }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "operator.selector" . | nindent 6 }}
{{- end -}}

{{/* operator.networkPolicy (dict "root" $ "component" "operator" "ports" list) */}}
{{- define "operator.networkPolicy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "operator.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "operator.selector" . | nindent 6 }}
  policyTypes:
    - Ingress
  ingress:
    - ports:
        {{- range .ports }}
        - port: {{ . }}
        {{- end }}
{{- end -}}
