{{- define "countersign.name" -}}
{{- if contains "countersign" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-countersign" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "countersign.selector" -}}
app.kubernetes.io/name: countersign
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "countersign.labels" -}}
{{ include "countersign.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "countersign.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "countersign.isHttp" -}}
{{- $modes := list (get .Values.settings "SLACK_MODE") (get .Values.settings "FEISHU_MODE") }}
{{- if has "http" $modes }}true{{ end }}
{{- end }}

{{- /* Files that people send lie in a bucket or on a volume. */}}
{{- define "countersign.hasVolume" -}}
{{- if not (get .Values.settings "FILES_BUCKET") }}true{{ end }}
{{- end }}
