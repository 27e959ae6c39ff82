package scaletarget

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fakeCache has the ConfigMap of white lists, and counts the handlers of informers.
type fakeCache struct {
	cache.Cache
	lists     map[string]string // nil means that there is no ConfigMap
	informers map[schema.GroupVersionKind]*fakeInformer
}

func (c *fakeCache) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if c.lists == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
	}
	o.(*corev1.ConfigMap).Data = c.lists
	return nil
}

func (c *fakeCache) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	kind := o.GetObjectKind().GroupVersionKind()
	if c.informers[kind] == nil {
		c.informers[kind] = &fakeInformer{}
	}
	return c.informers[kind], nil
}

func (c *fakeCache) RemoveInformer(_ context.Context, o client.Object) error {
	delete(c.informers, o.GetObjectKind().GroupVersionKind())
	return nil
}

type fakeInformer struct {
	cache.Informer
	handlers int
}

func (i *fakeInformer) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handlers++
	return nil, nil
}

func (i *fakeInformer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error {
	i.handlers--
	return nil
}

func (i *fakeInformer) HasSynced() bool { return true }

func TestAKindIsWatchedForEachListThatHasIt(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: "game.kruise.io", Version: "v1alpha1", Kind: "GameServerSet"}
	const list = `{"workloads":[{"Group":"game.kruise.io","Version":"v1alpha1","Kind":"GameServerSet"}]}`
	both := map[string]string{KeyPersistentPodState: list, KeyWorkloadSpread: list}
	c := &fakeCache{lists: both, informers: map[schema.GroupVersionKind]*fakeInformer{}}
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	one, two := NewWatcher(c, "flotilla-system", KeyPersistentPodState, clk), NewWatcher(c, "flotilla-system", KeyWorkloadSpread, clk)
	sync := func(all ...*Watcher) {
		for _, w := range all {
			require.True(t, w.syncWatches(t.Context()))
		}
	}
	sync(one, two, one, two)
	require.Equal(t, 2, c.informers[kind].handlers, "each has one handler")

	c.lists = map[string]string{KeyWorkloadSpread: list}
	sync(one, two)
	require.Equal(t, 1, c.informers[kind].handlers, "the other one still needs it")
	require.False(t, one.Watched(kind))
	require.True(t, two.Watched(kind))

	c.lists = both
	sync(one, two)
	c.lists = nil // The ConfigMap is deleted and created again, which only one of them notices.
	sync(one)
	require.Empty(t, c.informers)
	c.lists = both
	sync(one, two)
	require.Equal(t, 2, c.informers[kind].handlers, "the other one follows the new watch")
}
