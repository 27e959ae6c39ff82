package persistentpodstate

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/testkit"
)

// gameServerSet returns a workload of a kind without Go types here.
func gameServerSet(annotations map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "game.kruise.io", Version: "v1", Kind: "GameServerSet"})
	o.SetNamespace(key.Namespace)
	o.SetName(key.Name)
	o.SetUID("set")
	o.SetAnnotations(annotations)
	return o
}

// cluster has an apiserver, a cache of it with the manager's indexes, and the response for a scale.
type cluster struct {
	client.WithWatch
	scales int
	scale  error
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	c := &cluster{}
	s := scheme(t)
	for _, kind := range []string{"GameServerSet", "GameServerSetList"} {
		gvk := schema.GroupVersionKind{Group: "game.kruise.io", Version: "v1", Kind: kind}
		if kind == "GameServerSet" {
			s.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
		} else {
			s.AddKnownTypeWithName(gvk, &unstructured.UnstructuredList{})
		}
	}
	inner := fake.NewClientBuilder().WithScheme(s).WithObjects(testkit.Copies(objects)...).WithStatusSubresource(&appsv1beta1.PersistentPodState{}).
		WithIndex(&appsv1beta1.PersistentPodState{}, targetIndex, targetOf).
		WithIndex(&corev1.Pod{}, ownership.NodeIndex, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&corev1.Pod{}, ownership.OwnerIndex, func(o client.Object) []string {
			if ref := metav1.GetControllerOf(o); ref != nil {
				return []string{string(ref.UID)}
			}
			return nil
		}).Build()
	c.WithWatch = interceptor.NewClient(inner, interceptor.Funcs{
		SubResourceGet: func(_ context.Context, _ client.Client, _ string, _, into client.Object, _ ...client.SubResourceGetOption) error {
			c.scales++
			if c.scale != nil {
				return c.scale
			}
			into.(*unstructured.Unstructured).Object["spec"] = map[string]any{"replicas": int64(1)}
			return nil
		},
	})
	return c
}

func (c *cluster) reconcile(t *testing.T, change func(*Reconciler)) (*appsv1beta1.PersistentPodState, []string, error) {
	t.Helper()
	var said testkit.Events
	r := reconciler(c, c, clocktesting.NewFakePassiveClock(noon), &said)
	if change != nil {
		change(r)
	}
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	pps := &appsv1beta1.PersistentPodState{}
	if c.Get(t.Context(), key, pps) != nil {
		pps = nil
	}
	return pps, said.Lines(), err
}

func gamePod(name string) *corev1.Pod {
	p := testkit.Pod(name).Node("node-1").Ready(noon).Obj()
	p.ResourceVersion = ""
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "game.kruise.io/v1", Kind: "GameServerSet", Name: "db", UID: "set", Controller: new(true)}}
	return p
}

func gameStates() *appsv1beta1.PersistentPodState {
	pps := remembering(games, func(s *appsv1beta1.PersistentPodStateSpec) { s.TargetRef.APIVersion = "game.kruise.io/v1" })
	pps.UID = "pps"
	return pps
}

func TestAWorkloadOfAListedKind(t *testing.T) {
	t.Parallel()
	node := nodes()[0]
	t.Run("its pods are recorded, and its scale determines which are wanted", func(t *testing.T) {
		t.Parallel()
		pps := gameStates()
		pps.Status.PodStates["db-1"] = appsv1beta1.PodState{NodeName: "node-2"}
		c := newCluster(t, node, listing(gameServers), gameServerSet(nil), pps, gamePod("db-0"))
		got, _, err := c.reconcile(t, nil)
		require.NoError(t, err)
		require.Equal(t, map[string]appsv1beta1.PodState{"db-0": {NodeName: "node-1", NodeTopologyLabels: map[string]string{zone: "a"}}}, got.Status.PodStates)
		require.Equal(t, 1, c.scales)
	})
	t.Run("its scale is not read while no remembered pod is gone", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, node, listing(gameServers), gameServerSet(nil), gameStates(), gamePod("db-0"))
		_, _, err := c.reconcile(t, nil)
		require.NoError(t, err)
		require.Zero(t, c.scales)
	})
	t.Run("nothing is forgotten without a scale", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, node, listing(gameServers), gameServerSet(nil), gameStates())
		c.scale = apierrors.NewNotFound(schema.GroupResource{}, "db")
		got, _, err := c.reconcile(t, nil)
		require.NoError(t, err)
		require.Contains(t, got.Status.PodStates, "db-0")
	})
	t.Run("a kind that the cache does not watch yet is read from the apiserver", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, node, listing(gameServers), gameServerSet(map[string]string{keys.AutoGeneratePersistentPodState: "true"}), gameStates(), gamePod("db-0"))
		got, said, err := c.reconcile(t, func(r *Reconciler) { r.Watched = func(schema.GroupVersionKind) bool { return false } })
		require.NoError(t, err)
		require.Equal(t, reasonRecording, got.Status.Conditions[0].Reason)
		require.Empty(t, said)
	})
	t.Run("a workload that may not be read is reported in a condition", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, node, listing(gameServers), gameStates())
		got, said, err := c.reconcile(t, func(r *Reconciler) {
			r.Watched = func(schema.GroupVersionKind) bool { return false }
			r.Live = interceptor.NewClient(c, interceptor.Funcs{
				Get: func(ctx context.Context, w client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if _, metadata := o.(*metav1.PartialObjectMetadata); metadata {
						return apierrors.NewForbidden(schema.GroupResource{Group: "game.kruise.io", Resource: "gameserversets"}, "db", errors.New("no"))
					}
					return w.Get(ctx, k, o, opts...)
				},
			})
		})
		require.NoError(t, err)
		require.Contains(t, got.Status.PodStates, "db-0", "remembered pods stay")
		require.Equal(t, reasonTargetDenied, got.Status.Conditions[0].Reason)
		require.Contains(t, got.Status.Conditions[0].Message, "add its resource to customWorkloads of the chart")
		require.Len(t, said, 1)
	})
	t.Run("a PersistentPodState is generated for it", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, listing(gameServers), gameServerSet(map[string]string{
			keys.AutoGeneratePersistentPodState: "true", keys.RequiredPersistentTopology: zone,
		}))
		got, said, err := c.reconcile(t, nil)
		require.NoError(t, err)
		require.Equal(t, "game.kruise.io/v1", got.Spec.TargetRef.APIVersion)
		require.Equal(t, []string{"GeneratedPersistentPodState: created PersistentPodState db"}, said)
	})
}

// empty returns a cache that shows no objects of a kind of workload.
func empty(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			switch o.(type) {
			case *appsv1.StatefulSet, *appsv1beta1.StatefulSet:
				return apierrors.NewNotFound(schema.GroupResource{Resource: "statefulsets"}, k.Name)
			}
			return w.Get(ctx, k, o, opts...)
		},
	})
}

func TestACacheThatLacksTheWorkloadDoesNotProveThatItIsGone(t *testing.T) {
	t.Parallel()
	pps := remembering(keepAll)
	pps.UID = "pps"
	c := newCluster(t, pps, advanced(1))
	got, _, err := c.reconcile(t, func(r *Reconciler) { r.Client = empty(c) })
	require.NoError(t, err)
	require.Len(t, got.Status.PodStates, 1)
	require.Equal(t, reasonRecording, got.Status.Conditions[0].Reason)
	require.NoError(t, c.Delete(t.Context(), advanced(1)))
	got, said, err := c.reconcile(t, nil)
	require.NoError(t, err)
	require.Empty(t, got.Status.PodStates)
	require.Equal(t, []string{"PodStatesForgotten: removed the recorded state of 1 pod(s), because the workload is gone: db-0"}, said)
}

func TestAGeneratedOneIsDeletedOnlyIfTheApiserverConfirmsIt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		live    *appsv1beta1.StatefulSet // As in the apiserver. The cache has none with the annotation.
		deleted bool
	}{
		{"the annotation is gone", advanced(1), true},
		{"the cache is behind", generating(advanced(1), zone), false},
		{"the workload is gone, so the garbage collector deletes it", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pps := remembering()
			pps.UID = "pps"
			pps.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: "db", UID: "set", Controller: new(true)}}
			objects := []client.Object{pps}
			if tc.live != nil {
				tc.live.UID = "set"
				objects = append(objects, tc.live)
			}
			c := newCluster(t, objects...)
			got, _, err := c.reconcile(t, func(r *Reconciler) { r.Client = empty(c) })
			require.NoError(t, err)
			require.Equal(t, tc.deleted, got == nil)
		})
	}
}

func TestACauseThatStaysIsToldOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, generating(advanced(1), ""))
	var said testkit.Events
	r := reconciler(c, c, clocktesting.NewFakePassiveClock(noon), &said)
	for range 3 {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(t, err)
	}
	require.Equal(t, []string{reasonNotGenerated}, said.Reasons())
}

func TestWhomAnEventConcerns(t *testing.T) {
	t.Parallel()
	other := withName("places", states(advanced(1)))
	c := newCluster(t, other, states(native(1)), gamePod("x"))
	r := reconciler(c, c, clocktesting.NewFakePassiveClock(noon), &testkit.Events{})
	names := func(requests []ctrl.Request) []string {
		var out []string
		for _, req := range requests {
			out = append(out, req.Name)
		}
		return out
	}
	require.Equal(t, []string{"db", "places"}, names(r.forWorkload(t.Context(), advanced(1))), "the generated one and those with the target")
	require.Equal(t, []string{"db"}, names(r.forWorkload(t.Context(), native(1))), "once")
	require.Equal(t, []string{"places"}, names(r.forPod(t.Context(), statefulPod())))
	require.Empty(t, r.forPod(t.Context(), testkit.Pod("bare").Obj()))
	require.ElementsMatch(t, []string{"db", "places"}, names(r.all(t.Context(), nil)))
	p := statefulPod(func(p *corev1.Pod) { p.Spec.NodeName, p.ResourceVersion = "node-1", "" })
	require.NoError(t, c.Create(t.Context(), p))
	require.Equal(t, []string{"places"}, names(r.forNode(t.Context(), nodes()[0])))
	require.Empty(t, r.forNode(t.Context(), nodes()[1]))
}
