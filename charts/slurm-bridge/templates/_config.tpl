{{/* The bridge's configuration file: the published keys always, ours where they are set. */}}
{{- define "bridge.config" -}}
{{- $s := .Values.sharedConfig -}}
{{- $out := dict
      "schedulerName" (include "bridge.schedulerName" .)
      "slurmRestApi" ($s.slurmRestApi | default "http://slurm-restapi.slurm:6820")
      "partition" (.Values.schedulerConfig.partition | default "")
      "mcsLabel" (.Values.schedulerConfig.mcsLabel | default "")
      "managedNamespaces" (.Values.admission.managedNamespaces | default list) -}}
{{- with .Values.admission.managedNamespaceSelector -}}
{{- $_ := set $out "managedNamespaceSelector" . -}}
{{- end -}}
{{- range $key := list "managedNodeTaint" "managedSlurmdNodes" "environment" -}}
{{- with get $.Values.schedulerConfig $key -}}
{{- $_ := set $out $key . -}}
{{- end -}}
{{- end -}}
{{- with .Values.policy.mode -}}
{{- $_ := set $out "policy" . -}}
{{- end -}}
{{- if or .Values.policy.configMap .Values.policy.rules -}}
{{- $_ := set $out "policyConfigMap" (include "bridge.policyName" .) -}}
{{- end -}}
{{- with $s.slurmRestApiFallbacks -}}
{{- $_ := set $out "slurmRestApiFallbacks" . -}}
{{- end -}}
{{- with $s.ownerKinds -}}
{{- $_ := set $out "ownerKinds" . -}}
{{- end -}}
{{- $tls := dict -}}
{{- if or $s.slurmTLS.caConfigMap $s.slurmTLS.caSecret -}}
{{- $_ := set $tls "caFile" (printf "/etc/slurm-tls/ca/%s" ($s.slurmTLS.caKey | default "ca.crt")) -}}
{{- end -}}
{{- if $s.slurmTLS.clientSecret -}}
{{- $_ := set $tls "certFile" "/etc/slurm-tls/client/tls.crt" -}}
{{- $_ := set $tls "keyFile" "/etc/slurm-tls/client/tls.key" -}}
{{- end -}}
{{- with $tls -}}
{{- $_ := set $out "slurmTLS" . -}}
{{- end -}}
{{- toYaml (merge $out ($s.extraConfig | default dict)) -}}
{{- end -}}

{{/*
kube-scheduler's configuration: Slurm chooses the node, Kubernetes' own filters
guard it, and nothing is scored or preempted here.
*/}}
{{- define "bridge.schedulerConfig" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: 1000
  burst: 2000
leaderElection:
  leaderElect: {{ include "bridge.elects" .Values.scheduler }}
  resourceName: {{ include "bridge.schedulerName" . }}
  resourceNamespace: {{ include "bridge.namespace" . }}
profiles:
  - schedulerName: {{ include "bridge.schedulerName" . }}
    plugins:
      multiPoint:
        enabled:
          - name: SlurmBridge
        disabled:
          - name: DefaultPreemption
          # Slurm chooses devices too: the plugin writes their claims.
          - name: DynamicResources
      preScore:
        disabled:
          - name: "*"
      score:
        disabled:
          - name: "*"
{{- end -}}

{{- define "bridge.policyName" -}}
{{- .Values.policy.configMap | default "slurm-bridge-policy" -}}
{{- end -}}
