// Package v1alpha1 contains Flotilla's own kinds: the members of a hub, the work the hub assigns to them, and what they report.
//
// On the hub: Propagation and ClusterPropagation (which objects go to which members), RolloutApproval (that the next wave of a rollout may
// begin), MemberCluster (one per member), MemberWork (one row per object and member, in the member's namespace fleet-<cluster>) and
// WorkContent (a manifest that is written once and never changes). In a member: Membership (the hub it belongs to) and AppliedWork (what was
// applied there, by UID).
//
// The hub plans and grants absolute numbers; members act on them and report back. Every field is implemented; future features don't have
// fields yet.
//
// +kubebuilder:object:generate=true
// +groupName=fleet.kruise.io
package v1alpha1
