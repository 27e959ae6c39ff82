// Package daemonset runs DaemonSets of apps.kruise.io: one pod on each node that fits.
//
//	webhook.go   defaults and validation
package daemonset
