// Package keys defines the labels, annotations, finalizers, condition types and container environment variables that Flotilla and its users
// put on objects of other kinds: pods, PVCs, revisions, slices.
//
// A key is an API: its spelling can't change once it is in users' YAML, in other controllers or on objects in a running cluster. Each key
// is therefore defined here once, with who sets it, who reads it and the format of its value. Keys under kruise.io have the spelling of
// OpenKruise, because users bring objects that have them; our own keys are under fleet.kruise.io.
//
// The package contains constants only. The package that owns the meaning of a key (pkg/pod/lifecycle, pkg/pod/inplace and so on) reads and writes
// its value. A key is added when code first uses it, not earlier.
package keys
