// Labnode is the first process of a real node in the lab: it sets up the environment of the node's programs (mounts, cgroups, addresses),
// starts the programs, and restarts them when they exit. It reaps orphaned processes, as the first process of a PID namespace has to.
//
// Its input is a file with a JSON list of steps. Each step is a list with a verb and its arguments. Package testkit/lab writes the file. Labnode
// knows nothing about Kubernetes.
//
//	bind SOURCE TARGET            also show the folder or file SOURCE at TARGET
//	cgroupns                      enter a new cgroup namespace with the current cgroups as roots
//	cover FOLDER KEEP...          mount an empty folder in memory over FOLDER, but keep the paths KEEP
//	hostname NAME                 set the host name
//	join CGROUP...                put this process into control groups
//	link OLD NEW                  create a symbolic link
//	mkdir FOLDER...               create folders
//	mount TYPE SOURCE TARGET OPTIONS   mount a file system
//	propagate private|shared      set the propagation of all mounts
//	run PROGRAM ARGUMENT...       run a program, and continue when it has succeeded
//	start NAME LOG PROGRAM ARGUMENT...   start a program, and restart it whenever it exits
//	waitlink INTERFACE            wait until the node has that network interface
//	waitsocket FILE               wait until a program listens there
//	write FILE TEXT               write a file
//
// SIGTERM shuts the node down: the programs are stopped in reverse start order, then all other processes get SIGTERM, and what is left after
// some seconds is killed with the namespace. SIGKILL is like a power failure.
package main
