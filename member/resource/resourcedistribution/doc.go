// Package resourcedistribution keeps a copy of a Secret or ConfigMap in many namespaces.
//
//	resource.go  what is distributed, and how an object compares with it
//	copies.go    watches of the objects of one kind and name
//	observe.go   reads the ResourceDistribution, namespaces and objects
//	plan.go      which copies to create, change and delete, and which objects are not ours
//	apply.go     carries out the plan, by server-side apply
//	status.go    counts and conditions
//
// The content comes from the spec, or from a source, which is an existing object. Copies have the same name as the source, so one watch covers
// both.
//
// Secrets are read only if the chart lists their name, and of all objects only metadata and a hash are kept: see decision 14.
//
// A copy has the ResourceDistribution as its controller, by which it is recognized, and is garbage collected with it. An object without that
// owner reference is never written: a creation is an apply that fails if the object exists, and every change names the version that was read.
package resourcedistribution
