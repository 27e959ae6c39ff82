{{/* Names are fixed and don't depend on the release name: a cluster has only one member manager, and its roles refer to these names. */}}
{{- define "name" -}}flotilla-member{{- end }}

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

{{/* The features of the pod webhook whose failurePolicy is Ignore, comma-separated, with the manager's names. */}}
{{- define "ignoredFeatures" -}}
{{- $out := list }}
{{- range $feature, $policy := .Values.podWebhook.failurePolicy }}
{{- if eq $policy "Ignore" }}{{ $out = append $out (printf "%s%s" (upper (substr 0 1 $feature)) (substr 1 -1 $feature)) }}{{ end }}
{{- end }}
{{- join "," $out }}
{{- end }}

{{/* CEL expression for pods that ask for a launch order. Package member/pod/launchpriority has the same one. */}}
{{- define "launch-asks" -}}
'apps.kruise.io/container-launch-priority' in object.metadata.?annotations.orValue({}) || object.spec.containers.exists(c, c.?env.orValue([]).exists(e, e.name == 'KRUISE_CONTAINER_PRIORITY'))
{{- end }}

{{/* CEL expression for pods that ask for liveness probes by the node daemon. Package member/pod/enhancedliveness has the same one. */}}
{{- define "liveness-asks" -}}
object.metadata.?annotations.orValue({}).exists(k, k in ['apps.kruise.io/using-enhanced-liveness', 'apps.kruise.io/container-probe-context'])
{{- end }}

{{/* CEL expression for ConfigMaps of launch priorities. */}}
{{- define "launch-barrier" -}}
object.metadata.name.endsWith('-barrier') && object.metadata.?ownerReferences.orValue([]).map(r, r.kind) == ['Pod']
{{- end }}

{{/* The resources of hub.kinds in the form of the manager's flag: comma-separated, such as gameserversets.game.kruise.io. */}}
{{- define "hubKinds" -}}
{{- $out := list }}
{{- range .Values.hub.kinds }}
{{- $group := .group | default "" }}
{{- range .resources }}{{ $out = append $out (trimSuffix "." (printf "%s.%s" . $group)) }}{{ end }}
{{- end }}
{{- join "," $out }}
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
Checks hub.kinds: rejects resources that no hub places (the same as in package pkg/manager/link), and those that a hub may always place.
*/}}
{{- define "checkKinds" -}}
{{- $closed := dict
  "fleet.kruise.io" "these are the fleet's own"
  "coordination.k8s.io" "these belong to the cluster whose components write them"
  "events.k8s.io" "these belong to the cluster whose components write them"
  "rbac.authorization.k8s.io" "these decide who may do what: only administrators of this cluster create them"
  "admissionregistration.k8s.io" "these decide who may do what: only administrators of this cluster create them"
  "apiregistration.k8s.io" "these decide who may do what: only administrators of this cluster create them"
  "apiextensions.k8s.io" "these decide who may do what: only administrators of this cluster create them"
  "certificates.k8s.io" "these decide who may do what: only administrators of this cluster create them"
  "authentication.k8s.io" "these decide who may do what: only administrators of this cluster create them"
  "authorization.k8s.io" "these decide who may do what: only administrators of this cluster create them"
}}
{{- $core := dict
  "secrets" "a hub reads no Secrets here: it places Secrets by ResourceDistribution (resourceDistribution.secrets)"
  "nodes" "these belong to the cluster whose components write them"
  "events" "these belong to the cluster whose components write them"
  "bindings" "these belong to the cluster whose components write them"
  "componentstatuses" "these belong to the cluster whose components write them"
}}
{{- $daemons := "these have the node daemons act in pods of all namespaces, whatever the limits of namespaces are" }}
{{- $kruise := dict "nodepodprobes" $daemons "nodeimages" $daemons }}
{{- $always := dict "apps" (list "deployments") "apps.kruise.io" (list "clonesets" "resourcedistributions" "uniteddeployments" "workloadspreads") }}
{{- range $i, $kind := .Values.hub.kinds }}
{{- $group := $kind.group | default "" }}
{{- if hasKey $closed $group }}
{{- fail (printf "hub.kinds[%d].group: a hub places no objects of group %s: %s" $i $group (get $closed $group)) }}
{{- end }}
{{- range $resource := $kind.resources }}
{{- with get (get (dict "" $core "apps.kruise.io" $kruise) $group | default dict) . }}
{{- fail (printf "hub.kinds[%d].resources: a hub places no %s: %s" $i $resource .) }}
{{- end }}
{{- if has . (get $always $group | default list) }}
{{- fail (printf "hub.kinds[%d].resources: a hub may always place %s of group %s: remove it" $i . $group) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
"true" if a feature gate that is off by default is on, otherwise empty: (list root gate "AllAlpha" or "AllBeta"). It evaluates the
manager's flags the way the manager does: a later value wins, and the value of a gate wins over the value of its stage.
*/}}
{{- define "gate" -}}
{{- $root := index . 0 }}{{ $gate := index . 1 }}{{ $stage := index . 2 }}
{{- $flags := list ($root.Values.featureGates | default "") }}
{{- range $root.Values.manager.extraArgs }}
{{- if regexMatch "^--?feature-gates=" . }}{{ $flags = append $flags (regexReplaceAll "^--?feature-gates=" . "") }}{{ end }}
{{- end }}
{{- $set := dict }}
{{- range splitList "," (join "," $flags) }}
{{- $item := splitList "=" . }}
{{- if eq (len $item) 2 }}
{{- $_ := set $set (trim (first $item)) (has (trim (last $item)) (list "1" "t" "T" "true" "True" "TRUE")) }}
{{- end }}
{{- end }}
{{- $name := hasKey $set $gate | ternary $gate $stage }}
{{- if and (hasKey $set $name) (get $set $name) }}true{{ end }}
{{- end }}

{{/* Rules for the resources that deletion protection covers: (list operations secrets). */}}
{{- define "protected" -}}
{{- $operations := index . 0 }}
- apiGroups: [""]
  apiVersions: [v1]
  resources: [namespaces, services, persistentvolumeclaims, persistentvolumes, configmaps{{ if index . 1 }}, secrets{{ end }}]
  operations: {{ $operations }}
- apiGroups: [apps]
  apiVersions: [v1]
  resources: [deployments, replicasets, statefulsets, daemonsets]
  operations: {{ $operations }}
- apiGroups: [apps.kruise.io]
  apiVersions: [v1alpha1, v1beta1]
  resources: [clonesets, statefulsets, daemonsets, uniteddeployments, sidecarsets]
  operations: {{ $operations }}
- apiGroups: [networking.k8s.io]
  apiVersions: [v1]
  resources: [ingresses]
  operations: {{ $operations }}
- apiGroups: [apiextensions.k8s.io]
  apiVersions: [v1]
  resources: [customresourcedefinitions]
  operations: {{ $operations }}
{{- end }}
