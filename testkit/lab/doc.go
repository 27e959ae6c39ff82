// Package lab starts and stops real Kubernetes control planes on one machine,
// for integration tests, end-to-end tests and demonstrations.
//
// A lab cluster is an etcd, a kube-apiserver, a kube-controller-manager and a
// kube-scheduler that run as plain processes, and kwok, which simulates nodes:
// it needs no root, no containers and no network. The programs are compiled
// from their modules (folder e2e/kube) the first time they are needed and kept
// in a cache.
//
// A cluster may also have real nodes: each a process in namespaces of its own
// with a containerd, a kubelet and a kube-proxy, on a network that leads to the
// other nodes and to this machine and nowhere else. They need root; RealNodes
// says whether they can run. docs/internals/lab.md tells how they are made.
//
// The state of a cluster is in one folder: its settings and ports
// (cluster.json), certificates (pki), processes (process), logs (log), data
// (etcd) and, on request, the audit log. No process holds state of its own, so
// a cluster outlives the process that started it and can be found, repaired
// and removed by any other.
//
//	Binaries   builds the programs once, under a lock; InstalledBinaries, for
//	           demonstrations, takes what the machine has already
//	Up         brings a cluster up, or back up; Down removes it
//	StartT     does both for one test, and leaves nothing behind
//	Command    runs a program of ours as one more process of a cluster
//	StopNode   and KillNode, StartNode, NodeExec, LoadImages: one real node, or all
//	Cut        ends all traffic between two nodes or clusters, until Heal
//
// Processes are identified by pid and start time together, so a pid that the
// kernel has since given to another process is never signalled.
//
// Not supported: other systems than Linux, high availability, simulated pods
// that run anything. Ports are fixed per cluster, so that a restarted apiserver
// has the address that its clients know.
package lab
