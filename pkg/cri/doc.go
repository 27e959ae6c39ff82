// Package cri is a client for the container runtimes of one node: read what a container was started with, stop it, run a command
// in it; pull images.
//
// A node has one runtime that its kubelet uses, and perhaps others, each with a socket below one directory. Runtimes connects to
// all of them, and finds the one that runs a container by the prefix of the ID that the kubelet reports: containerd://4f1c. If
// there is none, an error names the sockets that were tried; the caller continues without.
//
// What a container was started with is read from the runtime's own record of it. Nothing is run in the container for it,
// so that images without a shell or an env program do.
//
// The environment of a container may hold secrets. Container returns only the requested variables.
//
// Images are pulled by the first runtime that answers, with the credentials that it has been configured with; a pull ends with
// the caller's context.
//
// The package does not create, start or remove containers, nor remove images. That is up to the kubelet.
package cri
