{{- /* The reference of an image: (list ROOT REFERENCE). */ -}}
{{- define "knative-cdevents.image" -}}
{{- $image := index . 1 -}}
{{- with (index . 0).Values.image -}}
{{- if .tag -}}
{{- $image = printf "%s:%s" (regexReplaceAll "(:[^:/@]+)?(@.+)?$" $image "") .tag -}}
{{- end -}}
{{- if .registry -}}
{{- $image = printf "%s/%s" (trimSuffix "/" .registry) (splitList "/" $image | last) -}}
{{- end -}}
{{- end -}}
{{- $image -}}
{{- end -}}

{{- /* What is set of scheduling and pulling: (dict "root" ROOT "of" VALUES). */ -}}
{{- define "knative-cdevents.scheduling" -}}
{{- $set := dict -}}
{{- with .root.Values.imagePullSecrets -}}{{- $_ := set $set "imagePullSecrets" . -}}{{- end -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "priorityClassName" -}}
{{- with index $.of $field -}}{{- $_ := set $set $field . -}}{{- end -}}
{{- end -}}
{{- with $set -}}{{- toYaml . -}}{{- end -}}
{{- end -}}

{{- /* Environment variables: those of the proxy, those of the certificate of the metrics, and the user's, which
replace the others. What is in the cluster is reached without the proxy. Kubernetes fills in the address of the API
server. */ -}}
{{- define "knative-cdevents.env" -}}
{{- $env := list -}}
{{- with .root.Values.proxy -}}
{{- if or .httpProxy .httpsProxy -}}
{{- with .httpProxy -}}{{- $env = append $env (dict "name" "HTTP_PROXY" "value" .) -}}{{- end -}}
{{- with .httpsProxy -}}{{- $env = append $env (dict "name" "HTTPS_PROXY" "value" .) -}}{{- end -}}
{{- $direct := list "$(KUBERNETES_SERVICE_HOST)" ".svc" (printf ".%s" .clusterDomain) -}}
{{- with .noProxy -}}{{- $direct = append $direct . -}}{{- end -}}
{{- $env = append $env (dict "name" "NO_PROXY" "value" (join "," $direct)) -}}
{{- end -}}
{{- end -}}
{{- with .root.Values.metrics.tls -}}
{{- if .secretName -}}
{{- $env = append $env (dict "name" "METRICS_PROMETHEUS_TLS_CERT" "value" "/etc/metrics-tls/tls.crt") -}}
{{- $env = append $env (dict "name" "METRICS_PROMETHEUS_TLS_KEY" "value" "/etc/metrics-tls/tls.key") -}}
{{- $env = append $env (dict "name" "METRICS_PROMETHEUS_TLS_CLIENT_AUTH" "value" "require") -}}
{{- $env = append $env (dict "name" "METRICS_PROMETHEUS_TLS_CLIENT_CA_FILE" "value" "/etc/metrics-tls/ca.crt") -}}
{{- end -}}
{{- end -}}
{{- $given := list -}}
{{- range .of.env -}}{{- $given = append $given .name -}}{{- end -}}
{{- $all := .of.env | default list -}}
{{- range $env -}}{{- if not (has .name $given) -}}{{- $all = append $all . -}}{{- end -}}{{- end -}}
{{- with $all -}}{{- toYaml . -}}{{- end -}}
{{- end -}}

{{- /* Where sidecars find the controller. Their own default is in namespace knative-cdevents. */ -}}
{{- define "knative-cdevents.controllerURL" -}}
{{- if ne .Release.Namespace "knative-cdevents" }}http://controller.{{ .Release.Namespace }}.svc{{ end -}}
{{- end -}}
