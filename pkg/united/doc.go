// Package united holds the rules of UnitedDeployments that hub and member share: defaults, validation, and what a subset
// does to the pod template.
//
// The idea: an object must mean the same wherever it is judged. The hub admits an object that its members will get cut
// into slices; a member admits objects of its own users, and the slices. Both ask this package, so nothing that the hub
// lets pass is refused later in a member, where nobody looks.
//
//	Default, Validate, ValidateUpdate   pure rules on the object alone
//	TemplateOf, PodTemplate             pure: which workload the subsets are, and the pods of one subset
//	Webhook                             these rules as admission, and the apiserver's opinion of the pod templates
//
// A message names the field, what is wrong with it and the way out. What the API has and nothing acts on yet is refused
// and never ignored.
//
// It won't look at other objects: whether a named cluster exists is for the hub to say. It won't judge a CloneSet's own
// rules but for those given to it by Options.CloneSet.
package united
