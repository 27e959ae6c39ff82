// Labnode is the first process of a real node of the lab: it sets up the
// environment of the node's programs (mounts, cgroups, addresses), starts them,
// and restarts them when they exit. It reaps orphaned processes, as the first
// process of a process namespace has to.
//
// Its input is a file, a JSON list of steps. Each step is a list too: a
// verb and its arguments. Package testkit/lab writes the file; labnode
// knows nothing of Kubernetes.
//
//	bind SOURCE TARGET            the folder or file SOURCE is seen at TARGET as well
//	cgroupns                      a cgroup namespace of its own, with the current cgroups as roots
//	cover FOLDER KEEP...          an empty FOLDER, in memory; what is named after it stays
//	hostname NAME
//	join CGROUP...                put this process into control groups
//	link OLD NEW                  a symbolic link
//	mkdir FOLDER...
//	mount TYPE SOURCE TARGET OPTIONS
//	propagate private|shared      of all mounts
//	run PROGRAM ARGUMENT...       and continue when it has succeeded
//	start NAME LOG PROGRAM ARGUMENT...
//	waitlink INTERFACE            until the node has that network interface
//	waitsocket FILE               until a program listens there
//	write FILE TEXT
//
// SIGTERM shuts the node down: the programs end in the reverse order of their
// start, then everything else is asked to end, and what is left after some
// seconds goes with the namespace. SIGKILL is a power cut.
package main
