// Package option turns command-line flags into the structs that Setup takes, and back into help text.
//
// A group of flags is a struct: Manager is what both managers have, Workers and Agent are the member's, and so on. New*
// returns a group at its defaults, AddFlags binds it, Validate says what can't be with the flag's name, the value and
// the way out. Names and defaults are those that operators of these APIs know, where they still make sense. What came
// without use is gone: flags for a resource lock other than Leases, for klog, for files of certificates.
//
// A value is read once, at start. Nothing here reads the environment but InCluster of client-go.
package option
