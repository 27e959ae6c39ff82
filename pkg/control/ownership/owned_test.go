package ownership

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// podOn returns a pod on a node, with an owner of that kind and name; without one if the kind is empty.
func podOn(node, name, apiVersion, kind, owner string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: owner, UID: types.UID(owner), Controller: new(true)}}
	}
	return p
}

func TestGet(t *testing.T) {
	t.Parallel()
	c := fake.NewClientBuilder().WithObjects(podOn("n1", "web", "", "", "")).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if key.Name == "far" {
				return errors.New("no answer")
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	for _, tc := range []struct {
		name  string
		found bool
		err   string
	}{
		{name: "web", found: true},
		{name: "gone"},
		{name: "far", err: "get *v1.Pod shop/far: no answer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{}
			found, err := Get(t.Context(), c, types.NamespacedName{Namespace: "shop", Name: tc.name}, pod)
			require.Equal(t, tc.found, found)
			require.Equal(t, tc.found, pod.Name != "")
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestWorkloadsWithPodsOnANode(t *testing.T) {
	t.Parallel()
	kind := appsv1beta1.GroupVersion.WithKind("CloneSet")
	cache := fake.NewClientBuilder().WithIndex(&corev1.Pod{}, NodeIndex, func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	}).WithObjects(
		podOn("n1", "web-a", "apps.kruise.io/v1beta1", "CloneSet", "web"),
		podOn("n1", "web-b", "apps.kruise.io/v1alpha1", "CloneSet", "web"),
		podOn("n1", "db-a", "apps.kruise.io/v1beta1", "CloneSet", "db"),
		podOn("n1", "agent", "apps.kruise.io/v1beta1", "DaemonSet", "agent"),
		podOn("n1", "single", "", "", ""),
		podOn("n2", "far", "apps.kruise.io/v1beta1", "CloneSet", "far"),
	).Build()
	requests := func(names ...string) (out []ctrl.Request) {
		for _, name := range names {
			out = append(out, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: name}})
		}
		return out
	}
	require.ElementsMatch(t, requests("web", "db"), RequestsForNode(cache, kind)(t.Context(), "n1"),
		"each workload once, whichever version of it is named")
	require.Empty(t, RequestsForNode(cache, kind)(t.Context(), "n3"))
}

func TestEventsEnqueueTheControllerOfAKind(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer q.ShutDown()
	h := EnqueueController(appsv1beta1.GroupVersion.WithKind("CloneSet"))
	ofWeb, ofDB := podOn("n1", "a", "apps.kruise.io/v1alpha1", "CloneSet", "web"), podOn("n1", "a", "apps.kruise.io/v1beta1", "CloneSet", "db")
	shared := podOn("n1", "b", "apps.kruise.io/v1beta1", "CloneSet", "cache")
	shared.OwnerReferences[0].Controller = nil
	h.Create(t.Context(), event.CreateEvent{Object: podOn("n1", "c", "apps.kruise.io/v1beta1", "DaemonSet", "agent")}, q)
	h.Create(t.Context(), event.CreateEvent{Object: podOn("n1", "c", "apps/v1", "CloneSet", "other")}, q)
	h.Create(t.Context(), event.CreateEvent{Object: podOn("n1", "d", "", "", "")}, q)
	h.Delete(t.Context(), event.DeleteEvent{Object: shared}, q)
	require.Zero(t, q.Len(), "another kind, another group, no controller, an owner that isn't the controller")

	h.Update(t.Context(), event.UpdateEvent{ObjectOld: ofWeb, ObjectNew: ofDB}, q)
	require.Equal(t, 2, q.Len(), "a pod that changes its controller concerns both")
	first, _ := q.Get()
	require.Equal(t, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}, first)
}

func TestRequestsForWithoutACache(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	cache := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
			return errors.New("no cache")
		},
	}).Build()
	require.Empty(t, RequestsForNode(cache, appsv1beta1.GroupVersion.WithKind("CloneSet"))(t.Context(), "n1"))
	require.Empty(t, RequestsFor(t.Context(), cache, &appsv1beta1.CloneSetList{}, "shop", func(*appsv1beta1.CloneSet) bool { return true }))
}

func TestRequestsForANamespace(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
		&appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}},
		&appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "web"}},
	).Build()
	web := func(set *appsv1beta1.CloneSet) bool { return set.Name == "web" }
	names := func(namespace string) (out []string) {
		for _, req := range RequestsFor(t.Context(), cache, &appsv1beta1.CloneSetList{}, namespace, web) {
			out = append(out, req.String())
		}
		return out
	}
	require.Equal(t, []string{"shop/web"}, names("shop"))
	require.ElementsMatch(t, []string{"shop/web", "other/web"}, names(metav1.NamespaceAll))
}
