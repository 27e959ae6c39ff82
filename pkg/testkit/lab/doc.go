// Package lab starts and stops real Kubernetes control planes on one machine,
// for integration tests, end-to-end tests and demonstrations.
//
// A lab cluster is an etcd, a kube-apiserver, a kube-controller-manager and a
// kube-scheduler that run as plain processes on loopback, and kwok, which
// plays the nodes: it needs no root, no containers and no network. The
// programs are compiled from their modules (folder e2e/kube) the first time
// they are needed and kept in a cache.
//
// All that is known of a cluster stands in one folder: its settings and ports
// (cluster.json), certificates (pki), processes (process), logs (log), data
// (etcd) and, on request, the audit log. No process holds state of its own, so
// a cluster outlives the one that started it and can be found, mended and
// taken down by any other.
//
//	Binaries   builds the programs once, under a lock
//	Up         brings a cluster up, or back up; Down removes it
//	StartT     does both for one test, and leaves nothing behind
//	Command    runs a program of ours as one more process of a cluster
//
// Processes are told from strangers by pid and start time together, so a pid
// that the kernel gave to another process since is never signalled.
//
// What it won't do: other systems than Linux, real nodes (pods here are
// statuses, nothing runs), high availability, networks between pods. Ports are
// fixed per cluster, so that an apiserver that went away comes back under the
// address that its clients know.
package lab
