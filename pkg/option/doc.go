// Package option turns command-line flags into the structs that Setup takes, and back into help text.
//
// A group of flags is a struct: both managers have Manager and Workers, the member has Hub. AddFlags binds a group, Validate
// reports each invalid value with its flag and what is valid. Program combines the groups of a manager into its command. Names
// and defaults are those of OpenKruise where they still make sense; there are no flags for resource locks other than Leases, for
// klog or for certificate files.
//
// Values are read once, at start. Only client-go's in-cluster configuration reads the environment.
package option
