// Package oci builds container images from programs that Go has compiled:
// nothing is downloaded and no container runs. An image has one layer, with the
// program and the few files that a process expects (an account, a folder for
// temporary files), and runs as an account without rights.
//
// The same programs give the same digest: the layer and the configuration hold
// no time, no user of the machine, and nothing in the order of a map. It does
// not support base images, or files besides the program.
package oci
