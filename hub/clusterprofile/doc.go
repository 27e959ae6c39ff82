// Package clusterprofile publishes MemberClusters as ClusterProfiles of SIG Multicluster (KEP-4322), in one namespace of the hub, while the
// hub serves that kind. Tools that know the standard can then find the clusters of the fleet.
//
// A ClusterProfile has the name of its MemberCluster. One with that name that belongs to another cluster manager is left alone. No
// credentials are published: status.accessProviders is left to the provider of the access.
package clusterprofile
