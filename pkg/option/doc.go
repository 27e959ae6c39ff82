// Package option has the command-line flags of managers, their validation and help texts.
//
// A group of flags is a struct: both managers have Manager and Workers, the member has Hub. AddFlags binds a group, Validate
// reports each invalid value with its flag and the valid ones. Program combines the groups of a manager into its
// command. Names and defaults are those of OpenKruise where they apply; there are no flags for resource locks other
// than Leases, for klog or for certificate files.
//
// Values are read once, at start. Only client-go's in-cluster configuration reads the environment.
package option
