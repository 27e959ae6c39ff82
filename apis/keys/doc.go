// Package keys holds every label, annotation, finalizer, condition type and container env name by which Flotilla and
// its users speak about objects of other kinds: pods, PVCs, revisions, slices.
//
// The idea: a key is an API. Its spelling can't change once users' YAML, other controllers or objects in a running
// cluster carry it, so each one stands here once, with who writes it, who reads it and the form of its value. The keys
// under kruise.io keep the spelling of OpenKruise, because users bring their objects; ours are under fleet.kruise.io.
//
// The package has constants only. Reading and writing a key's value is the business of the package that owns its
// meaning (pkg/lifecycle, pkg/inplace and so on). A key enters when the first code uses it, not before.
package keys
