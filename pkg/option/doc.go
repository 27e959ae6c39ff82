// Package option turns command-line flags into the structs that Setup takes, and back into help text.
//
// A group of flags is a struct: Manager and Workers are what both managers have, Hub is the member's. AddFlags binds it,
// Validate says what can't be with the flag's name, the value and the way out. Program puts the groups of a manager
// together into its command. Names and defaults are those that operators of these APIs know, where they still make sense.
// What came without use is gone: flags for a resource lock other than Leases, for klog, for files of certificates.
//
// A value is read once, at start. Nothing here reads the environment but InCluster of client-go.
package option
