// Package keys holds every label, annotation, finalizer, condition type and container env name that Flotilla and
// its users put on objects of other kinds: pods, PVCs, revisions, slices.
//
// A key is an API: its spelling can't change once users' YAML, other controllers or objects in a running cluster carry it.
// So each one is defined here once, with who writes it, who reads it and the form of its value. The keys under kruise.io
// keep the spelling of OpenKruise, because users bring objects with them; ours are under fleet.kruise.io.
//
// The package has constants only. The package that owns a key's meaning (pkg/lifecycle, pkg/inplace and so on) reads and
// writes its value. A key is added when the first code uses it, not before.
package keys
