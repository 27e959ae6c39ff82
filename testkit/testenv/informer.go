package testenv

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// informer returns an informer that doesn't show the namespaces of other Envs. The namespaces of an Env are created while its managers run,
// so cache options can't list them.
func (s *Env) informer(
	from toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	all := toolscache.ToListerWatcherWithContext(from)
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := all.ListWithContext(ctx, o)
			if err != nil {
				return nil, err
			}
			items, err := meta.ExtractList(list)
			if err != nil {
				return nil, err
			}
			var own []runtime.Object
			for _, item := range items {
				if s.isVisible(item) {
					own = append(own, item)
				}
			}
			return list, meta.SetList(list, own)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := all.WatchWithContext(ctx, o)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) { return e, s.isVisible(e.Object) }), nil
		},
	}, example, resync, indexers)
}

// isVisible reports whether an object has no namespace, such as a bookmark, or is in one of the Env's namespaces.
func (s *Env) isVisible(o runtime.Object) bool {
	m, err := meta.Accessor(o)
	return err != nil || m.GetNamespace() == "" || strings.HasPrefix(m.GetNamespace(), s.name+"-")
}
