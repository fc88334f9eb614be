{{- define "outbox.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* Short enough for what is added to it, and what a Service can be called: it begins with a letter, and has no dots. */ -}}
{{- define "outbox.fullname" -}}
{{- $name := .Release.Name -}}
{{- if .Values.fullnameOverride -}}
{{- $name = .Values.fullnameOverride -}}
{{- else if not (contains (include "outbox.name" .) .Release.Name) -}}
{{- $name = printf "%s-%s" .Release.Name (include "outbox.name" .) -}}
{{- end -}}
{{- if regexMatch "^[0-9]" $name -}}
{{- $name = printf "relay-%s" $name -}}
{{- end -}}
{{- $name | replace "." "-" | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{- define "outbox.selector" -}}
app.kubernetes.io/name: {{ include "outbox.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- /* Of the relay alone: the pods of migrations are none of it. */ -}}
{{- define "outbox.relaySelector" -}}
{{ include "outbox.selector" . }}
app.kubernetes.io/component: relay
{{- end -}}

{{- define "outbox.labels" -}}
{{ include "outbox.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | regexFind "[A-Za-z0-9].*[A-Za-z0-9]|[A-Za-z0-9]" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | quote }}
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

{{- /* A number, or a text such as 50%. */ -}}
{{- define "outbox.countOrShare" -}}
{{- if kindIs "string" . }}{{ . | quote }}{{ else }}{{ int64 . }}{{ end -}}
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

{{- /* A variable that no source or two secrets answer for is found when the relay starts, or never. */ -}}
{{- define "outbox.checkSecrets" -}}
{{- $sources := list -}}
{{- range .Values.config.sources | default list }}{{ $sources = append $sources .name }}{{ end -}}
{{- $seen := dict -}}
{{- range .Values.secrets -}}
{{- $what := include "outbox.secretFile" . -}}
{{- if and .source (not (has .source $sources)) -}}
{{- fail (printf "secrets: %s is for the source %s, which config.sources does not have" .setting .source) -}}
{{- end -}}
{{- if hasKey $seen $what -}}
{{- fail (printf "secrets: there are two for %s" $what) -}}
{{- end -}}
{{- $_ := set $seen $what true -}}
{{- end -}}
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
{{- $all := get .Values.config "drain-timeout" | default "10s" -}}
{{- range .Values.config.sources | default (list .Values.config) -}}
{{- $drain := get . "drain-timeout" | default $all -}}
{{- if le (float64 $grace) (include "outbox.seconds" $drain | float64) -}}
{{- fail (printf "terminationGracePeriodSeconds is %v: want more than the drain-timeout %s, or the relay is killed while it drains" $grace $drain) -}}
{{- end -}}
{{- end -}}
{{- end -}}
