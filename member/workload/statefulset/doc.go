// Package statefulset runs StatefulSets of apps.kruise.io: pods with a fixed name, a place in an order and claims of their own.
//
//	ordinals.go        which ordinals the pods have, with reserved ones left out
//	webhook.go         defaults and validation; webhook_claims.go of a change of claim templates
//	gates.go           the feature gates that a StatefulSet is planned by
package statefulset
