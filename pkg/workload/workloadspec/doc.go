// Package workloadspec validates and defaults the fields that the specs of workloads share: selector, pod template, volume claim templates,
// counts and percentages, update order. An error names the field, the value and the remedy.
//
// PodTemplates lets the API server default and validate a template, through a dry-run create of a core/v1 PodTemplate: it applies the cluster's
// own rules, in its own version and with its own feature gates, so that Kubernetes' rules are not duplicated here. It takes one request for each
// new or changed template, perhaps a second one for the stored template whose form is kept, and none for a scale or a change of strategy. It
// needs the permission to create podtemplates. A container may mount the volume of a volume claim template, so the request has volumes with the
// same names for them. Everything else here is pure.
package workloadspec
