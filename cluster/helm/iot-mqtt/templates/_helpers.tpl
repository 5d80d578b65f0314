{{/* NAME-0.NAME:PORT, NAME-1.NAME:PORT … in quotes: what a configuration lists. */}}
{{- define "iot-mqtt.pods" -}}
{{- $found := list -}}
{{- range $n := until (int .count) -}}
{{- $found = append $found (printf "%q" (printf "%s-%d.%s:%v" $.name $n $.name $.port)) -}}
{{- end -}}
{{- join ", " $found -}}
{{- end -}}

{{/* Where what is published to up/# goes. */}}
{{- define "iot-mqtt.uplink" -}}
{{- dig "uplink" "kind" "kafka" .Values.broker.config -}}
{{- end -}}

{{- define "iot-mqtt.kafka" -}}
{{- if .Values.kafka.enabled -}}
"kafka-0.kafka:9092"
{{- else -}}
{{- $found := list -}}
{{- range .Values.kafka.bootstrapServers -}}
{{- $found = append $found (printf "%q" .) -}}
{{- end -}}
{{- join ", " $found -}}
{{- end -}}
{{- end -}}

{{/* Whether there are jobs: they read from Kafka. */}}
{{- define "iot-mqtt.pipeline" -}}
{{- if and .Values.pipeline.enabled (include "iot-mqtt.kafka" .) -}}true{{- end -}}
{{- end -}}

{{/* node.drain_seconds, wherever it stands. */}}
{{- define "iot-mqtt.drain" -}}
{{- dig "node" "drain_seconds" .Values.broker.drainSeconds .Values.broker.config | float64 | printf "%.1f" -}}
{{- end -}}

{{/* How many bytes a size is: of Kubernetes (5Gi), or in small letters of Java (1g). */}}
{{- define "iot-mqtt.bytes" -}}
{{- $units := dict "" 1 "k" 1024 "m" 1048576 "g" 1073741824 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $units = merge $units (dict "M" 1e6 "G" 1e9 "T" 1e12) -}}
{{- $size := toString . -}}
{{- mulf (regexFind "^[0-9.]+" $size) (get $units (regexFind "[A-Za-z]*$" $size)) | int64 -}}
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
