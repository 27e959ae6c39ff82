// Package resourcedistribution keeps a copy of a Secret or ConfigMap in many namespaces.
//
//	resource.go  what is distributed, and how an object compares with it
//	copies.go    watches of the objects of one kind and name
//	observe.go   reads the ResourceDistribution, namespaces and objects
//	plan.go      which copies to create, change and delete, and which objects are not ours
//	apply.go     does it, by server-side apply
//	status.go    counts and conditions
//
// The content is that of the spec, or of a source, an object that exists. Copies have its name, so its watch is theirs.
//
// No Secret is read but by a name that the chart lists, and of all objects only metadata and a hash are kept: see decision 14.
//
// A copy has the ResourceDistribution as its controller, by which it is recognized, and is garbage collected with it. An object
// without that is never written: a creation is an apply that fails if there is an object, and every change names the version that
// was read.
package resourcedistribution
