package link

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/kindwatch"
)

// Field managers of server-side apply.
const (
	// AgentManager is the field manager of an agent, in members and on the hub.
	AgentManager = "flotilla-agent"
	// HubManager is the field manager of the hub in the status of a MemberCluster.
	HubManager = "flotilla-hub"
)

// AnnotationClusterUID is an annotation on a certificate request. Written by the agent that requests it; read by the
// approver, which compares it with spec.identity.clusterUID. Form: the UID of the member's namespace kube-system.
const AnnotationClusterUID = "fleet.kruise.io/cluster-uid"

// AnnotationRelease is an annotation on the Membership in a pull member. Written by an administrator of the member,
// for a hub that the agent can't reach any more; read by the agent while it has no usable certificate. Form: Orphan
// or Delete, what happens to the placed objects.
const AnnotationRelease = "fleet.kruise.io/release"

// AnnotationUnclaimed is an annotation on the Membership. Written by an administrator of the member, to decide on objects that were
// applied for rows that the hub does not have; the agent removes it when that is done. Form: Orphan or Delete.
const AnnotationUnclaimed = "fleet.kruise.io/unclaimed"

// Keys of the ConfigMap that the hub leaves for a member that was unreachable while it left. It has no secrets.
const (
	// TombstonePolicy is what happens to the placed objects: Orphan or Delete.
	TombstonePolicy = "policy"
	// TombstoneCluster is the member's name at the hub.
	TombstoneCluster = "cluster"
	// TombstoneUID is the UID of the MemberCluster that left; a member that has joined again since ignores the tombstone.
	TombstoneUID = "memberClusterUID"
	// TombstoneHubUID is the hub that left it; an agent acts on tombstones of that hub only.
	TombstoneHubUID = "hubUID"
)

// ErrLeft is the error that an agent ends with when its cluster has left the hub: the binding is removed and nothing
// is left to do. The agent must not be started again before the cluster joins again.
var ErrLeft = errors.New("this cluster has left its hub")

// Link is one connection between a hub and a member. Its creator starts both clusters (their caches) and stops them
// after the agent has returned. All fields are required unless stated otherwise; none is changed after the start, and
// their values may be used concurrently.
type Link struct {
	// Cluster is the MemberCluster's name on the hub.
	Cluster string
	// URL is the hub's address as the member sees it; empty in mode Push.
	URL string
	// Identity is the holder of the member's Lease: the process that runs the agent, for people.
	Identity string
	// Version is the version of the program that runs the agent.
	Version string
	// Namespaces limits where the hub may place objects, by the word of the member's administrator. In mode Push it is empty: there
	// a policy of the member's chart does that.
	Namespaces NamespaceLimits
	// Resources are those of which the hub may place objects, likewise. In mode Push it is nil: there the agent's account has no rights for
	// others.
	Resources *ResourceLimits
	// Left: the hub has removed the cluster without an answer from it. The agent acts on the tombstone and ends with
	// ErrLeft; it does nothing else, and does not read its MemberCluster, which may be another one of that name.
	Left bool

	// Hub is the connection to the hub. Its cache has at least the objects of HubCache; in mode Push it is the hub manager's own
	// and has other members' rows too, which an agent ignores. Its scheme knows apis/fleet and Kubernetes' own kinds.
	Hub cluster.Cluster
	// Follow makes changes of the member's own objects of a kind, its rows or its MemberCluster, enqueue requests until ctx ends. Nil in
	// mode Pull, where Hub's cache has no others.
	Follow func(ctx context.Context, object client.Object, q kindwatch.Queue, keys kindwatch.Keys) error
	// Member is the connection to the member. Its scheme has apis/fleet and Kubernetes' own kinds.
	Member cluster.Cluster
	// Events sends events about objects in the member, to the member.
	Events event.Recorder
	// Clock returns the time; only durations are measured with it, never compared with another machine's time.
	Clock clock.WithTicker

	// Credential describes the certificate in use, for the MemberCluster's status. Nil in mode Push; may return nil.
	Credential func() *fleetv1alpha1.CredentialStatus
	// Throttle limits the agent's requests to Member; the agent sets it to the limits in its MemberCluster. Nil in mode Push,
	// where the hub opens a new connection when the limits change.
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
