{{- define "quarry.labels" -}}
app.kubernetes.io/name: quarry
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Of the pods of one component: a dict of root and component. */ -}}
{{- define "quarry.selector" -}}
app.kubernetes.io/name: quarry
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
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

{{- /* What quarryd and the S3 gateway of a node share. */ -}}
{{- define "quarry.bucketVolumes" -}}
- name: s3
  hostPath: {path: /run/quarry/s3, type: DirectoryOrCreate}
- name: cosi
  hostPath: {path: /run/quarry/cosi, type: DirectoryOrCreate}
# Before Linux 6.6 the gateway cannot serve from /run.
- name: spare
  hostPath: {path: /var/lib/quarry, type: DirectoryOrCreate}
{{- end }}

{{- /* Where the S3 gateway listens: the node's address, which quarryd's container learns from its variable. */ -}}
{{- define "quarry.s3Host" -}}
{{ if .Values.buckets.ipv6 }}[$(HOST_IP)]{{ else }}$(HOST_IP){{ end }}
{{- end }}

{{- define "quarry.tokenMount" -}}
- {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}

{{- define "quarry.parameters" -}}
pool type mirrors stripes stripesize regionsize store erase sync mkfsoptions inuse
{{- end }}

{{- define "quarry.types" -}}
linear striped raid0 raid1 raid4 raid5 raid6 raid10 thin
{{- end }}

{{- /* A list in CEL of words that are separated by spaces. */ -}}
{{- define "quarry.cel" -}}
[{{ range $i, $word := splitList " " . }}{{ if $i }}, {{ end }}{{ $word | quote }}{{ end }}]
{{- end }}

{{- /* A number without the exponent that Go gives to large ones. */ -}}
{{- define "quarry.whole" -}}
{{- if ne (int64 . | float64) . }}{{ fail (printf "%v is no whole number" .) }}{{ end }}{{ int64 . }}
{{- end }}

{{- /* The configuration file. It is an annotation of the pod, so a pod keeps its own until it is replaced. */ -}}
{{- define "quarry.configuration" -}}
{{- $names := list }}{{ range .Values.pools }}{{ $names = append $names .name }}{{ end }}
{{- if ne (len ($names | uniq)) (len $names) }}{{ fail "pools: two have one name" }}{{ end }}
{{- with .Values.inlineVolumes.maxSize }}ephemeral-max-size = {{ . | quote }}
{{ end }}
{{- range $key, $value := .Values.settings }}{{ $key }} = {{ include "quarry.toml" $value }}
{{ end }}
{{- range .Values.pools }}
[[pool]]
{{- range $key, $value := . }}
{{ $key }} = {{ include "quarry.toml" $value }}
{{- end }}
{{ end }}
{{- end }}

{{- /* A value in TOML, on one line. Helm's own toToml makes floats of whole numbers. */ -}}
{{- define "quarry.toml" -}}
{{- if kindIs "map" . -}}
{ {{- range $i, $key := keys . | sortAlpha }}{{ if $i }},{{ end }} {{ $key | quote }} = {{ include "quarry.toml" (get $ $key) }}{{ end }} }
{{- else if kindIs "slice" . -}}
[{{ range $i, $one := . }}{{ if $i }}, {{ end }}{{ include "quarry.toml" $one }}{{ end }}]
{{- else if kindIs "float64" . -}}
{{ include "quarry.whole" . }}
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
{{- with .Values.sidecarSELinuxOptions }}
seLinuxOptions: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
