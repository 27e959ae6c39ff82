package capi

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/flotilla-io/flotilla/hub/crd"
)

// Clusters knows the phases of the Clusters in some namespaces. Start runs only in the leader, and watches them until its context ends.
// Clusters is safe for concurrent use.
type Clusters struct {
	hub        cluster.Cluster
	namespaces []string
	// changed is called when the phase of a Cluster has changed. The key is empty if any phase may have changed.
	changed func(context.Context, client.ObjectKey)

	mu sync.RWMutex
	// asked is true once it is known whether Clusters are served. version is the version that is read, or "".
	asked   bool
	version string
	synced  bool
	phases  map[client.ObjectKey]Phase
}

// New returns the Clusters in the given namespaces of a hub. The hub's scheme must include CustomResourceDefinitions
// and the types of AddToScheme.
func New(hub cluster.Cluster, namespaces []string, changed func(context.Context, client.ObjectKey)) *Clusters {
	return &Clusters{hub: hub, namespaces: namespaces, changed: changed, phases: map[client.ObjectKey]Phase{}}
}

// NeedLeaderElection returns true: only the leader acts on Clusters.
func (c *Clusters) NeedLeaderElection() bool { return true }

// Phase returns the phase of a Cluster according to the watch.
func (c *Clusters) Phase(key client.ObjectKey) Phase {
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch phase, found := c.phases[key]; {
	case !slices.Contains(c.namespaces, key.Namespace):
		return NotAllowed
	case c.asked && c.version == "":
		return NotServed
	case !c.synced:
		return Unread
	case !found:
		return NotFound
	default:
		return phase
	}
}

// Gone reports whether a Cluster that was being deleted no longer exists. It asks the apiserver, since a cache is no proof. Another Cluster
// may have the same name.
func (c *Clusters) Gone(ctx context.Context, key client.ObjectKey) (bool, error) {
	c.mu.RLock()
	version := c.version
	c.mu.RUnlock()
	if version == "" || !slices.Contains(c.namespaces, key.Namespace) {
		return false, nil
	}
	live := newCluster(version)
	err := c.hub.GetAPIReader().Get(ctx, key, live)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("get Cluster %s: %w", key, err)
	}
	return live.GetDeletionTimestamp() == nil, nil
}

// Start watches the Clusters while they are served.
func (c *Clusters) Start(ctx context.Context) error {
	return crd.Watch[client.Object]{
		Hub: c.hub, CRD: CRD, Kind: clusterv1.GroupVersion.WithKind(clusterv1.ClusterKind).GroupKind(), Versions: Versions(), New: newCluster,
		Namespaces: c.namespaces, Transform: stripCluster, Served: c.reset, Seen: c.observe, Synced: c.sync,
	}.Start(ctx)
}

// reset forgets all Clusters, because they are read in a different version from now on.
func (c *Clusters) reset(ctx context.Context, version string) {
	c.mu.Lock()
	c.asked, c.version, c.synced = true, version, false
	clear(c.phases)
	c.mu.Unlock()
	c.changed(ctx, client.ObjectKey{})
}

// sync is called when all Clusters have been read.
func (c *Clusters) sync(ctx context.Context) {
	c.mu.Lock()
	c.synced = true
	c.mu.Unlock()
	c.changed(ctx, client.ObjectKey{})
}

// observe stores the phase of a Cluster.
func (c *Clusters) observe(ctx context.Context, o client.Object, exists bool) {
	key := client.ObjectKeyFromObject(o)
	c.mu.Lock()
	before, had := c.phases[key]
	var after Phase
	if exists {
		after = phaseOf(o)
		c.phases[key] = after
	} else {
		delete(c.phases, key)
	}
	same := had == exists && before == after
	c.mu.Unlock()
	if !same {
		c.changed(ctx, key)
	}
}
