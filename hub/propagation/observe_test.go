package propagation

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
)

func TestTheApiserverSaysWhatBecameOfAnObjectThatTheCacheLacks(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	other := configMap("other", "blue")
	other.Labels = nil
	c := placement.Client{Live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(configMap("there", "blue"), other).Build()}
	why := problem{Kind: "ConfigMap", Reason: fleetv1alpha1.ReasonForbidden}
	for _, tt := range []struct {
		name, object string
		unread       []unreadableKind
		want         fate
	}{
		{"The object exists, and the cache is behind.", "there", nil, fate{behind: true}},
		{"The object exists, but is no longer selected.", "other", nil, fate{}},
		{"The object is gone.", "gone", nil, fate{gone: true}},
		{"Its kind can't be read.", "gone", []unreadableKind{{configMaps.WithVersion("v1"), why}}, fate{wait: why}},
		{
			"A kind with the same name in another group can't be read.",
			"gone",
			[]unreadableKind{{schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "ConfigMap"}, why}},
			fate{gone: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.unreadable = tt.unread
			ref := fleetv1alpha1.WorkObject{APIVersion: "v1", Kind: "ConfigMap", Name: tt.object}
			got, err := w.fateOf(t.Context(), c, ref, map[schema.GroupVersionKind]*problem{})
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestAnObjectThatWasDeletedAndCreatedAgainIsAnotherOne(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		row, cache, live string
		want             string
		behind           bool
	}{
		{name: "The row has the object's UID.", row: "1", cache: "1", live: "1", want: "+migrate@east"},
		{name: "A row of an older hub has no UID.", cache: "1", live: "1", want: "+migrate@east"},
		{name: "The row is of the previous object.", row: "1", cache: "2", live: "2", want: "-migrate@east(Delete)"},
		{name: "The cache has the previous object, and the row is of the current one.", row: "2", cache: "1", live: "2", behind: true},
		{name: "The cache has an object that is gone.", row: "1", cache: "2", behind: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := worldFromFile(t, "job-again.yaml", "east")
			one := &w.objects[0]
			one.UID = tt.cache
			one.live.SetUID(types.UID(tt.cache))
			w.row("east", "migrate")
			r := w.Rows[row.PlaceOf("east", rowName("migrate"))]
			delete(w.Rows, row.Place(r))
			r.Name, r.Spec.Object = one.row, &fleetv1alpha1.WorkObject{APIVersion: "batch/v1", Kind: "Job", Name: "migrate", UID: tt.row}
			w.Rows[row.Place(r)] = r
			scheme := runtime.NewScheme()
			require.NoError(t, batchv1.AddToScheme(scheme))
			live := fake.NewClientBuilder().WithScheme(scheme)
			if tt.live != "" {
				live.WithObjects(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "migrate", UID: types.UID(tt.live)}})
			}
			w.replaced = map[string]bool{}
			require.NoError(t, w.observeReplaced(t.Context(), placement.Client{Live: live.Build()}))
			p := plan(w.observed, w.Now)
			require.Equal(t, tt.want, outcome(p))
			require.Equal(t, tt.behind, p.Recheck > 0)
		})
	}
}
