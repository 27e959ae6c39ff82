package capi

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// Clusters knows the phases of the Clusters in some namespaces. Start, in the leader only, watches them until its context ends.
// It may be used concurrently.
type Clusters struct {
	hub        cluster.Cluster
	namespaces []string
	// changed is called when the phase of a Cluster has changed, and with an empty key when that of any may have.
	changed func(context.Context, client.ObjectKey)

	mu sync.RWMutex
	// asked: it is known whether Clusters are served. version is the one that is read, or "".
	asked   bool
	version string
	synced  bool
	phases  map[client.ObjectKey]Phase
}

// New returns the Clusters in namespaces of a hub whose scheme has CustomResourceDefinitions.
func New(hub cluster.Cluster, namespaces []string, changed func(context.Context, client.ObjectKey)) *Clusters {
	return &Clusters{hub: hub, namespaces: namespaces, changed: changed, phases: map[client.ObjectKey]Phase{}}
}

// NeedLeaderElection is true: only the leader acts on Clusters.
func (c *Clusters) NeedLeaderElection() bool { return true }

// Phase returns the phase of a Cluster, as the watch shows it.
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

// Gone reports whether a Cluster that was being deleted does not exist any more, as the apiserver answers: a cache is no proof.
// Another Cluster may have its name.
func (c *Clusters) Gone(ctx context.Context, key client.ObjectKey) (bool, error) {
	c.mu.RLock()
	version := c.version
	c.mu.RUnlock()
	if version == "" || !slices.Contains(c.namespaces, key.Namespace) {
		return false, nil
	}
	u := newCluster(version)
	err := c.hub.GetAPIReader().Get(ctx, key, u)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("get Cluster %s: %w", key, err)
	}
	return u.GetDeletionTimestamp() == nil, nil
}

// Start watches the CRD, and the Clusters while it serves them.
func (c *Clusters) Start(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	crds, stop, err := c.watch(ctx, &apiextensionsv1.CustomResourceDefinition{}, cache.Options{
		Scheme: c.hub.GetScheme(), Mapper: c.hub.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&apiextensionsv1.CustomResourceDefinition{}: {
			Field: fields.OneTermEqualSelector(metav1.ObjectNameField, CRD), Transform: stripCRD,
		}},
	}, func(client.Object, bool) {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("watch CustomResourceDefinition %s: %w", CRD, err)
	}
	defer stop()
	if !crds.WaitForCacheSync(ctx) {
		return nil
	}
	running, end := "", func() {}
	defer func() { end() }()
	for first := true; ; first = false {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := crds.Get(ctx, client.ObjectKey{Name: CRD}, crd); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get CustomResourceDefinition %s: %w", CRD, err)
		}
		if version := served(crd); first || version != running {
			end()
			running = version
			if end, err = c.follow(ctx, version); err != nil {
				return fmt.Errorf("watch Clusters: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
	}
}

// follow begins to watch the Clusters in a version, or none for "". The returned function ends that and waits.
func (c *Clusters) follow(ctx context.Context, version string) (end func(), err error) {
	c.reset(ctx, version)
	if version == "" {
		return func() {}, nil
	}
	u := newCluster(version)
	// The mapper is fixed, because discovery may lag behind the CRD. Until the version is served the watch tries again.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(u.GroupVersionKind(), meta.RESTScopeNamespace)
	in := map[string]cache.Config{}
	for _, namespace := range c.namespaces {
		in[namespace] = cache.Config{}
	}
	sub, cancel := context.WithCancel(ctx)
	clusters, stop, err := c.watch(sub, u, cache.Options{
		Scheme: c.hub.GetScheme(), Mapper: mapper, DefaultNamespaces: in, DefaultTransform: stripCluster,
	}, func(o client.Object, exists bool) { c.note(sub, o, exists) })
	if err != nil {
		cancel()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if clusters.WaitForCacheSync(sub) {
			c.sync(sub)
		}
	}()
	return func() { cancel(); stop(); <-done }, nil
}

// watch runs a cache of one kind in the background. seen is called with each object that was read, and with false for one that is
// gone. stop ends the cache and waits.
func (c *Clusters) watch(ctx context.Context, kind client.Object, o cache.Options, seen func(o client.Object, exists bool)) (
	cache.Cache, func(), error,
) {
	o.HTTPClient = c.hub.GetHTTPClient()
	one, err := cache.New(c.hub.GetConfig(), o)
	if err != nil {
		return nil, nil, err
	}
	informer, err := one.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, nil, err
	}
	call := func(raw any, exists bool) {
		if late, ok := raw.(toolscache.DeletedFinalStateUnknown); ok {
			raw = late.Obj
		}
		if o, ok := raw.(client.Object); ok {
			seen(o, exists)
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { call(o, true) }, UpdateFunc: func(_, o any) { call(o, true) }, DeleteFunc: func(o any) { call(o, false) },
	}); err != nil {
		return nil, nil, err
	}
	sub, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := one.Start(sub); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Ended a watch for Cluster API")
		}
	}()
	return one, func() { cancel(); <-done }, nil
}

// reset forgets all Clusters, because they are read in another version from now on.
func (c *Clusters) reset(ctx context.Context, version string) {
	c.mu.Lock()
	c.asked, c.version, c.synced = true, version, false
	clear(c.phases)
	c.mu.Unlock()
	ctrl.LoggerFrom(ctx).Info("Reads Clusters of Cluster API", "version", version, "namespaces", c.namespaces)
	c.changed(ctx, client.ObjectKey{})
}

// sync is called when all Clusters were read.
func (c *Clusters) sync(ctx context.Context) {
	c.mu.Lock()
	c.synced = true
	c.mu.Unlock()
	c.changed(ctx, client.ObjectKey{})
}

// note takes the phase of a Cluster.
func (c *Clusters) note(ctx context.Context, o client.Object, exists bool) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(u)
	c.mu.Lock()
	before, had := c.phases[key]
	var after Phase
	if exists {
		after = PhaseOf(u)
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
