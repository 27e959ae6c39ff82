// Package v1alpha1 holds Flotilla's own kinds: how a hub knows its members, what it asks of them and what they answer.
//
// On the hub live MemberCluster (one per member), MemberWork (one row per object and member, in the member's
// namespace fleet-<cluster>) and WorkContent (a manifest, written once and never changed). In a member live
// Membership (which hub it belongs to) and AppliedWork (what was applied there, by UID).
//
// The hub plans and grants absolute numbers; a member acts on them and reports. Every field is implemented: what is planned has
// no field yet.
//
// +kubebuilder:object:generate=true
// +groupName=fleet.kruise.io
package v1alpha1
