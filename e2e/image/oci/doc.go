// Package oci builds container images from programs compiled by Go, without downloading anything or running a container. An image has one
// layer, with the program and the few files that a process expects (an account, a folder for temporary files), and runs as an unprivileged
// user.
//
// The same programs give the same digest: the layer and the configuration contain no time, no user of the machine, and nothing in map order.
// Base images, and other files than the program, are not supported.
package oci
