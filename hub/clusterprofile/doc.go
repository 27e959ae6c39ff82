// Package clusterprofile publishes MemberClusters as ClusterProfiles of SIG Multicluster (KEP-4322), in one namespace of the hub, while
// it serves them. So tools that know the standard find the clusters of the fleet.
//
// A ClusterProfile has the name of its MemberCluster. One of that name with another cluster manager is left alone. No credential is
// published: status.accessProviders is for whoever gives access.
package clusterprofile
