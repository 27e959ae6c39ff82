// Package capi follows the Clusters of Cluster API on the hub, for members that Cluster API made.
//
// It only reads: Clusters in the namespaces that the chart allows, and the CRD of that kind, which tells when Clusters begin and
// cease to be served. So Cluster API may be installed, upgraded and removed while the hub runs. It connects to no member: the
// kubeconfig that Cluster API writes goes through the same checks and the same connection as any other, in hub/cluster.
//
// Clusters are read as unstructured objects, in the version that is served. So the hub does not depend on a version of Cluster
// API, and its program has none of its modules; module e2e/capi tests the reading with Cluster API's own types. See
// docs/decisions/0018.
package capi
