{{- define "quarry.labels" -}}
app.kubernetes.io/name: quarry
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Of the pods of one component: a dict of root and component. */ -}}
{{- define "quarry.selector" -}}
app.kubernetes.io/name: quarry
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "quarry.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The folder of the CSI socket, on the node and in quarryd's container alike. */ -}}
{{- define "quarry.pluginDir" -}}
{{ .Values.kubeletDir }}/plugins/{{ .Values.driverName }}
{{- end }}

{{- /* Names of objects that belong to no namespace. */ -}}
{{- define "quarry.clusterName" -}}
quarry-{{ .Release.Namespace }}-{{ .Release.Name }}
{{- end }}

{{- /* The access token of a service account, for the one container that needs it. */ -}}
{{- define "quarry.token" -}}
- name: token
  projected:
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end }}

{{- define "quarry.tokenMount" -}}
- {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}

{{- /* A value in TOML, on one line. Helm's own toToml makes floats of whole numbers. */ -}}
{{- define "quarry.toml" -}}
{{- if kindIs "map" . -}}
{ {{- range $i, $key := keys . | sortAlpha }}{{ if $i }},{{ end }} {{ $key | quote }} = {{ include "quarry.toml" (get $ $key) }}{{ end }} }
{{- else if kindIs "slice" . -}}
[{{ range $i, $one := . }}{{ if $i }}, {{ end }}{{ include "quarry.toml" $one }}{{ end }}]
{{- else if kindIs "float64" . -}}
{{ int64 . }}
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end }}

{{- /* A sidecar needs no right of root but its user id, to which the socket belongs. */ -}}
{{- define "quarry.sidecarSecurity" -}}
runAsUser: 0
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end }}
