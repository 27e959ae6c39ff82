// Package podtemplate fills in the defaults of a pod template and validates it, by asking the apiserver.
//
// The idea: what a valid pod is, and which defaults it gets, is known to the cluster's own apiserver, in the cluster's
// own version and with its own feature gates. A dry-run creation of a core/v1 PodTemplate returns the template with all
// defaults or the list of its faults, and stores nothing. So there is no copy of Kubernetes' rules here that could
// fall behind.
//
// Claim templates become volumes of pods, so a container may mount what only a claim template names. For the question
// they stand in as volumes of the same names and are taken out of the answer.
//
// The cost is one request for each new or changed template (not for a scale or a change of strategy), and the
// permission to create podtemplates.
package podtemplate
