package scaletarget

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

func newReader(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(s))
	require.NoError(t, appsv1beta1.AddToScheme(s))
	return fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).Build()
}

// owned creates an object of a kind, controlled by another one.
func owned[T client.Object](o T, name, owner, kind string) T {
	o.SetNamespace("shop")
	o.SetName(name)
	o.SetUID(types.UID("uid-" + name))
	if owner != "" {
		version, kind, _ := strings.Cut(kind, " ")
		o.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: version, Kind: kind, Name: owner, UID: types.UID("uid-" + owner), Controller: new(true),
		}})
	}
	return o
}

func TestChain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		pod     *corev1.Pod
		objects []client.Object
		want    []string
	}{
		{name: "no owner for a pod without a controller", pod: owned(&corev1.Pod{}, "p", "", "")},
		{
			name: "the chain of a Deployment's pod", pod: owned(&corev1.Pod{}, "p", "rs", "apps/v1 ReplicaSet"),
			objects: []client.Object{owned(&appsv1.ReplicaSet{}, "rs", "web", "apps/v1 Deployment"), owned(&appsv1.Deployment{}, "web", "", "")},
			want:    []string{"ReplicaSet.apps rs", "Deployment.apps web"},
		},
		{
			name: "a StatefulSet of a UnitedDeployment", pod: owned(&corev1.Pod{}, "p", "db", "apps.kruise.io/v1alpha1 StatefulSet"),
			objects: []client.Object{owned(&appsv1beta1.StatefulSet{}, "db", "all", "apps.kruise.io/v1beta1 UnitedDeployment")},
			want:    []string{"StatefulSet.apps.kruise.io db", "UnitedDeployment.apps.kruise.io all"},
		},
		{
			name: "the chain ends at an object that the cache lacks", pod: owned(&corev1.Pod{}, "p", "rs", "apps/v1 ReplicaSet"),
			want: []string{"ReplicaSet.apps rs"},
		},
		{
			name: "a controller with another UID is another object", pod: owned(&corev1.Pod{}, "p", "db", "apps/v1 StatefulSet"),
			objects: []client.Object{func() client.Object {
				s := owned(&appsv1.StatefulSet{}, "db", "app", "example.com/v1 App")
				s.UID = "new"
				return s
			}()},
			want: []string{"StatefulSet.apps db"},
		},
		{
			name: "a cycle ends", pod: owned(&corev1.Pod{}, "p", "a", "apps/v1 StatefulSet"),
			objects: []client.Object{
				owned(&appsv1.StatefulSet{}, "a", "b", "apps/v1 Deployment"), owned(&appsv1.Deployment{}, "b", "a", "apps/v1 StatefulSet"),
			},
			want: []string{"StatefulSet.apps a", "Deployment.apps b"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			chain, _, err := Chain(t.Context(), newReader(t, tc.objects...), tc.pod, func(schema.GroupVersionKind) bool { return true })
			require.NoError(t, err)
			var got []string
			for _, ref := range chain {
				got = append(got, ref.String())
				require.Equal(t, "shop", ref.Namespace)
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	ref := Ref{Kind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), NamespacedName: types.NamespacedName{Namespace: "shop", Name: "db"}}
	c := newReader(t, owned(&appsv1.StatefulSet{}, "db", "", ""))
	o, err := Get(t.Context(), c, ref)
	require.NoError(t, err)
	require.IsType(t, &appsv1.StatefulSet{}, o, "a kind that controllers cache anyway is read by its type")
	other := ref
	other.UID = "other"
	o, err = Get(t.Context(), c, other)
	require.NoError(t, err)
	require.Nil(t, o)
	require.False(t, ref.Same(Ref{Kind: ref.Kind, NamespacedName: types.NamespacedName{Namespace: "bank", Name: "db"}}))
	require.True(t, ref.Same(other), "a reference without a UID is to whichever object has the name")

	app := Ref{Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}, NamespacedName: ref.NamespacedName}
	require.IsType(t, &metav1.PartialObjectMetadata{}, Empty(app.Kind), "only metadata of another kind is read")
	for name, answer := range map[string]error{
		"no object of that name": apierrors.NewNotFound(schema.GroupResource{}, "db"),
		"no such kind":           &meta.NoKindMatchError{GroupKind: app.Kind.GroupKind()},
	} {
		o, err = Get(t.Context(), withReadError(c, answer), app)
		require.NoError(t, err, name)
		require.Nil(t, o, name)
	}
	boom := errors.New("boom")
	_, err = Get(t.Context(), withReadError(c, boom), app)
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, err, "get App.example.com db")
}

// withReadError returns a client whose reads return an error.
func withReadError(c client.WithWatch, err error) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return err
		},
	})
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	app := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "app"}}
	app.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"})
	for _, tc := range []struct {
		name   string
		o      client.Object
		scale  map[string]any
		answer error
		n      int32
		known  bool
	}{
		{name: "a Deployment", o: &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}}, n: 3, known: true},
		{name: "a StatefulSet without replicas has the default", o: &appsv1.StatefulSet{}, n: 1, known: true},
		{name: "a CloneSet", o: &appsv1beta1.CloneSet{Spec: appsv1beta1.CloneSetSpec{Replicas: new(int32(0))}}, known: true},
		{name: "a StatefulSet of apps.kruise.io", o: &appsv1beta1.StatefulSet{Spec: appsv1beta1.StatefulSetSpec{Replicas: new(int32(5))}}, n: 5, known: true},
		{name: "another kind, by its scale subresource", o: app, scale: map[string]any{"spec": map[string]any{"replicas": int64(4)}}, n: 4, known: true},
		{name: "a kind scaled to 0", o: app, scale: map[string]any{"spec": map[string]any{}}, known: true},
		{name: "another kind without a scale subresource", o: app, answer: apierrors.NewNotFound(schema.GroupResource{}, "app")},
		{name: "a scale subresource that can't be read", o: app, answer: boom},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := interceptor.NewClient(newReader(t), interceptor.Funcs{
				SubResourceGet: func(_ context.Context, _ client.Client, sub string, o, into client.Object, _ ...client.SubResourceGetOption) error {
					require.Equal(t, "scale", sub)
					require.Equal(t, "App app", o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName())
					if tc.answer == nil {
						into.(*unstructured.Unstructured).Object = tc.scale
					}
					return tc.answer
				},
			})
			n, known, err := Replicas(t.Context(), c, tc.o)
			require.Equal(t, tc.n, n)
			require.Equal(t, tc.known, known)
			if errors.Is(tc.answer, boom) {
				require.ErrorIs(t, err, boom)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestWhiteList(t *testing.T) {
	t.Parallel()
	game := schema.GroupVersionKind{Group: "game.kruise.io", Version: "v1alpha1", Kind: "GameServerSet"}
	for _, tc := range []struct {
		name, text string
		want       []schema.GroupVersionKind
		fault      string
	}{
		{name: "nothing", text: ""},
		{name: "as OpenKruise documents it", text: `{"workloads":[{"Group":"game.kruise.io","Version":"v1alpha1","Kind":"GameServerSet"}]}`, want: []schema.GroupVersionKind{game}},
		{name: "field names in lower case", text: `{"workloads":[{"group":"game.kruise.io","version":"v1alpha1","kind":"GameServerSet"}]}`, want: []schema.GroupVersionKind{game}},
		{
			name: "fields of other features, and a kind twice",
			text: `{"workloads":[{"Group":"game.kruise.io","Version":"v1alpha1","Kind":"GameServerSet","replicasPath":"spec.replicas","subResources":[{"Kind":"Pod"}]},
				{"Group":"game.kruise.io","Version":"v1alpha1","Kind":"GameServerSet"}]}`, want: []schema.GroupVersionKind{game},
		},
		{name: "the core group has no name", text: `{"workloads":[{"Version":"v1","Kind":"ReplicationController"}]}`, want: []schema.GroupVersionKind{{Version: "v1", Kind: "ReplicationController"}}},
		{name: "a kind without a version", text: `{"workloads":[{"Group":"a","Kind":"B"}]}`, fault: "workloads[0]: Version and Kind must not be empty"},
		{name: "no JSON", text: "GameServerSet", fault: `must be {"workloads":[`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newReader(t, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "flotilla-system", Name: ConfigMap}, Data: map[string]string{KeyPersistentPodState: tc.text},
			})
			got, err := WhiteList(t.Context(), c, "flotilla-system", KeyPersistentPodState)
			require.Equal(t, tc.want, got)
			if tc.fault == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "ConfigMap flotilla-system/kruise-configuration: data[PPS_Watch_Custom_Workload_WhiteList]: "+tc.fault)
			}
		})
	}
	none, err := WhiteList(t.Context(), newReader(t), "flotilla-system", KeyPersistentPodState)
	require.NoError(t, err)
	require.Empty(t, none)
	boom := errors.New("boom")
	_, err = WhiteList(t.Context(), withReadError(newReader(t), boom), "flotilla-system", KeyPersistentPodState)
	require.ErrorIs(t, err, boom)
}
