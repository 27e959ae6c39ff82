package row

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestOfListsTheRowsOfOneObjectFromACacheAndFromTheApiserver(t *testing.T) {
	t.Parallel()
	made := func(cluster, uid string) client.Object {
		w := want(cluster, 1)
		w.Source.UID = uid
		return w.create("c")
	}
	bare := made("south", "u")
	delete(bare.GetLabels(), keys.FleetSourceUID)
	b := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(made("east", "u"), made("west", "u"), made("east", "v"), bare)
	require.NoError(t, IndexBySource(t.Context(), testkit.Indexes{Builder: b}))
	c := b.Build()
	for _, live := range []bool{false, true} {
		rows := &fleetv1alpha1.MemberWorkList{}
		require.NoError(t, c.List(t.Context(), rows, Of("u", live)...))
		require.Len(t, rows.Items, 2)
		for i := range rows.Items {
			require.Equal(t, "u", rows.Items[i].Labels[keys.FleetSourceUID])
		}
	}
}

func TestPlacingListsTheRowsOfAnObjectWhoeverPlacesIt(t *testing.T) {
	t.Parallel()
	web := fleetv1alpha1.WorkObject{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	made := func(cluster string, change func(*Want)) client.Object {
		w := want(cluster, 1)
		change(&w)
		return w.create("c")
	}
	placing := func(o fleetv1alpha1.WorkObject) func(*Want) {
		return func(w *Want) { w.Source.Kind, w.Source.Name, w.Object = "Propagation", "p", &o }
	}
	another := func(o fleetv1alpha1.WorkObject, change func(*fleetv1alpha1.WorkObject)) fleetv1alpha1.WorkObject {
		change(&o)
		return o
	}
	b := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(
		made("east", placing(web)),
		made("west", placing(another(web, func(o *fleetv1alpha1.WorkObject) { o.APIVersion = "apps/v1beta1" }))),
		made("north", func(w *Want) { w.Source.APIVersion, w.Source.Kind, w.Source.Name = web.APIVersion, web.Kind, web.Name }),
		made("a", placing(another(web, func(o *fleetv1alpha1.WorkObject) { o.APIVersion = "v1" }))),
		made("b", placing(another(web, func(o *fleetv1alpha1.WorkObject) { o.Name = "other" }))),
		made("c", func(w *Want) { placing(web)(w); w.Source.Namespace = "other" }),
	)
	require.NoError(t, IndexByObject(t.Context(), testkit.Indexes{Builder: b}))
	rows, clusters := &fleetv1alpha1.MemberWorkList{}, []string{}
	require.NoError(t, b.Build().List(t.Context(), rows, Placing(want("", 1).Source.Namespace, web)...))
	for i := range rows.Items {
		clusters = append(clusters, rows.Items[i].Labels[keys.FleetCluster])
	}
	require.ElementsMatch(t, []string{"east", "west", "north"}, clusters, "rows of any version, and of any kind of source")
}

func TestTwoSourcesCantHaveARowOfOneObjectInOneCluster(t *testing.T) {
	t.Parallel()
	name := func(change func(*Want)) string {
		w := want("east", 1)
		w.Object = &fleetv1alpha1.WorkObject{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
		change(&w)
		return w.Name()
	}
	unchanged := name(func(*Want) {})
	require.Equal(t, unchanged, name(func(w *Want) { w.Source.UID, w.Source.Name = "another", "another" }))
	require.Equal(t, unchanged, name(func(w *Want) { w.Object.APIVersion = "apps/v2" }))
	for _, change := range []func(*Want){
		func(w *Want) { w.Source.Namespace = "another" }, func(w *Want) { w.Object.Name = "another" },
		func(w *Want) { w.Object.Kind = "Another" }, func(w *Want) { w.Object.APIVersion = "v1" }, func(w *Want) { w.Object = nil },
	} {
		require.NotEqual(t, unchanged, name(change))
	}
}
