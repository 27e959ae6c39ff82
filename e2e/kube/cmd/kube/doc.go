// Kube is Kubernetes in one file: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl and kwok. Its own
// file name determines which program it acts as, so a folder of links to it works like a folder of programs. If it is called "kube", its first
// argument names the program.
//
// The programs are in one file because they share nearly all of their code: separate files would be three times as large and take three times
// as long to link.
//
// It calls the programs' own main functions and adds or patches nothing, so tests see the behavior of a real cluster.
package main
