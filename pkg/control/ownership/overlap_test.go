package ownership

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

var (
	now  = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	kind = appsv1beta1.GroupVersion.WithKind("CloneSet")
)

func web() *appsv1beta1.CloneSet { return testkit.CloneSet("web").Obj() }

// podOf returns a pod that web's selector matches but another object controls.
func podOf(name, apiVersion, kind, owner string) corev1.Pod {
	p := testkit.Pod(name).Label("app", "web").Obj()
	p.OwnerReferences = nil
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: owner, UID: "other", Controller: new(true)}}
	}
	return *p
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	going, ended := podOf("going", "apps/v1", "ReplicaSet", "shop"), podOf("ended", "apps/v1", "ReplicaSet", "shop")
	going.DeletionTimestamp = new(metav1.NewTime(now))
	ended.Status.Phase = corev1.PodSucceeded
	set := web()
	tests := []struct {
		name string
		pods []corev1.Pod
		want Overlap
	}{
		{"its own pods don't overlap", []corev1.Pod{podOf("web-a", "apps.kruise.io/v1beta1", "CloneSet", "web"), podOf("web-b", "apps.kruise.io/v1alpha1", "CloneSet", "web")}, Overlap{}},
		{
			"pods of another workload do",
			[]corev1.Pod{podOf("shop-2", "apps/v1", "ReplicaSet", "shop"), podOf("shop-1", "apps/v1", "ReplicaSet", "shop")},
			Overlap{Count: 2, First: "shop-1 of ReplicaSet shop"},
		},
		{"so do pods of another CloneSet", []corev1.Pod{podOf("api-a", "apps.kruise.io/v1beta1", "CloneSet", "api")}, Overlap{Count: 1, First: "api-a of CloneSet api"}},
		{"and pods without a controller", []corev1.Pod{podOf("bare", "", "", "")}, Overlap{Count: 1, Loose: true, First: "bare without controller"}},
		{
			"only some of which have no controller",
			[]corev1.Pod{podOf("bare", "", "", ""), podOf("api-a", "apps.kruise.io/v1beta1", "CloneSet", "api")},
			Overlap{Count: 2, First: "api-a of CloneSet api"},
		},
		{"a kind with the same name in another group is another kind", []corev1.Pod{podOf("x", "example.com/v1", "CloneSet", "web")}, Overlap{Count: 1, First: "x of CloneSet web"}},
		{"pods that are terminating or have ended don't overlap", []corev1.Pod{going, ended}, Overlap{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, (&OverlapScanner{}).overlapOf(set, kind, tt.pods))
		})
	}
}

// TestLoosePodsAreSaidNotToBeAdopted uses pods as kubectl delete --cascade=orphan leaves them.
func TestLoosePodsAreSaidNotToBeAdopted(t *testing.T) {
	t.Parallel()
	require.Equal(t, "the selector matches pods without a controller, which are not adopted because nothing shows that they belong to this CloneSet: "+
		"delete them when its own pods are available, or create a new CloneSet with a narrower selector: 2 pod(s), such as web-a without controller",
		Overlap{Count: 2, Loose: true, First: "web-a without controller"}.Failure("CloneSet").Message)
}

func TestOverlapScannerListsPodsAtMostTwiceAMinute(t *testing.T) {
	t.Parallel()
	foreign := podOf("shop-1", "apps/v1", "ReplicaSet", "shop")
	lists, fail := 0, false
	c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(&foreign).Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			if fail {
				return errors.New("no cache")
			}
			return c.List(ctx, list, opts...)
		},
	})
	var l OverlapScanner
	set := web()
	look := func(at time.Time) Overlap {
		t.Helper()
		got, err := l.Scan(t.Context(), c, set, kind, set.Spec.Selector, at)
		require.NoError(t, err)
		return got
	}
	require.Equal(t, 1, look(now).Count)
	require.NoError(t, c.Delete(t.Context(), &foreign))
	require.Equal(t, 1, look(now.Add(29*time.Second)).Count)
	require.Equal(t, 1, lists)
	require.Zero(t, look(now.Add(30*time.Second)))
	require.Equal(t, 2, lists)
	set.Generation++
	look(now.Add(31 * time.Second))
	require.Equal(t, 3, lists, "a new spec triggers a scan at once")
	set.UID = "another"
	look(now.Add(31 * time.Second))
	require.Equal(t, 4, lists, "and so does another object with the same name")
	l.Forget(client.ObjectKeyFromObject(set))
	fail = true
	_, err := l.Scan(t.Context(), c, set, kind, set.Spec.Selector, now.Add(32*time.Second))
	require.ErrorContains(t, err, "list pods of the selector: no cache")
}

func TestRequestsForOrphan(t *testing.T) {
	t.Parallel()
	l := OverlapScanner{Adopts: func(_ metav1.Object, p *corev1.Pod) bool { return p.Name == "web-0" }}
	all := []corev1.Pod{
		podOf("web-0", "", "", ""), podOf("web-x", "", "", ""), podOf("shop-1", "apps/v1", "ReplicaSet", "shop"),
	}
	got := l.overlapOf(web(), kind, all)
	require.Equal(t, Overlap{Count: 2, First: "shop-1 of ReplicaSet shop", Orphans: []*corev1.Pod{&all[0]}}, got)
}

func TestSelects(t *testing.T) {
	t.Parallel()
	pod := testkit.Pod("web-0").Label("app", "web").Obj()
	by := web().Spec.Selector
	require.True(t, Selects(by, pod))
	pod.Labels["app"] = "shop"
	require.False(t, Selects(by, pod))
	require.False(t, Selects(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}, pod),
		"an invalid selector selects nothing")
}
