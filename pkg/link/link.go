package link

import (
	"errors"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/event"
)

// Field managers of server-side apply.
const (
	// AgentManager is who an agent is, in members and on the hub.
	AgentManager = "flotilla-agent"
	// HubManager is who the hub is in the status of a MemberCluster.
	HubManager = "flotilla-hub"
)

// AnnotationClusterUID is an annotation on a certificate request. Written by the agent that asks; read by the approver,
// which compares it with spec.identity.clusterUID. Form: the UID of the member's namespace kube-system.
const AnnotationClusterUID = "fleet.kruise.io/cluster-uid"

// AnnotationRelease is an annotation on the Membership in a pull member. Written by an administrator of the member, for a
// hub that the agent has no way to any more; read by the agent while it has no usable certificate. Form: Orphan or
// Delete, what becomes of the placed objects.
const AnnotationRelease = "fleet.kruise.io/release"

// Keys of the ConfigMap that the hub leaves for a member that was away while it left. It holds no secret.
const (
	// TombstonePolicy is what becomes of the placed objects: Orphan or Delete.
	TombstonePolicy = "policy"
	// TombstoneCluster is the member's name at the hub.
	TombstoneCluster = "cluster"
	// TombstoneHubUID is the hub that left it; an agent obeys for lines of that hub only.
	TombstoneHubUID = "hubUID"
)

// ErrLeft is what an agent ends with when its cluster has left the hub: the binding is removed and nothing is left to do.
// Whoever runs the agent does not start it again until it is told to join anew.
var ErrLeft = errors.New("this cluster has left its hub")

// Link is one connection between a hub and a member. Whoever makes it starts both clusters (their caches) and stops
// them after the agent has returned. All fields are required unless said otherwise; none is changed after the start, and
// what they hold may be used concurrently.
type Link struct {
	// Cluster is the MemberCluster's name on the hub.
	Cluster string
	// URL is the hub's address as the member sees it; empty in mode Push.
	URL string
	// Identity is who holds the member's Lease: the process that runs the agent, for people.
	Identity string
	// Version is the version of the program that runs the agent.
	Version string
	// Left says that the hub has let the cluster go without an answer. The agent obeys the tombstone and ends with ErrLeft;
	// it does nothing else, and does not look for a MemberCluster, of which there may be another one by that name.
	Left bool

	// Hub reaches the hub. Its cache holds at least what HubCache says; in mode Push it is the hub manager's own and
	// holds other members' rows too, which an agent reconciles of. Its scheme knows apis/fleet and Kubernetes' own kinds.
	Hub cluster.Cluster
	// Member reaches the member. Its scheme knows apis/fleet and Kubernetes' own kinds.
	Member cluster.Cluster
	// Events sends events about objects in the member, to the member.
	Events event.Recorder
	// Clock tells the time; only durations on it count, never another machine's time.
	Clock clock.WithTicker

	// Credential describes the certificate in use, for the MemberCluster's status. Nil in mode Push; may return nil.
	Credential func() *fleetv1alpha1.CredentialStatus
	// Throttle bounds the agent's requests to Member; the agent sets it to what its MemberCluster says. Nil in mode Push, where
	// the hub makes the connection anew when the limits change.
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
