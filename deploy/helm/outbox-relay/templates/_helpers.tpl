{{- define "outbox.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* Short enough for what is added to it. */ -}}
{{- define "outbox.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else if contains (include "outbox.name" .) .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "outbox.name" .) | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "outbox.selector" -}}
app.kubernetes.io/name: {{ include "outbox.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Of the relay alone: the pods of migrations are none of it. */ -}}
{{- define "outbox.relaySelector" -}}
{{ include "outbox.selector" . }}
app.kubernetes.io/component: relay
{{- end -}}

{{- define "outbox.labels" -}}
{{ include "outbox.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end -}}

{{- define "outbox.image" -}}
{{- $repository := required "image.repository is required: the repository of an image made by the Dockerfile" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "outbox.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "outbox.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "outbox.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "outbox.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "outbox.config" -}}
{{- toYaml (merge (dict "listen" (printf ":%d" (int .Values.port))) .Values.config) -}}
{{- end -}}

{{- /* The variable of a setting, for all sources or for one. */ -}}
{{- define "outbox.variable" -}}
OUTBOX_{{ with .source }}SOURCE_{{ . | upper | replace "-" "_" }}__{{ end }}{{ .setting | upper | replace "-" "_" }}
{{- end -}}

{{- define "outbox.secretFile" -}}
{{ with .source }}{{ . }}.{{ end }}{{ .setting }}
{{- end -}}

{{- /* Seconds of a duration such as 1m30s. */ -}}
{{- define "outbox.seconds" -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" (toString .) -1 -}}
{{- $number := regexFind "[0-9.]+" . | float64 -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $sum = addf $sum (mulf $number (get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0) $unit)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{- /* A pod that is killed while it drains leaves events that come twice. */ -}}
{{- define "outbox.checkGrace" -}}
{{- $grace := .Values.terminationGracePeriodSeconds -}}
{{- range prepend (.Values.config.sources | default list) .Values.config -}}
{{- $drain := get . "drain-timeout" | default "10s" -}}
{{- if le (float64 $grace) (include "outbox.seconds" $drain | float64) -}}
{{- fail (printf "terminationGracePeriodSeconds is %v: want more than the drain-timeout %s, or the relay is killed while it drains" $grace $drain) -}}
{{- end -}}
{{- end -}}
{{- end -}}
