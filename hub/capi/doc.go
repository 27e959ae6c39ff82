// Package capi follows the Clusters of Cluster API on the hub, for members that Cluster API created.
//
// It only reads. It reads Clusters in the namespaces that the chart allows, and their CRD, which tells when Clusters start and stop being
// served. Cluster API may therefore be installed, upgraded and removed while the hub runs. The package connects to no member: the kubeconfig
// that Cluster API writes goes through the same checks and the same connection as any other, in hub/cluster.
//
// Clusters are read with the Go types of Cluster API, in the version that is served. See docs/decisions/0018.
package capi
