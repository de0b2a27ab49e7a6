{{/* bridge.deployment (dict "root" $ "component" "scheduler"): all of a Deployment but its container and volumes. */}}
{{- define "bridge.deployment" -}}
{{- $c := get .root.Values .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "bridge.metadata" . | nindent 2 }}
spec:
  replicas: {{ include "bridge.replicas" . }}
  revisionHistoryLimit: 0
  {{- if and (has .component (list "scheduler" "controllers")) (eq (include "bridge.elects" $c) "false") }}
  # Two at once would each act.
  strategy:
    type: Recreate
  {{- end }}
  selector:
    matchLabels:
      {{- include "bridge.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "bridge.labels" . | nindent 8 }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .component }}
        checksum/slurm-bridge-config: {{ include "bridge.config" .root | sha256sum }}
        {{- if eq .component "scheduler" }}
        checksum/scheduler-config: {{ include "bridge.schedulerConfig" .root | sha256sum }}
        {{- end }}
    spec:
      {{- include "bridge.podFields" . | nindent 6 }}
{{- end -}}

{{- define "bridge.podFields" -}}
{{- $c := get .root.Values .component -}}
serviceAccountName: {{ include "bridge.serviceAccountName" . }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $c.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- $pod := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532 "seccompProfile" (dict "type" "RuntimeDefault") }}
  {{- toYaml (mergeOverwrite $pod ($c.podSecurityContext | default dict)) | nindent 2 }}
{{- range $field := list "nodeSelector" "affinity" "tolerations" }}
{{- with get $c $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- if $c.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml $c.topologySpreadConstraints | nindent 2 }}
{{- else if gt (int (include "bridge.replicas" .)) 1 }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "bridge.selector" . | nindent 8 }}
{{- end }}
{{- end -}}

{{/* bridge.containerFields (dict "root" $ "component" "scheduler") */}}
{{- define "bridge.containerFields" -}}
{{- $c := get .root.Values .component -}}
image: {{ include "bridge.image" . }}
imagePullPolicy: {{ $c.image.pullPolicy | default "IfNotPresent" }}
{{- $scheme := ternary "HTTPS" "HTTP" (eq .component "scheduler") }}
{{- $web := eq .component "web" }}
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ ternary "page" "health" $web }}
    scheme: {{ $scheme }}
readinessProbe:
  httpGet:
    path: {{ ternary "/healthz" "/readyz" $web }}
    port: {{ ternary "page" "health" $web }}
    scheme: {{ $scheme }}
  periodSeconds: 2
{{- with $c.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- $own := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
  {{- toYaml (mergeOverwrite $own ($c.securityContext | default dict)) | nindent 2 }}
{{- end -}}

{{/* What a program needs that speaks to Slurm: arguments, environment, mounts and volumes. */}}
{{- define "bridge.slurmArgs" -}}
{{- if .Values.sharedConfig.slurmJwtKeySecret.name -}}
- --slurm-jwt-key-file=/etc/slurm-jwt/jwt.key
- --slurm-user={{ .Values.sharedConfig.slurmUser | default "slurm" }}
{{- end -}}
{{- end -}}

{{- define "bridge.slurmEnv" -}}
{{- if not .Values.sharedConfig.slurmJwtKeySecret.name -}}
env:
  - name: SLURM_JWT_FILE
    value: /var/run/secrets/slurm/auth-token
{{- end -}}
{{- end -}}

{{- define "bridge.slurmMounts" -}}
- name: slurm-bridge-config
  mountPath: /etc/slurm-bridge
  readOnly: true
{{- if .Values.sharedConfig.slurmJwtKeySecret.name }}
- name: slurm-jwt
  mountPath: /etc/slurm-jwt
  readOnly: true
{{- else }}
- name: slurm-token
  mountPath: /var/run/secrets/slurm
  readOnly: true
{{- end }}
{{- $tls := .Values.sharedConfig.slurmTLS }}
{{- if or $tls.caConfigMap $tls.caSecret }}
- name: slurm-ca
  mountPath: /etc/slurm-tls/ca
  readOnly: true
{{- end }}
{{- if $tls.clientSecret }}
- name: slurm-client-certificate
  mountPath: /etc/slurm-tls/client
  readOnly: true
{{- end }}
{{- end -}}

{{- define "bridge.slurmVolumes" -}}
- name: slurm-bridge-config
  configMap:
    name: slurm-bridge-config
{{- $s := .Values.sharedConfig }}
{{- if $s.slurmJwtKeySecret.name }}
- name: slurm-jwt
  secret:
    secretName: {{ $s.slurmJwtKeySecret.name }}
    defaultMode: 0440
    items:
      - key: {{ $s.slurmJwtKeySecret.key | default "jwt.key" }}
        path: jwt.key
{{- else }}
- name: slurm-token
  secret:
    secretName: {{ $s.slurmJwtSecret }}
    defaultMode: 0440
    items:
      - key: auth-token
        path: auth-token
{{- end }}
{{- if $s.slurmTLS.caConfigMap }}
- name: slurm-ca
  configMap:
    name: {{ $s.slurmTLS.caConfigMap }}
{{- else if $s.slurmTLS.caSecret }}
- name: slurm-ca
  secret:
    secretName: {{ $s.slurmTLS.caSecret }}
    items:
      - key: {{ $s.slurmTLS.caKey | default "ca.crt" }}
        path: {{ $s.slurmTLS.caKey | default "ca.crt" }}
{{- end }}
{{- if $s.slurmTLS.clientSecret }}
- name: slurm-client-certificate
  secret:
    secretName: {{ $s.slurmTLS.clientSecret }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{/* bridge.extras (dict "root" $ "component" "scheduler" "ports" list): budget and network policy. */}}
{{- define "bridge.extras" -}}
{{- $pdb := (get .root.Values .component).pdb -}}
{{- if $pdb.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "bridge.metadata" . | nindent 2 }}
spec:
  {{- if not (kindIs "invalid" $pdb.maxUnavailable) }}
  maxUnavailable: {{ $pdb.maxUnavailable }}
  {{- else if kindIs "invalid" $pdb.minAvailable }}
  {{- fail (printf "%[1]s.pdb.enabled needs %[1]s.pdb.minAvailable or %[1]s.pdb.maxUnavailable" .component) }}
  {{- else if and (not (kindIs "string" $pdb.minAvailable)) (ge (int $pdb.minAvailable) (int (include "bridge.replicas" .))) }}
  # With minAvailable no node could be drained.
  maxUnavailable: 1
  {{- else }}
  minAvailable: {{ $pdb.minAvailable }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "bridge.selector" . | nindent 6 }}
{{- end }}
{{- if .root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "bridge.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "bridge.selector" . | nindent 6 }}
  policyTypes:
    - Ingress
  ingress:
    - ports:
        {{- range .ports }}
        - port: {{ . }}
        {{- end }}
{{- end }}
{{- end -}}
