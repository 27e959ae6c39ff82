// Package setup defines what a kind registers with a manager, so that a manager is a list of kinds: package member has one, and
// package hub.
//
//	func Kinds() setup.Kinds {
//		return setup.Kinds{cloneset.Registration(), daemonset.Registration(), ...}
//	}
//
// Scheme, flags, feature gates, the fields that the cache keeps, the CRDs that get the webhooks' CA bundle, and the CRDs and
// webhooks of the chart follow from that list. A kind is a plain value. RBAC and the
// webhook configurations are generated from markers in the kind's folder, as kubebuilder does.
package setup
