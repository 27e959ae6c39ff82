// Package cri speaks to the container runtimes of one node: what a container was started with, stop it, run a command in
// it.
//
// The idea: a node has one runtime that its kubelet uses, and perhaps others, each with a socket below one directory.
// Runtimes looks for all of them, again and again, and finds the one that runs a container by the prefix of the ID that
// the kubelet reports: containerd://4f1c. None found is an error that says what was looked for; the caller goes on without.
//
// What a container was started with is read from the runtime's own record of it. Nothing is run in the container for it,
// so that images without a shell or an env program do.
//
// The environment of a container may hold secrets. Container hands out only the variables that were asked for.
//
// What it won't do: create, start or remove containers. That is the kubelet's.
package cri
