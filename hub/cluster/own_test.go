package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// held is a cache that contains these objects.
type held struct {
	cache.Cache
	client.Reader
}

func (h held) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return h.Reader.Get(ctx, key, o, opts...)
}

func (h held) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return h.Reader.List(ctx, l, opts...)
}

func TestTheAgentOfAPushMemberSeesItsOwnRowsAndItsOwnCluster(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	row := func(cluster, name string) *fleetv1alpha1.MemberWork {
		return &fleetv1alpha1.MemberWork{ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.Namespace(cluster), Name: name}}
	}
	mc := func(name string) *fleetv1alpha1.MemberCluster {
		return &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	informers := &informertest.FakeInformers{Scheme: scheme}
	own := newOwnChanges(held{informers, fake.NewClientBuilder().WithScheme(scheme).WithObjects(row("east", "a"), row("west", "b"), mc("east")).Build()})
	follow := func(cluster string, o client.Object) func() []string {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour))
		t.Cleanup(q.ShutDown)
		require.NoError(t, own.follower(cluster)(t.Context(), o, q, func(_ context.Context, before, after client.Object) []client.ObjectKey {
			if after == nil {
				after = before
			}
			return []client.ObjectKey{client.ObjectKeyFromObject(after)}
		}))
		return func() (out []string) {
			for q.Len() > 0 {
				r, _ := q.Get()
				q.Done(r)
				out = append(out, r.String())
			}
			return out
		}
	}
	eastRows, westRows := follow("east", &fleetv1alpha1.MemberWork{}), follow("west", &fleetv1alpha1.MemberWork{})
	east, north := follow("east", &fleetv1alpha1.MemberCluster{}), follow("north", &fleetv1alpha1.MemberCluster{})
	require.Equal(t, []string{"fleet-east/a"}, eastRows())
	require.Equal(t, []string{"fleet-west/b"}, westRows())
	require.Equal(t, []string{"/east"}, east())
	require.Empty(t, north())

	rows, err := informers.FakeInformerFor(t.Context(), &fleetv1alpha1.MemberWork{})
	require.NoError(t, err)
	clusters, err := informers.FakeInformerFor(t.Context(), &fleetv1alpha1.MemberCluster{})
	require.NoError(t, err)
	rows.Add(row("east", "c"))
	rows.Update(row("west", "b"), row("west", "b"))
	clusters.Add(mc("north"))
	clusters.Delete(mc("east"))
	require.Equal(t, []string{"fleet-east/c"}, eastRows())
	require.Equal(t, []string{"fleet-west/b"}, westRows())
	require.Equal(t, []string{"/east"}, east())
	require.Equal(t, []string{"/north"}, north())
}
