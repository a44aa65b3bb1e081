{{- define "sluice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* At most 52 characters: Kubernetes adds eleven to it for a label of the pods, which may have 63. */}}
{{- define "sluice.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "sluice.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "sluice.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "sluice.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sluice.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "sluice.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "sluice.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "sluice.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The Secret whose keys become variables; empty if there is none. */}}
{{- define "sluice.secretName" -}}
{{- if .Values.secret.existingSecret }}
{{- .Values.secret.existingSecret }}
{{- else if .Values.secret.data }}
{{- include "sluice.fullname" . }}
{{- end }}
{{- end }}

{{/* Whether you give the master key: in a Secret of yours, in secret.data or in env, itself or as a file. Empty if the gateway makes it. */}}
{{- define "sluice.masterKeyGiven" -}}
{{- $data := default (dict) .Values.secret.data }}
{{- if or .Values.secret.existingSecret (hasKey $data "SLUICE_MASTER_KEY") (contains "name: SLUICE_MASTER_KEY" (toYaml .Values.env)) }}true{{ end }}
{{- end }}

{{/* The configuration file: yours, and what the chart knows better. */}}
{{- define "sluice.config" -}}
{{- $server := dict "linger" (printf "%ds" (int .Values.lingerSeconds)) "drain" (printf "%ds" (int .Values.drainSeconds)) }}
{{- $own := dict "data_dir" "/data" "server" $server }}
{{- if .Values.serviceMonitor.enabled }}
{{- $own = set $own "metrics" (dict "data_port" true "token" "${METRICS_TOKEN}") }}
{{- end }}
{{- if .Values.tls.existingSecret }}
{{- $own = set $own "tls" (dict "cert_file" "/etc/sluice-tls/tls.crt" "key_file" "/etc/sluice-tls/tls.key" "admin" false) }}
{{- end }}
{{- mergeOverwrite (deepCopy .Values.config) $own | toYaml }}
{{- end }}

{{/* The settings that the gateway reads only when it starts (readAtStart in src/app/app.ts). */}}
{{- define "sluice.readAtStart" -}}
{{- pick (include "sluice.config" . | fromYaml) "listen" "listen_mode" "admin" "tls" "admin_names" "admin_tls" "store" "store_connections" "read_store" "state" "state_loss" "data_dir" "receipts" "metrics" "webhooks" "sign_in" "log" | toYaml }}
{{- end }}

{{- define "sluice.scheme" -}}
{{- if .Values.tls.existingSecret }}https{{ else }}http{{ end }}
{{- end }}
