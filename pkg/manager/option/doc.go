// Package option contains the command-line flags of managers, their validation and help texts.
//
// A group of flags is a struct: both managers have Manager and Workers, the member also has Hub. AddFlags binds a group, and Validate reports
// each invalid value with its flag and the valid values. Program combines the groups of a manager into its command. Names and defaults match
// OpenKruise where they apply; there are no flags for resource locks other than Leases, for klog or for certificate files.
//
// Values are read once, at startup. Only client-go's in-cluster configuration reads the environment.
package option
