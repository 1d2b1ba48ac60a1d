{{- define "coterie.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "coterie.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "coterie.labels" -}}
{{ include "coterie.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "coterie.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "coterie.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "coterie.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Rows of the fullest shard: slots are hashed, so a little over its share. */}}
{{- define "coterie.rowsPerShard" -}}
{{- div (mul .Values.estimate.vectors 11) (mul .Values.shards.count 10) | add 1 -}}
{{- end -}}

{{/* MiB: float32, codes and half codes are 6 bytes a component; a quarter more
     while segments are merged; caches, requests and the process itself. */}}
{{- define "coterie.shardMemoryMi" -}}
{{- $rows := include "coterie.rowsPerShard" . | int64 -}}
{{- $row := add (mul .Values.estimate.dimension 6) 64 .Values.estimate.attributeBytes -}}
{{- add (div (mul $rows $row 5) 4194304) 512 -}}
{{- end -}}

{{/* GiB: store and segment files repeat the vectors; twice that while the store
     compacts. */}}
{{- define "coterie.shardStorageGi" -}}
{{- $rows := include "coterie.rowsPerShard" . | int64 -}}
{{- $row := add (mul .Values.estimate.dimension 10) 64 (mul .Values.estimate.attributeBytes 2) -}}
{{- add (div (mul $rows $row 2) 1073741824) 2 -}}
{{- end -}}

{{- define "coterie.threads" -}}
{{- max 1 (ceil .Values.shards.cpu) -}}
{{- end -}}

{{- define "coterie.shardResources" -}}
{{- if .Values.shards.resources -}}
{{- toYaml .Values.shards.resources -}}
{{- else -}}
{{- $memory := printf "%sMi" (include "coterie.shardMemoryMi" .) -}}
requests:
  cpu: {{ .Values.shards.cpu | toString | quote }}
  memory: {{ $memory }}
limits:
  memory: {{ $memory }}
{{- end -}}
{{- end -}}

{{- define "coterie.terminationGrace" -}}
{{- add .Values.drain.coordinatorDelay .Values.drain.shardDelay .Values.drain.timeout 10 -}}
{{- end -}}

{{/* The same for both roles. */}}
{{- define "coterie.commonFlags" -}}
--listen=0.0.0.0:7600
--http=0.0.0.0:7601
--cluster={{ default (printf "%s/%s" .Release.Namespace (include "coterie.fullname" .)) .Values.clusterName }}
--drain={{ .Values.drain.timeout }}s
{{- end -}}

{{- define "coterie.moreFlags" -}}
{{- range $name, $value := . }}
--{{ $name }}={{ if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{- end -}}

{{- define "coterie.shardFlags" -}}
--role=shard
{{ include "coterie.commonFlags" . }}
--drain_delay={{ .Values.drain.shardDelay }}s
--shards_total={{ .Values.shards.count }}
--data_dir=/var/lib/coterie/data
--data_dir_wait={{ include "coterie.terminationGrace" . }}s
--threads={{ include "coterie.threads" . }}
{{- include "coterie.moreFlags" .Values.shards.flags }}
{{- end -}}

{{/* The name ends with a dot: no search domains are tried each second. */}}
{{- define "coterie.coordinatorFlags" -}}
--role=coordinator
{{ include "coterie.commonFlags" . }}
--drain_delay={{ .Values.drain.coordinatorDelay }}s
--shards=dns:///{{ include "coterie.fullname" . }}-shard.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}.:7600
--serve_partial={{ .Values.coordinators.servePartial }}
{{- with .Values.coordinators.acceptStores }}
{{- $accepted := list -}}
{{- range $shard, $store := . }}{{ $accepted = append $accepted (printf "%s=%s" $shard $store) }}{{ end }}
--accept_stores={{ join "," $accepted }}
{{- end }}
{{- include "coterie.moreFlags" .Values.coordinators.flags }}
{{- end -}}

{{- define "coterie.probes" -}}
startupProbe:
  grpc: {port: 7600, service: alive}
  {{- toYaml .Values.probes.startup | nindent 2 }}
livenessProbe:
  grpc: {port: 7600, service: alive}
  {{- toYaml .Values.probes.liveness | nindent 2 }}
readinessProbe:
  grpc: {port: 7600}
  {{- toYaml .Values.probes.readiness | nindent 2 }}
{{- end -}}

{{/* What pods of both roles have; takes root, component and values. */}}
{{- define "coterie.podSpec" -}}
{{- $selector := include "coterie.selector" .root -}}
serviceAccountName: {{ include "coterie.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "coterie.terminationGrace" .root }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if ne .values.antiAffinity "none" }}
affinity:
  podAntiAffinity:
    {{- if eq .values.antiAffinity "hard" }}
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- $selector | nindent 12 }}
            app.kubernetes.io/component: {{ .component }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- $selector | nindent 14 }}
              app.kubernetes.io/component: {{ .component }}
    {{- end }}
{{- end }}
{{- if .root.Values.topologySpread.enabled }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ .root.Values.topologySpread.topologyKey }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- $selector | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
{{- end }}
{{- end -}}
