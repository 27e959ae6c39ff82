// Package lab starts and stops real Kubernetes control planes on one machine,
// for integration tests, end-to-end tests and demonstrations.
//
// A lab cluster consists of etcd, kube-apiserver, kube-controller-manager and kube-scheduler, which run as plain processes, and kwok, which
// simulates nodes. It needs no root, no containers and no network. The programs are compiled from their modules (folder e2e/kube) the first
// time they are needed, and cached.
//
// A cluster can also have real nodes. Each is a process in its own namespaces with containerd, kubelet and kube-proxy, on a network that only
// leads to the other nodes and to this machine. They need root. RealNodes says whether they can run. docs/internals/lab.md explains how they
// work.
//
// The state of a cluster is in one folder: its settings and ports (cluster.json), certificates (pki), processes (process), logs (log), data
// (etcd) and, on request, the audit log. No process holds state of its own, so a cluster outlives the process that started it, and any other
// process can find, repair and remove it.
//
//	Binaries   builds the programs once, under a lock; InstalledBinaries, for
//	           demonstrations, takes what the machine has already
//	Up         brings a cluster up, or back up; Down removes it
//	StartT     does both for one test, and leaves nothing behind
//	Command    runs a program of ours as one more process of a cluster
//	StopNode   and KillNode, StartNode, NodeExec, LoadImages: one real node, or all
//	Cut        ends all traffic between two nodes or clusters, until Heal
//
// Processes are identified by PID and start time together, so a PID that the kernel has since reused is never signaled.
//
// Not supported: systems other than Linux, high availability, and simulated pods that run anything. Ports are fixed per cluster, so a
// restarted apiserver keeps the address that its clients know.
package lab
