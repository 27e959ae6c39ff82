// Kube is Kubernetes in one file: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl and
// kwok. It acts as the program that its own file name says, so a folder of
// links to it is a folder of programs; called as "kube", its first argument
// names the program.
//
// One file instead of eight because the programs share nearly all of their
// code: apart they would be three times as large and take three times as long
// to link.
//
// The main functions here are those of the programs themselves, nothing is
// added or patched: what a test sees is what a cluster does.
package main
