package agent

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// connection is a cluster as seen by a process in the world.
type connection struct {
	cluster.Cluster

	cached client.Client
	live   client.Reader
}

func (c connection) GetClient() client.Client       { return c.cached }
func (c connection) GetAPIReader() client.Reader    { return c.live }
func (c connection) GetCache() cache.Cache          { return cacheReader{Reader: c.cached} }
func (c connection) GetRESTMapper() meta.RESTMapper { return c.cached.RESTMapper() }

// cacheReader is the reading part of a cache.
type cacheReader struct {
	cache.Cache
	client.Reader
}

func (r cacheReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return r.Reader.Get(ctx, key, o, opts...)
}

func (r cacheReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.Reader.List(ctx, list, opts...)
}
