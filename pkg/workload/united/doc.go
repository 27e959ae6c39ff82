// Package united contains the rules for UnitedDeployments that hub and member share: defaults, validation, and the pod template of a subset.
//
// An object must mean the same everywhere. The hub admits an object that its members receive in slices; a member admits the slices and the
// objects of its own users. Both use this package, so nothing that the hub admits is rejected later in a member, where the user would not
// notice.
//
//	Default, Validate, ValidateUpdate   pure rules on the object alone
//	TemplateOf, PodTemplate             pure: which workload the subsets are, and the pods of one subset
//	RevisionData, RevisionContent       pure: what a revision of an object contains
//	Webhook                             these rules as admission webhook, and a dry run of the pod templates
//
// A message names the field, the fault and the remedy. API fields that are not supported yet are rejected; where an object works without them,
// as in OpenKruise, they only get a warning. They are never ignored silently.
//
// The package doesn't look at other objects: the hub checks whether a named cluster exists. The rules for a CloneSet are only validated by
// Options.CloneSet.
package united
