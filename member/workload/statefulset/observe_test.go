package statefulset

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
)

func TestNames(t *testing.T) {
	t.Parallel()
	set := web(1).Obj()
	for _, tc := range []struct{ pod, ordinal string }{
		{"web-0", "0"},
		{"web-12", "12"},
		{"web-2147483647", "2147483647"},
		{"web-2147483648", ""},
		{"web-01", ""},
		{"web--1", ""},
		{"web-+1", ""},
		{"web-x", ""},
		{"web-", ""},
		{"shop-0", ""},
		{"web-db-0", ""},
	} {
		require.Equal(t, tc.ordinal, ordinalIn(set, tc.pod), tc.pod)
	}
	for _, tc := range []struct{ pvc, pod string }{
		{"data-web-0", "web-0"},
		{"web-web-3", "web-3"},
		{"a-web-b-web-7", "web-7"},
		{"web-0", ""},
		{"-web-0", ""},
		{"data-web-x", ""},
		{"data-shop-0", ""},
		{"dataweb-0", ""},
	} {
		require.Equal(t, tc.pod, podOfPVC(set, tc.pvc), tc.pvc)
	}
}

// reconciler returns a Reconciler whose cache has these objects.
func reconciler(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *Reconciler {
	t.Helper()
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).Build(), funcs)
	clk := clocktesting.NewFakePassiveClock(now)
	return &Reconciler{Gates: on(), Controller: &podcontrol.Controller{
		Controller: controltest.New(c, c, clk, &testkit.Events{}), Overlaps: ownership.OverlapScanner{Adopts: adopts},
	}}
}

func TestEventsOfPVCsAndOrphansEnqueueTheirSets(t *testing.T) {
	t.Parallel()
	elsewhere := testkit.StatefulSet("web").Obj()
	elsewhere.Namespace = "farm"
	r := reconciler(t, interceptor.Funcs{}, web(1).Obj(), testkit.StatefulSet("shop").Obj(), elsewhere)
	just := []ctrl.Request{{NamespacedName: key}}
	require.Equal(t, just, r.requestsForPVC(t.Context(), pvcNamed("data-web-0")))
	require.Empty(t, r.requestsForPVC(t.Context(), pvcNamed("data-other-0")))

	pod := testkit.Pod("web-0").Label("app", "web").Obj()
	look := func() int {
		found, err := r.Overlaps.Scan(t.Context(), r.Client, web(1).Obj(), Kind(), web(1).Obj().Spec.Selector, now)
		require.NoError(t, err)
		return len(found.Orphans)
	}
	require.Zero(t, look())
	pod.ResourceVersion = ""
	require.NoError(t, r.Client.Create(t.Context(), pod))
	require.Zero(t, look(), "it has just scanned")
	require.Equal(t, just, r.requestsForOrphan(t.Context(), pod))
	require.Equal(t, 1, look())
	for _, name := range []string{"web-x", "web-01", "shop-0"} {
		other := testkit.Pod(name).Label("app", "web").Obj()
		require.Empty(t, r.requestsForOrphan(t.Context(), other), "no set has a pod %s that it selects", name)
	}
	require.Empty(t, r.requestsForOrphan(t.Context(), testkit.Pod("web-0").Label("app", "other").Obj()), "the set does not select it")
	pod.OwnerReferences = []metav1.OwnerReference{{UID: "x", Controller: new(true)}}
	require.Empty(t, r.requestsForOrphan(t.Context(), pod), "it has a controller")

	r = reconciler(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("no cache")
	}})
	require.Empty(t, r.requestsForPVC(t.Context(), pvcNamed("data-web-0")))
}

// The apiserver gives a new set the status of its schema, whose observedGeneration is -1. Sets that are older than this default have 0.
func TestRevisionsOfAnEarlierSetAreFoundBeforeThisOneActs(t *testing.T) {
	t.Parallel()
	orphan, err := wantedRevision(web(1).Obj())
	require.NoError(t, err)
	orphan.OwnerReferences = nil
	for _, tc := range []struct {
		name     string
		observed int64
		found    int
	}{{"a new set", -1, 1}, {"a new set without a default status", 0, 1}, {"a set that has acted", 1, 0}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := reconciler(t, interceptor.Funcs{}, orphan.DeepCopy())
			o := observed{set: web(1).Obj()}
			o.set.Status.ObservedGeneration = tc.observed
			require.NoError(t, r.readUncontrolled(t.Context(), &o))
			require.Len(t, o.orphanedRevisions, tc.found)
		})
	}
}

func TestASetThatIsGoneIsNotReconciled(t *testing.T) {
	t.Parallel()
	r := reconciler(t, interceptor.Funcs{})
	got, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(t, err)
	require.Zero(t, got)
}

func TestStorageClassesAreReadOnlyForPVCsThatAreTooSmall(t *testing.T) {
	t.Parallel()
	reads := 0
	r := reconciler(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		reads++
		return c.Get(ctx, k, o, opts...)
	}}, class("fast", true), class("slow", false))
	s := observedOf(t, web(3).PVCs("data").Resize()).pod(0, "0").pod(0, "1").pod(0, "2")
	require.NoError(t, s.readClasses(t.Context(), r.Client))
	require.Zero(t, reads)
	s.pvc("data-web-0", sized("512Mi", "512Mi")).pvc("data-web-1", sized("512Mi", "512Mi"))
	require.NoError(t, s.readClasses(t.Context(), r.Client))
	require.Equal(t, map[string]bool{"": false, "fast": true}, s.classes)
	require.Equal(t, 1, reads, "once for all PVCs of a class")
	s.set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = nil
	s.pvc("data-web-0", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("gone") })
	require.NoError(t, s.readClasses(t.Context(), r.Client))
	require.False(t, s.classes["gone"], "a deleted class does not allow resizing")
}

func TestAPVCThatChangedMeanwhileIsNotResized(t *testing.T) {
	t.Parallel()
	s := observedOf(t, web(1).PVCs("data").Resize()).pod(0, "0").pvc("data-web-0", sized("512Mi", "512Mi"))
	s.classes = map[string]bool{"": false, "fast": true}
	pvc := s.pvcs["data-web-0"]
	r := reconciler(t, interceptor.Funcs{}, pvc.DeepCopy())
	require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc))
	larger := pvc.DeepCopy()
	sized("5Gi", "512Mi")(larger)
	require.NoError(t, r.Client.Update(t.Context(), larger))

	p := plan(s.observed, now)
	require.Len(t, p.resizes, 1)
	did := resizePVCs(t.Context(), r.applier(s.observed), s.observed, p, now)
	require.NoError(t, did.Err)
	require.Empty(t, did.Done)
	require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc))
	require.Equal(t, "5Gi", pvc.Spec.Resources.Requests.Storage().String(), "a larger request is kept")
}
