// Package oci builds container images from compiled Go programs: nothing is downloaded and no container runs. An image has one layer, with
// the program and the few files that a process expects (an account, a folder for temporary files), and runs as an unprivileged account.
//
// The same programs give the same digest: the layer and the configuration contain no time, no user of the machine, and nothing in the order
// of a map. Base images, or files besides the program, are not supported.
package oci
