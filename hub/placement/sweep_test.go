package placement

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// noted stores the reasons of events.
type noted []string

func (n *noted) Record(_ runtime.Object, e event.Event) { *n = append(*n, e.Reason) }

func TestAttack11RowsWithoutTheirObjectAreWithdrawn(t *testing.T) {
	t.Parallel()
	source := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "source"}}
	}
	namespace := func() *corev1.Namespace { return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}} }
	another := source()
	another.UID = "another"
	leaving := namespace()
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"kubernetes"}
	for _, tt := range []struct {
		name        string
		cache, live []client.Object // in addition to the row and its cluster, which both have
		kind        string
		fails       bool
		cluster     bool // the object is cluster-scoped
		gone        bool
		policy      fleetv1alpha1.LeavePolicy
	}{
		{name: "a row whose object exists stays", cache: []client.Object{source()}, live: []client.Object{source(), namespace()}},
		{name: "a row whose object is missing from the cache only stays", live: []client.Object{source(), namespace()}},
		{name: "a row stays while the apiserver does not answer", live: []client.Object{namespace()}, fails: true},
		{name: "a row of another kind stays", live: []client.Object{namespace()}, kind: "Other"},
		{name: "a row whose object is gone is withdrawn", live: []client.Object{namespace()}, gone: true, policy: fleetv1alpha1.LeaveDelete},
		{name: "a row whose object was created again is withdrawn", cache: []client.Object{another}, live: []client.Object{another, namespace()}, gone: true, policy: fleetv1alpha1.LeaveDelete},
		{name: "a row whose object is gone with its namespace is orphaned", gone: true, policy: fleetv1alpha1.LeaveOrphan},
		{name: "a row whose object is gone with a terminating namespace is orphaned", live: []client.Object{leaving}, gone: true, policy: fleetv1alpha1.LeaveOrphan},
		{name: "a row of a cluster-scoped object is withdrawn", cluster: true, gone: true, policy: fleetv1alpha1.LeaveDelete},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
			require.NoError(t, corev1.AddToScheme(scheme))
			kind := "ConfigMap"
			if tt.kind != "" {
				kind = tt.kind
			}
			work := &fleetv1alpha1.MemberWork{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "fleet-east", Name: "row", UID: "row", Finalizers: []string{keys.FleetRow}, Labels: map[string]string{keys.FleetCluster: "east"},
				},
				Spec: fleetv1alpha1.MemberWorkSpec{
					Source:         fleetv1alpha1.WorkSource{Kind: kind, Namespace: "shop", Name: "web", UID: "source"},
					DeletionPolicy: fleetv1alpha1.LeaveDelete,
				},
			}
			if tt.cluster {
				work.Spec.Source.Namespace = ""
			}
			mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
			cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(tt.cache, work, mc)...).Build()
			live := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(tt.live...).Build(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if tt.fails {
						return errors.New("too many requests")
					}
					return c.Get(ctx, key, o, opts...)
				},
			})
			clk, events := clocktesting.NewFakePassiveClock(time.Unix(0, 0)), &noted{}
			s := &Sweeper{Client: cache, Live: live, Events: events, Clock: clk}
			s.Add("ConfigMap", func() client.Object { return &corev1.ConfigMap{} }, row.NewStore(cache, []byte("key"), clk))
			req := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(work)}
			now := func() *fleetv1alpha1.MemberWork {
				require.NoError(t, cache.Get(t.Context(), req.NamespacedName, work))
				return work
			}
			for range 2 {
				_, err := s.Reconcile(t.Context(), req)
				require.Equal(t, tt.fails, err != nil, "%v", err)
			}
			require.True(t, now().DeletionTimestamp.IsZero(), "the first pass only reports it")
			require.Equal(t, tt.gone, len(*events) > 0)
			clk.SetTime(clk.Now().Add(sweepAfter))
			_, err := s.Reconcile(t.Context(), req)
			require.Equal(t, tt.fails, err != nil, "%v", err)
			require.Equal(t, tt.gone, !now().DeletionTimestamp.IsZero())
			if tt.gone {
				require.Equal(t, tt.policy, now().Spec.DeletionPolicy)
				require.Equal(t, noted{eventSourceGone}, *events, "once")
			}
			_, err = s.Reconcile(t.Context(), req)
			require.Equal(t, tt.fails, err != nil, "%v", err)
		})
	}
}
