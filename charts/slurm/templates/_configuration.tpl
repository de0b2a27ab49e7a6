{{/* Lines for slurm.conf: what the user wrote, then the partitions. */}}
{{- define "slurm.controllerConf" -}}
{{- $lines := list -}}
{{- with include "slurm.conf" (dict "text" .Values.controller.extraConf "map" .Values.controller.extraConfMap "join" "\n") -}}
{{- $lines = append $lines (trimSuffix "\n" .) -}}
{{- end -}}
{{- $nodesets := include "slurm.nodesets" . | fromYaml -}}
{{- range $name, $partition := .Values.partitions -}}
{{- if and $partition $partition.enabled -}}
{{- if not $partition.nodesets -}}
{{- fail (printf "partitions.%s.nodesets is empty: name at least one of nodesets, or ALL" $name) -}}
{{- end -}}
{{- range $partition.nodesets -}}
{{- if and (ne . "ALL") (not (hasKey $nodesets .)) -}}
{{- fail (printf "partitions.%s.nodesets names %q, which is not in nodesets or not enabled there; there are: %s" $name . (join ", " (concat (keys $nodesets | sortAlpha) (list "ALL")))) -}}
{{- end -}}
{{- end -}}
{{- $options := include "slurm.conf" (dict "text" $partition.config "map" $partition.configMap "join" " ") -}}
{{- $lines = append $lines (printf "PartitionName=%s Nodes=%s %s" $name (join "," $partition.nodesets) (trim $options) | trim) -}}
{{- end -}}
{{- end -}}
{{- with $lines -}}
{{- join "\n" . }}
{{ end -}}
{{- end -}}

{{- define "slurm.configFileRefs" -}}
{{- $name := include "slurm.fullname" . -}}
{{- $refs := list -}}
{{- if .Values.configFiles -}}
{{- $refs = append $refs (dict "name" (printf "%s-config-extra" $name)) -}}
{{- end -}}
{{- with include "slurm.googleGres" . -}}
{{- $refs = append $refs (dict "name" (printf "%s-config-%s" $name .)) -}}
{{- end -}}
{{- toYaml $refs -}}
{{- end -}}

{{/* slurm.scriptRefs (dict "root" $ "field" "prologScriptRefs"): the chart's own ConfigMaps, then the user's. */}}
{{- define "slurm.scriptRefs" -}}
{{- $name := include "slurm.fullname" .root -}}
{{- $kind := trimSuffix "ScriptRefs" .field | kebabcase -}}
{{- $refs := list -}}
{{- if get .root.Values (trimSuffix "Refs" .field | printf "%ss") -}}
{{- $refs = append $refs (dict "name" (printf "%s-%s-scripts" $name $kind)) -}}
{{- end -}}
{{- if and .root.Values.vendor.nvidia.dcgm.enabled (has $kind (list "prolog" "epilog")) -}}
{{- $refs = append $refs (dict "name" (printf "%s-%s-dcgm" $name $kind)) -}}
{{- end -}}
{{- range get .root.Values .field | default list -}}
{{- $refs = append $refs (ternary (dict "name" .) . (kindIs "string" .)) -}}
{{- end -}}
{{- toYaml $refs -}}
{{- end -}}
