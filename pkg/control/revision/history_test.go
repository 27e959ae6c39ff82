package revision

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

func owner() *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "owner"}
}

func wanted(t *testing.T) *appsv1.ControllerRevision {
	t.Helper()
	r, err := New(Spec{
		Owner: owner(), Kind: schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "CloneSet"},
		Template: map[string]any{"spec": map[string]any{}},
	})
	require.NoError(t, err)
	return r
}

func cluster(t *testing.T, known ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(known...).Build()
}

func TestWrite(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change Change
		// takeOver is Writer.TakeOver.
		takeOver bool
		// known changes the existing revision that has the wanted name; nil if there is none.
		known func(*appsv1.ControllerRevision)
		want  error
		// expected: the cache must show something before the next plan.
		expected bool
	}{
		{name: "no write without a change", change: Keep},
		{name: "a new revision is expected in the cache", change: Create, expected: true},
		{
			name: "a revision from an earlier reconcile is reused", change: Create,
			known: func(*appsv1.ControllerRevision) {}, expected: true,
		},
		{
			name: "two templates may have the same hash", change: Create,
			known: func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(`{"other":true}`) }, want: ErrCollision,
		},
		{
			name: "a previous object of that name may have left its revision", change: Create,
			known: func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].UID = "former" }, want: ErrNameTaken,
		},
		{
			name: "the revision of a previous object of that name is taken over", change: Create, takeOver: true,
			known: func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].UID, r.Revision = "former", 7 }, expected: true,
		},
		{
			name: "a revision without a controller is taken over", change: Create, takeOver: true,
			known: func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil }, expected: true,
		},
		{
			name: "a revision without its labels gets them again", change: Create, takeOver: true,
			known: func(r *appsv1.ControllerRevision) { r.Labels = nil }, expected: true,
		},
		{
			name: "a revision of another object is not taken over", change: Create, takeOver: true,
			known: func(r *appsv1.ControllerRevision) {
				r.OwnerReferences[0].UID, r.OwnerReferences[0].Kind = "other", "StatefulSet"
			}, want: ErrNameTaken,
		},
		{
			name: "a revision of another template is not taken over", change: Create, takeOver: true,
			known: func(r *appsv1.ControllerRevision) { r.OwnerReferences, r.Data.Raw = nil, []byte(`{"other":true}`) }, want: ErrCollision,
		},
		{
			name: "an old revision becomes the newest", change: Renew,
			known: func(r *appsv1.ControllerRevision) { r.Revision = 1 }, expected: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			want := wanted(t)
			c := cluster(t)
			if tc.known != nil {
				existing := want.DeepCopy()
				tc.known(existing)
				c = cluster(t, existing)
			}
			var stale []metav1.Object // what a stale cache shows
			if tc.change == Renew {
				require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(want), want))
				stale = append(stale, want)
			}
			want.Revision = 3
			store := expect.New("test", clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), 0)
			err := Writer{Client: c, Live: c, Expect: store, TakeOver: tc.takeOver}.Write(t.Context(), "owner", Step{Change: tc.change, Revision: want})
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, tc.expected, store.Check("owner", slices.Values(stale)).Count == 1)
			got, err := List(t.Context(), c, owner(), ownership.OwnedBy(owner(), true)...)
			require.NoError(t, err)
			if tc.change == Renew || tc.takeOver && tc.want == nil {
				require.Equal(t, int64(3), got[0].Revision)
				require.Equal(t, want.Labels, got[0].Labels)
			}
		})
	}
}

func TestListIsOfTheOwnerAlone(t *testing.T) {
	t.Parallel()
	var known []client.Object
	for name, change := range map[string]func(*appsv1.ControllerRevision){
		"web-2":     func(r *appsv1.ControllerRevision) { r.Revision = 2 },
		"web-1":     func(r *appsv1.ControllerRevision) { r.Revision = 1 },
		"foreign":   func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].UID = "other" },
		"elsewhere": func(r *appsv1.ControllerRevision) { r.Namespace = "farm" },
	} {
		r := wanted(t)
		r.Name = name
		change(r)
		known = append(known, r)
	}
	got, err := List(t.Context(), cluster(t, known...), owner(), ownership.OwnedBy(owner(), true)...)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, "web-1", got[0].Name)
	require.Equal(t, "web-2", got[1].Name)
}
