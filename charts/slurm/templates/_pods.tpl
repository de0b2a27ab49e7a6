{{/*
slurm.image (dict "root" $ "image" value "name" component): an image as one text.
Empty parts are the published ones.
*/}}
{{- define "slurm.image" -}}
{{- $image := .image -}}
{{- $sidecar := has .name (list "logfile" "initconf") -}}
{{- $repository := ternary "docker.io/library/alpine" (printf "ghcr.io/slinkyproject/%s" .name) $sidecar -}}
{{- $reference := "" -}}
{{- if and (kindIs "string" $image) $image -}}
{{- $reference = $image -}}
{{- else -}}
{{- $parts := dict -}}
{{- if kindIs "map" $image -}}{{- $parts = $image -}}{{- end -}}
{{- $tag := ternary "latest" (printf "%s-ubuntu26.04" .root.Chart.AppVersion) $sidecar -}}
{{- $repository = $parts.repository | default $repository -}}
{{- if $parts.digest -}}
{{- $reference = printf "%s@%s" $repository $parts.digest -}}
{{- else -}}
{{- $reference = printf "%s:%s" $repository (toString ($parts.tag | default $tag)) -}}
{{- end -}}
{{- end -}}
{{- include "slurm.mirrored" (dict "registry" .root.Values.imageRegistry "reference" $reference) -}}
{{- end -}}

{{/* The first part of a name is a registry if it could be a host: Docker's rule. */}}
{{- define "slurm.mirrored" -}}
{{- if .registry -}}
{{- $parts := splitList "/" .reference -}}
{{- $first := first $parts -}}
{{- if and (gt (len $parts) 1) (or (contains "." $first) (contains ":" $first) (eq $first "localhost")) -}}
{{- $parts = rest $parts -}}
{{- end -}}
{{- printf "%s/%s" (trimSuffix "/" .registry) (join "/" $parts) -}}
{{- else -}}
{{- .reference -}}
{{- end -}}
{{- end -}}

{{/* slurm.container (dict "root" $ "container" map "name" component): the fields of a container that were given. */}}
{{- define "slurm.container" -}}
{{- $out := include "slurm.compact" (omit (.container | default dict) "image") | fromYaml -}}
{{- $_ := set $out "image" (include "slurm.image" (dict "root" .root "image" (get (.container | default dict) "image") "name" .name)) -}}
{{- if not $out.imagePullPolicy -}}
{{- with .root.Values.imagePullPolicy -}}
{{- $_ := set $out "imagePullPolicy" . -}}
{{- end -}}
{{- end -}}
{{- toYaml $out -}}
{{- end -}}

{{/* slurm.template (dict "root" $ "metadata" map "podSpec" map): metadata and spec of pods. */}}
{{- define "slurm.template" -}}
{{- $values := .root.Values -}}
{{- $spec := include "slurm.compact" (.podSpec | default dict) | fromYaml -}}
{{- with $values.imagePullSecrets -}}
{{- $_ := set $spec "imagePullSecrets" (concat ($spec.imagePullSecrets | default list) .) -}}
{{- end -}}
{{- if and $values.priorityClass.enabled (not $spec.priorityClassName) -}}
{{- $_ := set $spec "priorityClassName" (include "slurm.priorityClassName" .root) -}}
{{- end -}}
{{- $out := dict "spec" $spec -}}
{{- with include "slurm.compact" (.metadata | default dict) | fromYaml -}}
{{- $_ := set $out "metadata" . -}}
{{- end -}}
{{- toYaml $out -}}
{{- end -}}

{{- define "slurm.priorityClassName" -}}
{{- .Values.priorityClass.name | default "slurm-system-critical" -}}
{{- end -}}

{{/* slurm.service: what was given of a Service, "{}" if nothing was. */}}
{{- define "slurm.service" -}}
{{- $given := . | default dict -}}
{{- $out := include "slurm.compact" $given | fromYaml -}}
{{- range $part := list "metadata" "spec" -}}
{{- with get $out $part -}}
{{- $kept := include "slurm.compact" . | fromYaml -}}
{{- if $kept -}}{{- $_ := set $out $part $kept -}}{{- else -}}{{- $_ := unset $out $part -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $out -}}
{{- end -}}

{{/*
slurm.resource (dict "root" $ "kind" kind "name" name "user" metadata "spec" map "extra" map): a custom resource.
*/}}
{{- define "slurm.resource" -}}
{{- $spec := .spec -}}
{{- include "slurm.merge" (dict "base" $spec "over" (.extra | default dict)) -}}
apiVersion: slinky.slurm.net/v1beta1
kind: {{ .kind }}
metadata:
  {{- include "slurm.metadata" (dict "root" .root "name" .name "user" .user) | nindent 2 }}
spec:
  {{- toYaml $spec | nindent 2 }}
{{- end -}}
