package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestAnInformerShowsTheEnvsNamespacesAndClusterScopedObjects(t *testing.T) {
	t.Parallel()
	pod := func(namespace, name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "1"}}
	}
	events := watch.NewFakeWithChanSize(4, false)
	events.Add(pod("tb-1", "later-of-another"))
	events.Add(pod("ta-2", "later"))
	events.Add(pod("", "without"))
	s := &Env{name: "ta"}
	i := s.informer(&toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.PodList{Items: []corev1.Pod{*pod("tab-1", "alike"), *pod("ta-1", "first"), *pod("default", "stray")}}, nil
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil { // Like an apiserver without streamed lists.
				return nil, context.Canceled
			}
			return events, nil
		},
	}, &corev1.Pod{}, 0, toolscache.Indexers{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.RunWithContext(ctx)
	}()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.ElementsMatch(c, []string{"ta-1/first", "ta-2/later", "without"}, i.GetStore().ListKeys())
	}, Long, 10*time.Millisecond)
	stop()
	<-ended
}
