// Kube is a Kubernetes control plane in one file: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl and kwok. It acts as the
// program that its own file name says, so a folder of links to it is a folder
// of programs; called as "kube", its first argument names the program.
//
// One file instead of six because the programs share nearly all of their code:
// together they are 150 MB, apart they would be 400 MB and take three times as
// long to link. A node's programs (kubelet, kube-proxy) fit the same table.
//
// The main functions here are those of the programs themselves, nothing is
// added or patched: what a test sees is what a cluster does.
package main
