package placement

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// freshPage is how many objects one request of Fresh lists.
	freshPage = 500
	// freshRetry is how often Fresh checks whether the cache has caught up.
	freshRetry = 100 * time.Millisecond
)

// Fresh holds controllers back until the cache shows everything that the apiserver had when they started. A synced cache may still be older
// than the last writes of a previous leader, whose grants would be given a second time (I3). All controllers of a manager share it, so that
// the objects of a kind are listed from the apiserver once, and not once for each controller.
type Fresh struct {
	// Cache is the manager's client. Live reads from the apiserver.
	Cache, Live client.Reader
	// Scheme knows the types of objects to wait for.
	Scheme *runtime.Scheme

	mu    sync.Mutex
	shown map[schema.GroupVersionKind]*shown
}

// shown says whether the cache has shown the objects of a kind.
type shown struct {
	// turn has the controller that waits for them.
	turn chan struct{}
	done bool
}

// Source returns a source without events that waits for the objects of these kinds, which are given as empty lists. options restrict what is
// read from the apiserver, in the same way as the cache is restricted; nil means everything.
func (f *Fresh) Source(options []client.ListOption, lists ...client.ObjectList) ctrlsource.SyncingSource {
	return &freshSource{Fresh: f, lists: lists, options: options}
}

type freshSource struct {
	*Fresh
	lists   []client.ObjectList
	options []client.ListOption
}

// Start implements source.Source.
func (*freshSource) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

// WaitForSync implements source.SyncingSource. It waits until ctx ends, which happens after the controller's CacheSyncTimeout.
func (f *freshSource) WaitForSync(ctx context.Context) error {
	for _, list := range f.lists {
		gvk, err := apiutil.GVKForObject(list, f.Scheme)
		if err != nil {
			return fmt.Errorf("name the kind of %T: %w", list, err)
		}
		kind := f.stateOf(gvk)
		select {
		case kind.turn <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("wait until the cache shows all of %T: %w", list, ctx.Err())
		}
		if !kind.done {
			err = f.waitForKind(ctx, gvk, list)
			kind.done = err == nil
		}
		<-kind.turn
		if err != nil {
			return err
		}
	}
	return nil
}

// stateOf returns what is known about the objects of a kind.
func (f *Fresh) stateOf(gvk schema.GroupVersionKind) *shown {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shown == nil {
		f.shown = map[schema.GroupVersionKind]*shown{}
	}
	if f.shown[gvk] == nil {
		f.shown[gvk] = &shown{turn: make(chan struct{}, 1)}
	}
	return f.shown[gvk]
}

// waitForKind waits for the objects of one kind.
func (f *freshSource) waitForKind(ctx context.Context, gvk schema.GroupVersionKind, list client.ObjectList) error {
	versions, at, err := f.versions(ctx, gvk)
	if err != nil {
		return err
	}
	last := 0
	err = wait.PollUntilContextCancel(ctx, freshRetry, true, func(ctx context.Context) (bool, error) {
		behind, err := f.behind(ctx, gvk, list, versions, at)
		if behind != last {
			ctrl.LoggerFrom(ctx).Info("Waiting for the cache", "kind", fmt.Sprintf("%T", list), "count", behind)
			last = behind
		}
		return behind == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait until the cache shows all of %T: %w", list, err)
	}
	return nil
}

// versions lists the resource versions of all objects of a kind on the apiserver, and the resource version of the list itself.
func (f *freshSource) versions(ctx context.Context, gvk schema.GroupVersionKind) (out map[types.UID]string, at string, err error) {
	out = map[types.UID]string{}
	page := &metav1.PartialObjectMetadataList{}
	for {
		next := page.Continue
		page = &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(gvk)
		if err := f.Live.List(ctx, page, append([]client.ListOption{client.Limit(freshPage), client.Continue(next)}, f.options...)...); err != nil {
			return nil, "", fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for i := range page.Items {
			out[page.Items[i].UID] = page.Items[i].ResourceVersion
		}
		if page.Continue == "" {
			return out, page.ResourceVersion, nil
		}
	}
}

// behind returns how many objects are older than is in the cache, or are still in the cache although they are gone. Objects that are missing
// from the cache count too, unless they have been deleted since.
func (f *freshSource) behind(
	ctx context.Context, gvk schema.GroupVersionKind, list client.ObjectList, versions map[types.UID]string, at string,
) (int, error) {
	cached := list.DeepCopyObject().(client.ObjectList)
	if err := f.Cache.List(ctx, cached, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list %T: %w", list, err)
	}
	behind, shown := 0, 0
	err := meta.EachListItem(cached, func(item runtime.Object) error {
		o, err := meta.Accessor(item)
		if err != nil {
			return fmt.Errorf("read %T: %w", item, err)
		}
		least, exists := versions[o.GetUID()]
		if exists {
			shown++
		} else {
			least = at // It is new, or was already gone.
		}
		if order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), least); err != nil {
			return fmt.Errorf("compare versions of %s: %w", o.GetName(), err)
		} else if order < 0 {
			behind++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if missing := len(versions) - shown; missing > 0 && behind == 0 {
		now, _, err := f.versions(ctx, gvk)
		if err != nil {
			return 0, err
		}
		for uid := range versions {
			if _, exists := now[uid]; !exists {
				missing--
			}
		}
		behind += max(missing, 0)
	}
	return behind, nil
}
