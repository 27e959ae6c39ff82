{{/* Names are fixed and don't depend on the release name: a cluster has only one hub, and its roles refer to these names. */}}
{{- define "name" -}}flotilla-hub{{- end }}

{{/* Name of the manager's Deployment and PodDisruptionBudget, and label of its pods. Nothing outside the chart refers to it. */}}
{{- define "app" -}}{{ .Values.nameOverride | default (include "name" .) }}{{- end }}

{{- define "account" -}}{{ .Values.serviceAccount.name | default (include "name" .) }}{{- end }}

{{- define "selector" -}}
app.kubernetes.io/name: {{ include "app" . }}
{{- end }}

{{- define "labels" -}}
{{ include "selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/part-of: flotilla
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels of pods, the chart's and additional ones: (dict "labels" LABELS "more" PODLABELS). */}}
{{- define "podLabels" -}}
{{- if .more }}{{ merge (deepCopy .more) (fromYaml .labels) | toYaml }}{{ else }}{{ .labels }}{{ end }}
{{- end }}

{{/* Entries of imagePullSecrets. The value has names, or objects with a name as in a pod spec. */}}
{{- define "pullSecrets" -}}
{{- range . }}
- name: {{ kindIs "map" . | ternary . (dict "name" .) | dig "name" "" }}
{{- end }}
{{- end }}

{{/* The test's pod must not match the selectors of the manager's Service, Deployment and PodDisruptionBudget. */}}
{{- define "testLabels" -}}
{{ include "labels" . | replace (include "selector" .) (printf "%s-test" (include "selector" .)) }}
{{- end }}

{{/* The reference of an image: (list root image). A digest takes precedence over a tag. */}}
{{- define "image" -}}
{{- $root := index . 0 }}{{ $image := index . 1 -}}
{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* How the apiserver reaches a path of the webhook server: (list root path). The manager adds the CA bundle. */}}
{{- define "clientConfig" -}}
{{- $root := index . 0 }}{{ $path := index . 1 }}
{{- if $root.Values.manager.url -}}
url: {{ $root.Values.manager.url }}{{ $path }}
{{- else -}}
service:
  namespace: {{ $root.Release.Namespace }}
  name: {{ include "name" $root }}
  path: {{ $path }}
  port: 443
{{- end }}
{{- end }}

{{/*
The roles that are generated from the code, each bound to a ServiceAccount: (list root file account kinds). Roles in the default
namespace flotilla-system are created in the release's namespace.
*/}}
{{- define "roles" -}}
{{- $root := index . 0 }}{{ $account := index . 2 }}{{ $kinds := index . 3 }}
{{- range splitList "\n---\n" (trimPrefix "---\n" ($root.Files.Get (index . 1))) }}
{{- $role := fromYaml . }}
{{- if has $role.kind $kinds }}
{{- $namespace := $role.metadata.namespace | default "" | replace "flotilla-system" $root.Release.Namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $role.kind }}
metadata:
  name: {{ $role.metadata.name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "labels" $root | nindent 4 }}
rules:
  {{- toYaml $role.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $role.kind }}Binding
metadata:
  name: {{ $role.metadata.name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "labels" $root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $role.kind }}
  name: {{ $role.metadata.name }}
subjects:
  - kind: ServiceAccount
    name: {{ $account }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The resources of propagation.kinds in the form of the manager's flag: comma-separated, such as deployments.apps. Rejects the resources that
no hub places, like chart flotilla-member, and those that no Propagation places.
*/}}
{{- define "propagated" -}}
{{- $closed := dict
  "fleet.kruise.io" "these are the fleet's own"
  "coordination.k8s.io" "these belong to the cluster whose components write them"
  "events.k8s.io" "these belong to the cluster whose components write them"
  "rbac.authorization.k8s.io" "these decide who may do what: only administrators of a member create them"
  "admissionregistration.k8s.io" "these decide who may do what: only administrators of a member create them"
  "apiregistration.k8s.io" "these decide who may do what: only administrators of a member create them"
  "apiextensions.k8s.io" "these decide who may do what: only administrators of a member create them"
  "certificates.k8s.io" "these decide who may do what: only administrators of a member create them"
  "authentication.k8s.io" "these decide who may do what: only administrators of a member create them"
  "authorization.k8s.io" "these decide who may do what: only administrators of a member create them"
}}
{{- $resources := dict
  "secrets" "a hub does not read Secrets: place them with a ResourceDistribution with targets.clusters"
  "namespaces" "a hub does not create namespaces: the administrator of a member does"
  "nodes" "these belong to the cluster whose components write them"
  "events" "these belong to the cluster whose components write them"
  "bindings" "these belong to the cluster whose components write them"
  "componentstatuses" "these belong to the cluster whose components write them"
  "nodepodprobes.apps.kruise.io" "these have the node daemons act in pods of all namespaces"
  "nodeimages.apps.kruise.io" "these have the node daemons act in pods of all namespaces"
  "uniteddeployments.apps.kruise.io" "they name their own clusters, in spec.topology.subsets"
  "workloadspreads.apps.kruise.io" "they name their own clusters, in spec.subsets"
  "resourcedistributions.apps.kruise.io" "they name their own clusters, in spec.targets.clusters"
}}
{{- $all := list }}
{{- range $i, $kind := .Values.propagation.kinds }}
{{- $group := $kind.group | default "" }}
{{- if hasKey $closed $group }}
{{- fail (printf "propagation.kinds[%d].group: no objects of group %s are placed: %s" $i $group (get $closed $group)) }}
{{- end }}
{{- range $kind.resources }}
{{- $name := ternary . (printf "%s.%s" . $group) (eq $group "") }}
{{- if hasKey $resources $name }}
{{- fail (printf "propagation.kinds[%d].resources: no %s are placed: %s" $i $name (get $resources $name)) }}
{{- end }}
{{- $all = append $all $name }}
{{- end }}
{{- end }}
{{- join "," $all }}
{{- end }}
