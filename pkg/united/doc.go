// Package united has the rules of UnitedDeployments that hub and member share: defaults, validation, and the pod template of a
// subset.
//
// An object must mean the same everywhere. The hub admits an object that its members get cut into slices; a member admits
// objects of its own users, and the slices. Both use this package, so nothing that the hub admits is rejected later in a
// member, where the user would not notice.
//
//	Default, Validate, ValidateUpdate   pure rules on the object alone
//	TemplateOf, PodTemplate             pure: which workload the subsets are, and the pods of one subset
//	Webhook                             these rules as admission webhook, and a dry run of the pod templates
//
// A message names the field, the fault and the remedy. Fields of the API that are not supported yet are rejected, or get a warning
// where an object runs without them as in OpenKruise; they are never ignored silently.
//
// The package does not look at other objects: the hub checks whether a named cluster exists. Rules of a CloneSet are validated
// by Options.CloneSet only.
package united
