{{/* Values that somebody set to null are gone; sections that templates look into come back, empty. */}}
{{- define "bridge.prepare" -}}
{{- range $path := list "schedulerConfig" "policy" "networkPolicy" "metrics" "metrics.serviceMonitor" "admission.certManager"
      "sharedConfig" "sharedConfig.slurmJwtKeySecret" "sharedConfig.slurmTLS"
      "scheduler.image" "scheduler.pdb" "scheduler.serviceAccount" "controllers.image" "controllers.pdb" "controllers.serviceAccount"
      "admission.image" "admission.pdb" "admission.serviceAccount"
      "web" "web.image" "web.pdb" "web.serviceAccount" "web.service" -}}
{{- $at := $.Values -}}
{{- range splitList "." $path -}}
{{- if kindIs "invalid" (index $at .) -}}
{{- $_ := set $at . dict -}}
{{- end -}}
{{- $at = get $at . -}}
{{- end -}}
{{- end -}}
{{- include "bridge.checkReplicas" (dict "component" "scheduler" "key" "replicaCount" "values" .Values.scheduler) -}}
{{- include "bridge.checkReplicas" (dict "component" "controllers" "key" "replicas" "values" .Values.controllers) -}}
{{- $s := .Values.sharedConfig -}}
{{- if not (or $s.slurmJwtSecret $s.slurmJwtKeySecret.name) -}}
{{- fail "sharedConfig.slurmJwtSecret must name the Secret with Slurm's token, or sharedConfig.slurmJwtKeySecret.name that with its JWT key" -}}
{{- end -}}
{{- if and $s.slurmTLS.caConfigMap $s.slurmTLS.caSecret -}}
{{- fail "sharedConfig.slurmTLS has both caConfigMap and caSecret: leave one of them empty" -}}
{{- end -}}
{{- $secure := false -}}
{{- range append ($s.slurmRestApiFallbacks | default list) ($s.slurmRestApi | default "") -}}
{{- $secure = or $secure (hasPrefix "https:" .) -}}
{{- end -}}
{{- if and (or $s.slurmTLS.caConfigMap $s.slurmTLS.caSecret $s.slurmTLS.clientSecret) (not $secure) -}}
{{- fail "sharedConfig.slurmTLS is set, but sharedConfig.slurmRestApi begins with http: and no fallback with https:" -}}
{{- end -}}
{{- if and .Values.policy.rules .Values.policy.configMap -}}
{{- fail "policy has both rules and configMap: leave one of them empty" -}}
{{- end -}}
{{- range $key, $_ := $s.extraConfig -}}
{{- if has (lower $key) (list "schedulername" "slurmrestapi" "slurmrestapifallbacks" "slurmtls" "partition" "mcslabel" "managednamespaces" "managednamespaceselector" "managednodetaint" "managedslurmdnodes" "environment" "policy" "policyconfigmap" "ownerkinds") -}}
{{- fail (printf "sharedConfig.extraConfig has %s, which has a value of its own in this chart" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "bridge.checkReplicas" -}}
{{- if and (eq (toString .values.leaderElect) "false") (gt (int (get .values .key)) 1) -}}
{{- fail (printf "%[1]s.%[2]s is %[3]v, but %[1]s.leaderElect is false: several would act at once. Leave leaderElect out, or set %[2]s to 1" .component .key (get .values .key)) -}}
{{- end -}}
{{- end -}}

{{/* bridge.elects: whether there is an election; there is one unless it is switched off. */}}
{{- define "bridge.elects" -}}
{{- ne (toString .leaderElect) "false" -}}
{{- end -}}

{{/* bridge.replicas (dict "root" $ "component" "scheduler") */}}
{{- define "bridge.replicas" -}}
{{- $c := get .root.Values .component -}}
{{- $n := get $c (ternary "replicaCount" "replicas" (eq .component "scheduler")) -}}
{{- /* Logins are in the memory of the page's one pod. */ -}}
{{- or (kindIs "invalid" $n) (eq .component "web") | ternary 1 $n -}}
{{- end -}}
