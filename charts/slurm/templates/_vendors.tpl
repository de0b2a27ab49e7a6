{{/* slurm.vendors (dict "root" $ "key" key "set" map) changes a node set as the vendors' parts of the values ask. */}}
{{- define "slurm.vendors" -}}
{{- $values := .root.Values -}}
{{- $key := .key -}}
{{- $set := .set -}}
{{- $dcgm := $values.vendor.nvidia.dcgm -}}
{{- $resources := dig "resources" dict ($set.slurmd | default dict) | default dict -}}
{{- $gpu := or (hasKey ($resources.limits | default dict) "nvidia.com/gpu") (hasKey ($resources.requests | default dict) "nvidia.com/gpu") -}}
{{- if and $dcgm.enabled $gpu -}}
{{- include "slurm.addVolume" (dict "set" $set "name" "dcgm-job-mapping" "path" (include "slurm.dcgmDir" .root) "mountPath" (include "slurm.dcgmDir" .root) "type" "DirectoryOrCreate") -}}
{{- end -}}
{{- range $machine := list "a3mega" "a3ultra" -}}
{{- range get $values.vendor.google $machine | default list -}}
{{- if eq (toString .targetNodeSet) $key -}}
{{- include "slurm.google" (dict "machine" $machine "entry" . "set" $set) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "slurm.dcgmDir" -}}
{{- .Values.vendor.nvidia.dcgm.jobMappingDir | default "/var/lib/dcgm-exporter/job-mapping" -}}
{{- end -}}

{{/* slurm.addVolume (dict "set" set "name" name "path" host path "mountPath" path "type" type "readOnly" bool): a folder of the node. */}}
{{- define "slurm.addVolume" -}}
{{- $pod := .set.podSpec | default dict -}}
{{- $volume := dict "name" .name "hostPath" (dict "path" .path "type" .type) -}}
{{- $_ := set $pod "volumes" (append ($pod.volumes | default list) $volume) -}}
{{- $_ := set .set "podSpec" $pod -}}
{{- $slurmd := .set.slurmd | default dict -}}
{{- $mount := dict "name" .name "mountPath" .mountPath -}}
{{- if .readOnly -}}{{- $_ := set $mount "readOnly" true -}}{{- end -}}
{{- $_ := set $slurmd "volumeMounts" (append ($slurmd.volumeMounts | default list) $mount) -}}
{{- $_ := set .set "slurmd" $slurmd -}}
{{- end -}}

{{/*
A3 machines of GKE: eight GPUs and, for each, a network of its own beside the
first one. What the user says about the same thing stays.
*/}}
{{- define "slurm.google" -}}
{{- $set := .set -}}
{{- $ultra := eq .machine "a3ultra" -}}
{{- $interfaces := list -}}
{{- range $i, $network := .entry.networks -}}
{{- $interfaces = append $interfaces (dict "interfaceName" (printf "eth%d" $i) "network" $network) -}}
{{- end -}}
{{- $annotations := dict
      "networking.gke.io/default-interface" "eth0"
      "networking.gke.io/interfaces" (toJson $interfaces) -}}
{{- if not $ultra -}}
{{- $_ := set $annotations "devices.gke.io/container.tcpxo-daemon" "- path: /dev/nvidia0\n- path: /dev/nvidia1\n- path: /dev/nvidia2\n- path: /dev/nvidia3\n- path: /dev/nvidia4\n- path: /dev/nvidia5\n- path: /dev/nvidia6\n- path: /dev/nvidia7\n- path: /dev/nvidiactl\n- path: /dev/nvidia-uvm\n- path: /dev/dmabuf_import_helper\n" -}}
{{- end -}}
{{- $defaults := dict
      "metadata" (dict "annotations" $annotations)
      "podSpec" (dict
        "nodeSelector" (dict "cloud.google.com/gke-nodepool" .entry.nodePool))
      "slurmd" (dict "resources" (dict "limits" (dict "nvidia.com/gpu" 8))) -}}
{{- include "slurm.merge" (dict "base" $defaults "over" (deepCopy $set)) -}}
{{- range $part, $value := $defaults -}}
{{- $_ := set $set $part $value -}}
{{- end -}}
{{- $toleration := dict "key" "nvidia.com/gpu" "operator" "Exists" "effect" "NoSchedule" -}}
{{- if not (has $toleration ($set.podSpec.tolerations | default list)) -}}
{{- $_ := set $set.podSpec "tolerations" (append ($set.podSpec.tolerations | default list) $toleration) -}}
{{- end -}}
{{- include "slurm.addVolume" (dict "set" $set "name" "gke-nvidia" "path" "/home/kubernetes/bin/nvidia" "mountPath" "/usr/local/nvidia" "type" "Directory" "readOnly" true) -}}
{{- if $ultra -}}
{{- include "slurm.addVolume" (dict "set" $set "name" "gke-gib" "path" "/home/kubernetes/bin/gib" "mountPath" "/usr/local/gib" "type" "Directory" "readOnly" true) -}}
{{- else -}}
{{- include "slurm.addVolume" (dict "set" $set "name" "gke-aperture" "path" "/dev/aperture_devices" "mountPath" "/dev/aperture_devices" "type" "Directory") -}}
{{- end -}}
{{- if and (not $set.extraConf) (not (get ($set.extraConfMap | default dict) "Gres")) -}}
{{- $_ := set $set "extraConfMap" (mergeOverwrite (dict "Gres" (printf "gpu:%s:8" (ternary "h200" "h100" $ultra))) ($set.extraConfMap | default dict)) -}}
{{- end -}}
{{- end -}}

{{/* Which of the two brings gres.conf: none where the user has one, and not both. */}}
{{- define "slurm.googleGres" -}}
{{- if not (hasKey .Values.configFiles "gres.conf") -}}
{{- if .Values.vendor.google.a3mega -}}a3mega
{{- else if .Values.vendor.google.a3ultra -}}a3ultra
{{- end -}}
{{- end -}}
{{- end -}}
