// Package cri is a client for the container runtimes of one node: it reads what a container was started with, stops containers, runs commands in
// them, and pulls images.
//
// A node has one runtime that its kubelet uses, and perhaps others, each with a socket below one directory. Runtimes connects to all of them,
// and finds the one that runs a container by the prefix of the ID that the kubelet reports: containerd://4f1c. If there is none, an error names
// the sockets that were tried, and the caller continues without.
//
// What a container was started with is read from the runtime's own record. Nothing is run in the container for that, so it works for images
// without a shell or an env program.
//
// The environment of a container may contain secrets. Container returns only the requested variables.
//
// Images are pulled by the first runtime that answers, with the credentials configured in it; a pull ends when the caller's context does.
//
// The package doesn't create, start or remove containers, and doesn't remove images. That is up to the kubelet.
package cri
