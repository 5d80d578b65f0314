{{/* NAME-0.NAME:PORT, NAME-1.NAME:PORT … in quotes: what a configuration lists. */}}
{{- define "iot-mqtt.pods" -}}
{{- $found := list -}}
{{- range $n := until (int .count) -}}
{{- $found = append $found (printf "%q" (printf "%s-%d.%s:%v" $.name $n $.name $.port)) -}}
{{- end -}}
{{- join ", " $found -}}
{{- end -}}

{{- define "iot-mqtt.kafka" -}}
{{- if .Values.kafka.enabled -}}
"kafka-0.kafka:9092"
{{- else -}}
{{- $found := list -}}
{{- range required "kafka.bootstrapServers: name a Kafka, or say kafka.enabled: true" .Values.kafka.bootstrapServers -}}
{{- $found = append $found (printf "%q" .) -}}
{{- end -}}
{{- join ", " $found -}}
{{- end -}}
{{- end -}}

{{/* What a file of the chart says, and over it what values say. */}}
{{- define "iot-mqtt.config" -}}
{{- mergeOverwrite (tpl (.root.Files.Get (printf "files/%s" .file)) .root | fromYaml) .values | toYaml -}}
{{- end -}}

{{- define "iot-mqtt.image" -}}
{{ .root.Values.images.registry }}{{ .name }}:{{ .root.Values.images.tag | default .root.Chart.AppVersion }}
{{- end -}}

{{- define "iot-mqtt.volume" -}}
accessModes: [ReadWriteOnce]
{{- with .root.Values.storageClass }}
storageClassName: {{ . }}
{{- end }}
resources: {requests: {storage: {{ .size }}}}
{{- end -}}
