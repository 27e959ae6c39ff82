// Package v1alpha1 holds Flotilla's own kinds: the members of a hub, what it asks of them and what they report.
//
// On the hub there are MemberCluster (one per member), MemberWork (one row per object and member, in the member's
// namespace fleet-<cluster>) and WorkContent (a manifest, written once and never changed). In a member there are
// Membership (which hub it belongs to) and AppliedWork (what was applied there, by UID).
//
// The hub plans and grants absolute numbers; a member acts on them and reports. Every field is implemented; future features
// have no field yet.
//
// +kubebuilder:object:generate=true
// +groupName=fleet.kruise.io
package v1alpha1
