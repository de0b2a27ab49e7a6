{{/* What can't work is refused with a sentence, before anything is installed. */}}
{{- define "slurm.check" -}}
{{- $v := .Values -}}
{{- include "slurm.oldKeys" . -}}
{{- if and $v.controller.ha.enabled (not $v.controller.external) -}}
{{- if not (and $v.controller.persistence.enabled $v.controller.persistence.existingClaim) -}}
{{- fail "controller.ha.enabled needs controller.persistence.existingClaim, a claim that several nodes can write (ReadWriteMany): all slurmctld share their state" -}}
{{- end -}}
{{- end -}}
{{- range $machine := list "a3mega" "a3ultra" -}}
{{- range $i, $entry := get $v.vendor.google $machine | default list -}}
{{- if not (hasKey (include "slurm.nodesets" $ | fromYaml) (toString $entry.targetNodeSet)) -}}
{{- fail (printf "vendor.google.%s[%d].targetNodeSet names %q, which is not in nodesets or not enabled there" $machine $i (toString $entry.targetNodeSet)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Keys of older charts: path, and what has come in their place. A * stands for any name. */}}
{{- define "slurm.oldKeysTable" -}}
authcred: "it is gone: sackd runs in the login pods"
cluster: "it is gone: the cluster's own values stand at the top"
compute: "use nodesets, a map from names to node sets, and partitions"
debug: "it is gone"
epilogSlurmctldScript: "use epilogSlurmctldScripts"
jwt: "use jwtKey"
jwtHs256KeyRef: "use jwtKey.secretRef, with jwtKey.create: false"
jwtKeyRef: "use jwtKey.secretRef, with jwtKey.create: false"
login: "use loginsets, a map from names to login sets, and loginsetDefaults"
mariadb: "it is gone: run a database of your own, and name it in accounting.storageConfig"
priorityClassName: "use priorityClass.enabled and priorityClass.name"
slurm: "use configFiles, prologScripts, epilogScripts, controller.extraConf, accounting.extraConf and slurmKey, all at the top"
slurmKeyRef: "use slurmKey.secretRef, with slurmKey.create: false"
slurm-exporter: "use controller.metrics"
controller.affinity: "use controller.podSpec.affinity"
controller.enabled: "there is always a controller; for one outside of Kubernetes use controller.external"
controller.extraVolumeMounts: "use controller.slurmctld.volumeMounts"
controller.extraVolumes: "use controller.podSpec.volumes"
controller.image: "use controller.slurmctld.image"
controller.initContainers: "use controller.podSpec.initContainers"
controller.nodeSelector: "use controller.podSpec.nodeSelector"
controller.resources: "use controller.slurmctld.resources"
controller.serviceNodePort: "use controller.service.nodePort"
controller.servicePort: "use controller.service.port"
controller.tolerations: "use controller.podSpec.tolerations"
restapi.affinity: "use restapi.podSpec.affinity"
restapi.enabled: "slurmrestd always runs; the operator works through it"
restapi.image: "use restapi.slurmrestd.image"
restapi.nodeSelector: "use restapi.podSpec.nodeSelector"
restapi.resources: "use restapi.slurmrestd.resources"
restapi.servicePort: "use restapi.service.port"
restapi.tolerations: "use restapi.podSpec.tolerations"
accounting.affinity: "use accounting.podSpec.affinity"
accounting.image: "use accounting.slurmdbd.image"
accounting.nodeSelector: "use accounting.podSpec.nodeSelector"
accounting.resources: "use accounting.slurmdbd.resources"
accounting.tolerations: "use accounting.podSpec.tolerations"
loginsetDefaults.image: "use loginsetDefaults.login.image"
loginsetDefaults.sssdConf: "use sssd.conf at the top"
loginsets.*.affinity: "use podSpec.affinity of the login set"
loginsets.*.env: "use login.env of the login set"
loginsets.*.extraVolumeMounts: "use login.volumeMounts of the login set"
loginsets.*.extraVolumes: "use podSpec.volumes of the login set"
loginsets.*.image: "use login.image of the login set"
loginsets.*.nodeSelector: "use podSpec.nodeSelector of the login set"
loginsets.*.resources: "use login.resources of the login set"
loginsets.*.securityContext: "use login.securityContext of the login set"
loginsets.*.sshdConfig: "use extraSshdConfig of the login set"
loginsets.*.sssdConf: "use sssd.conf at the top"
loginsets.*.tolerations: "use podSpec.tolerations of the login set"
loginsets.*.volumeMounts: "use login.volumeMounts of the login set"
loginsets.*.volumes: "use podSpec.volumes of the login set"
nodesetDefaults.image: "use nodesetDefaults.slurmd.image"
nodesets.*.affinity: "use podSpec.affinity of the node set"
nodesets.*.env: "use slurmd.env of the node set"
nodesets.*.extraVolumeMounts: "use slurmd.volumeMounts of the node set"
nodesets.*.extraVolumes: "use podSpec.volumes of the node set"
nodesets.*.image: "use slurmd.image of the node set"
nodesets.*.initContainers: "use podSpec.initContainers of the node set"
nodesets.*.name: "the name of a node set is its key in nodesets"
nodesets.*.nodeConfig: "use extraConf or extraConfMap of the node set"
nodesets.*.nodeSelector: "use podSpec.nodeSelector of the node set"
nodesets.*.resources: "use slurmd.resources of the node set"
nodesets.*.taintKubeNodes: "it is gone: taint the nodes yourself, and give all components tolerations"
nodesets.*.tolerations: "use podSpec.tolerations of the node set"
nodesets.*.useResourceLimits: "it is gone: Slurm is always told of slurmd.resources.limits"
nodesets.*.volumeMounts: "use slurmd.volumeMounts of the node set"
nodesets.*.volumes: "use podSpec.volumes of the node set"
{{- end -}}

{{- define "slurm.oldKeys" -}}
{{- $found := list -}}
{{- range $path, $advice := include "slurm.oldKeysTable" . | fromYaml -}}
{{- $parts := splitList "." $path -}}
{{- $owners := dict "" $.Values -}}
{{- if eq (len $parts) 2 -}}
{{- $owners = dict (printf "%s." (first $parts)) (get $.Values (first $parts)) -}}
{{- else if eq (len $parts) 3 -}}
{{- $owners = dict -}}
{{- range $name, $set := get $.Values (first $parts) -}}
{{- $_ := set $owners (printf "%s.%s." (first $parts) $name) $set -}}
{{- end -}}
{{- end -}}
{{- range $prefix, $owner := $owners -}}
{{- if and (kindIs "map" $owner) (hasKey $owner (last $parts)) -}}
{{- $found = append $found (printf "%s%s is not a value of this chart any more: %s" $prefix (last $parts) $advice) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $found -}}
{{- fail (printf "values of an older chart:\n  %s" (join "\n  " $found)) -}}
{{- end -}}
{{- end -}}
