// Package setup defines what a kind registers with a manager, so that a manager is a list of kinds. Package member has one such list, and so has
// package hub.
//
//	func Kinds() setup.Kinds {
//		return setup.Kinds{cloneset.Registration(), daemonset.Registration(), ...}
//	}
//
// These follow from the list: scheme, flags, feature gates, the fields kept in the cache, the CRDs that get the webhooks' CA bundle, and the
// CRDs and webhooks of the chart. A kind is a plain value. RBAC and the webhook configurations are generated from markers in the kind's folder,
// as kubebuilder does.
package setup
