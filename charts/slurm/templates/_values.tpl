{{/*
Values that somebody set to null are gone. Give every section that templates
look into back, empty, so that the rest need not ask for each.
*/}}
{{- define "slurm.prepare" -}}
{{- range $kind := list "nodesets" "loginsets" -}}
{{- if kindIs "slice" (index $.Values $kind) -}}
{{- fail (printf "%s is a map from names to sets, no longer a list: write \"%s: {cpu: {...}}\" in place of \"%s: [{name: cpu, ...}]\"" $kind $kind $kind) -}}
{{- end -}}
{{- end -}}
{{- range $path := list "priorityClass" "slurmKey" "jwtKey" "jwksKeys" "configFiles"
      "prologScripts" "epilogScripts" "prologSlurmctldScripts" "epilogSlurmctldScripts"
      "controller" "controller.externalConfig" "controller.slurmctld" "controller.reconfigure" "controller.logfile"
      "controller.ha" "controller.persistence" "controller.metrics" "controller.metrics.serviceMonitor"
      "restapi" "restapi.pdb" "restapi.slurmrestd"
      "accounting" "accounting.externalConfig" "accounting.slurmdbd" "accounting.storageConfig"
      "sssd" "loginsetDefaults" "loginsets" "nodesetDefaults" "nodesets" "partitions" "tokens" "networkPolicy"
      "vendor" "vendor.nvidia" "vendor.nvidia.dcgm" "vendor.google" -}}
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
{{- end -}}

{{/* slurm.merge (dict "base" map "over" map) changes base: maps are joined, all else is replaced, null removes. */}}
{{- define "slurm.merge" -}}
{{- $base := .base -}}
{{- range $key, $value := .over -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $base $key)) -}}
{{- include "slurm.merge" (dict "base" (get $base $key) "over" $value) -}}
{{- else if kindIs "invalid" $value -}}
{{- $_ := unset $base $key -}}
{{- else -}}
{{- $_ := set $base $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* slurm.sets (dict "defaults" map "sets" map): the sets that are enabled, each over the defaults. */}}
{{- define "slurm.sets" -}}
{{- $out := dict -}}
{{- $defaults := .defaults -}}
{{- range $name, $set := .sets -}}
{{- $all := deepCopy $defaults -}}
{{- include "slurm.merge" (dict "base" $all "over" ($set | default dict)) -}}
{{- if ne (toString (get $all "enabled")) "false" -}}
{{- $_ := set $out $name $all -}}
{{- end -}}
{{- end -}}
{{- toYaml $out -}}
{{- end -}}

{{- define "slurm.nodesets" -}}
{{- include "slurm.sets" (dict "defaults" .Values.nodesetDefaults "sets" .Values.nodesets) -}}
{{- end -}}

{{- define "slurm.loginsets" -}}
{{- include "slurm.sets" (dict "defaults" .Values.loginsetDefaults "sets" .Values.loginsets) -}}
{{- end -}}

{{/* slurm.compact: a map without its empty entries. false and 0 aren't empty: somebody said so. */}}
{{- define "slurm.compact" -}}
{{- $out := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- if or (kindIs "bool" $value) (kindIs "float64" $value) (kindIs "int64" $value) (kindIs "int" $value) (not (empty $value)) -}}
{{- $_ := set $out $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $out -}}
{{- end -}}

{{/* slurm.value: a value as Slurm writes it. YAML reads an unquoted YES as true. */}}
{{- define "slurm.value" -}}
{{- if kindIs "slice" . -}}
{{- $words := list -}}
{{- range . -}}
{{- $words = append $words (include "slurm.value" .) -}}
{{- end -}}
{{- join "," $words -}}
{{- else if kindIs "bool" . -}}
{{- ternary "YES" "NO" . -}}
{{- else if kindIs "string" . -}}
{{- . -}}
{{- else if kindIs "map" . -}}
{{- fail (printf "a value of an extraConfMap or a configMap must be a text, a number, true, false or a list of those, not a map: %s" (toJson .)) -}}
{{- else if not (kindIs "invalid" .) -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* slurm.conf (dict "text" raw "map" map "join" separator): the raw text, or Key=value of the map. */}}
{{- define "slurm.conf" -}}
{{- if .text -}}
{{- .text -}}
{{- else -}}
{{- $items := list -}}
{{- range $key, $value := .map | default dict -}}
{{- $text := include "slurm.value" $value -}}
{{- if ne $text "" -}}
{{- $items = append $items (printf "%s=%s" $key $text) -}}
{{- end -}}
{{- end -}}
{{- join .join $items -}}
{{- end -}}
{{- end -}}
