package link

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/kindwatch"
)

// Field managers of server-side apply.
const (
	// AgentManager is the field manager of an agent, in members and on the hub.
	AgentManager = "flotilla-agent"
	// HubManager is the field manager of the hub in the status of a MemberCluster.
	HubManager = "flotilla-hub"
)

// AnnotationClusterUID is an annotation on a certificate request. Written by the requesting agent; read by the approver, which compares it with
// spec.identity.clusterUID. Form: the UID of the member's namespace kube-system.
const AnnotationClusterUID = "fleet.kruise.io/cluster-uid"

// AnnotationRelease is an annotation on the Membership in a pull member. Written by an administrator of the member, for a hub that the agent can
// no longer reach; read by the agent while it has no usable certificate. Form: Orphan or Delete, which decides what happens to the placed
// objects.
const AnnotationRelease = "fleet.kruise.io/release"

// AnnotationUnclaimed is an annotation on the Membership. Written by an administrator of the member, to decide about objects that were applied
// for rows that the hub doesn't have; the agent removes it when that is done. Form: Orphan or Delete.
const AnnotationUnclaimed = "fleet.kruise.io/unclaimed"

// Keys of the ConfigMap that the hub leaves for a member that was unreachable when it left. It contains no secrets.
const (
	// TombstonePolicy is what happens to the placed objects: Orphan or Delete.
	TombstonePolicy = "policy"
	// TombstoneCluster is the member's name on the hub.
	TombstoneCluster = "cluster"
	// TombstoneUID is the UID of the MemberCluster that left; a member that has joined again in the meantime ignores the tombstone.
	TombstoneUID = "memberClusterUID"
	// TombstoneHubUID is the hub that left the tombstone; an agent acts only on tombstones from its hub.
	TombstoneHubUID = "hubUID"
	// TombstoneEpoch is the epoch of that hub. The hub keeps it up to date. An agent that has seen a higher one deletes nothing.
	TombstoneEpoch = "epoch"
)

// RaiseEpoch says what to do if a member has seen a higher epoch than its hub has now.
const RaiseEpoch = "if it is the right hub, raise the epoch in its ConfigMap " + fleetv1alpha1.SystemNamespace + "/" + fleetv1alpha1.EpochConfigMap

// EpochError means that an agent keeps what a tombstone asks to delete, because the tombstone's epoch is lower than one that the member has
// seen, or missing.
type EpochError struct {
	// Seen is the highest epoch that the member has seen.
	Seen int64
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("nothing is deleted, because the member has seen epoch %d and the ConfigMap has a lower one or none, as after the hub was "+
		"restored from a backup; %s, or set policy in this ConfigMap to %s", e.Seen, RaiseEpoch, fleetv1alpha1.LeaveOrphan)
}

// ErrLeft is the error with which an agent ends when its cluster has left the hub: the binding is removed and nothing is left to do. Don't start
// the agent again before the cluster joins again.
var ErrLeft = errors.New("this cluster has left its hub")

// Link is one connection between a hub and a member. Its creator starts both clusters (their caches) and stops them after the agent has
// returned. All fields are required unless stated otherwise. None is changed after the start, and their values may be used concurrently.
type Link struct {
	// Cluster is the MemberCluster's name on the hub.
	Cluster string
	// URL is the hub's address as seen from the member; empty in mode Push.
	URL string
	// Identity is the holder of the member's Lease: the process that runs the agent, in readable form.
	Identity string
	// Version is the version of the program that runs the agent.
	Version string
	// Namespaces limits where the hub may place objects, as decided by the member's administrator. It is empty in mode Push: there a policy in the
	// member's chart enforces it.
	Namespaces NamespaceLimits
	// Resources are the resources that the hub may place, decided in the same way. It is nil in mode Push: there the agent's account has no rights
	// for others.
	Resources *ResourceLimits
	// Left: the hub has removed the cluster without hearing from it. The agent only acts on the tombstone and ends with ErrLeft. It doesn't read
	// its MemberCluster, which may be a different one with the same name.
	Left bool

	// Hub is the connection to the hub. Its cache has at least the objects in HubCache. In mode Push it is the hub manager's own and has other
	// members' rows too, which an agent ignores. Its scheme knows apis/fleet and the Kubernetes kinds.
	Hub cluster.Cluster
	// Follow makes changes of the member's own objects of a kind, its rows or its MemberCluster, enqueue requests until ctx ends. Nil in mode Pull,
	// where Hub's cache has no other objects.
	Follow func(ctx context.Context, object client.Object, q kindwatch.Queue, keys kindwatch.Keys) error
	// Member is the connection to the member. Its scheme knows apis/fleet and the Kubernetes kinds.
	Member cluster.Cluster
	// Events sends events about objects in the member to the member.
	Events event.Recorder
	// Clock returns the time. It only measures durations, which are never compared with another machine's time.
	Clock clock.WithTicker

	// Credential describes the certificate in use, for the MemberCluster's status. Nil in mode Push; may return nil.
	Credential func() *fleetv1alpha1.CredentialStatus
	// Throttle limits the agent's requests to Member; the agent applies the limits from its MemberCluster. Nil in mode Push, where the hub opens a
	// new connection when the limits change.
	Throttle *Throttle
}

// Namespace is the member's namespace on the hub.
func (l Link) Namespace() string { return fleetv1alpha1.Namespace(l.Cluster) }

// HubCache limits a cache of the hub to what a pull member may list: its own rows and its own MemberCluster.
func HubCache(name string) cache.Options {
	own := map[string]cache.Config{fleetv1alpha1.Namespace(name): {}}
	return cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&fleetv1alpha1.MemberWork{}:    {Namespaces: own},
			&fleetv1alpha1.MemberCluster{}: {Field: fields.OneTermEqualSelector("metadata.name", name)},
		},
		DefaultNamespaces: own,
	}
}
