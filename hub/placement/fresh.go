package placement

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// freshPage is how many objects one request of Fresh lists.
	freshPage = 500
	// freshRetry is how often Fresh checks whether the cache has caught up.
	freshRetry = 100 * time.Millisecond
)

// Fresh is a source without events. It holds a controller back until the cache shows everything that the apiserver had when the controller
// started. A synced cache may still be older than the last writes of a previous leader, whose grants would be given a second time (I3).
// Controllers may share it.
type Fresh struct {
	// Cache is the manager's client. Live reads from the apiserver.
	Cache, Live client.Reader
	// Scheme knows the types in Lists, which are empty lists of the kinds to wait for.
	Scheme *runtime.Scheme
	Lists  []client.ObjectList
	// Options restrict what is read from the apiserver, in the same way as the cache is restricted; nil means everything.
	Options []client.ListOption

	mu   sync.Mutex
	done bool
}

// Start implements source.Source.
func (*Fresh) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

// WaitForSync implements source.SyncingSource. It waits until ctx ends, which happens after the controller's CacheSyncTimeout.
func (f *Fresh) WaitForSync(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		return nil
	}
	for _, list := range f.Lists {
		if err := f.wait(ctx, list); err != nil {
			return err
		}
	}
	f.done = true
	return nil
}

// wait waits for the objects of one kind.
func (f *Fresh) wait(ctx context.Context, list client.ObjectList) error {
	is, at, err := f.versions(ctx, list)
	if err != nil {
		return err
	}
	last := 0
	err = wait.PollUntilContextCancel(ctx, freshRetry, true, func(ctx context.Context) (bool, error) {
		behind, err := f.behind(ctx, list, is, at)
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
func (f *Fresh) versions(ctx context.Context, list client.ObjectList) (is map[types.UID]string, at string, err error) {
	gvk, err := apiutil.GVKForObject(list, f.Scheme)
	if err != nil {
		return nil, "", fmt.Errorf("name the kind of %T: %w", list, err)
	}
	is = map[types.UID]string{}
	page := &metav1.PartialObjectMetadataList{}
	for {
		next := page.Continue
		page = &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(gvk)
		if err := f.Live.List(ctx, page, append([]client.ListOption{client.Limit(freshPage), client.Continue(next)}, f.Options...)...); err != nil {
			return nil, "", fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for i := range page.Items {
			is[page.Items[i].UID] = page.Items[i].ResourceVersion
		}
		if page.Continue == "" {
			return is, page.ResourceVersion, nil
		}
	}
}

// behind returns how many objects are older than is in the cache, or are still in the cache although they are gone. Objects that are missing
// from the cache count too, unless they have been deleted since.
func (f *Fresh) behind(ctx context.Context, list client.ObjectList, is map[types.UID]string, at string) (int, error) {
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
		least, exists := is[o.GetUID()]
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
	if missing := len(is) - shown; missing > 0 && behind == 0 {
		now, _, err := f.versions(ctx, list)
		if err != nil {
			return 0, err
		}
		for uid := range is {
			if _, exists := now[uid]; !exists {
				missing--
			}
		}
		behind += max(missing, 0)
	}
	return behind, nil
}
