package cloneset

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/testkit"
)

// of is a pod of the selector of web that another object controls.
func podOf(name, apiVersion, kind, owner string) corev1.Pod {
	p := testkit.Pod(name).Label("app", "web").Obj()
	p.OwnerReferences = nil
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: owner, UID: "other", Controller: new(true)}}
	}
	return *p
}

func TestStrangersOf(t *testing.T) {
	t.Parallel()
	going, ended := podOf("going", "apps/v1", "ReplicaSet", "shop"), podOf("ended", "apps/v1", "ReplicaSet", "shop")
	going.DeletionTimestamp = new(metav1.NewTime(now))
	ended.Status.Phase = corev1.PodSucceeded
	tests := []struct {
		name string
		pods []corev1.Pod
		want strangers
	}{
		{"its own pods are none", []corev1.Pod{podOf("web-a", "apps.kruise.io/v1beta1", "CloneSet", "web"), podOf("web-b", "apps.kruise.io/v1alpha1", "CloneSet", "web")}, strangers{}},
		{
			"pods of another workload are",
			[]corev1.Pod{podOf("shop-2", "apps/v1", "ReplicaSet", "shop"), podOf("shop-1", "apps/v1", "ReplicaSet", "shop")},
			strangers{2, "shop-1 of ReplicaSet shop"},
		},
		{"so are those of another CloneSet", []corev1.Pod{podOf("api-a", "apps.kruise.io/v1beta1", "CloneSet", "api")}, strangers{1, "api-a of CloneSet api"}},
		{"and pods of nobody", []corev1.Pod{podOf("bare", "", "", "")}, strangers{1, "bare of nobody"}},
		{"a kind of the same name in another group is another", []corev1.Pod{podOf("x", "example.com/v1", "CloneSet", "web")}, strangers{1, "x of CloneSet web"}},
		{"pods that go or have ended are none", []corev1.Pod{going, ended}, strangers{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, strangersOf(web(1).Obj(), tt.pods))
		})
	}
}

func TestLookoutGoesThroughPodsNotMoreThanTwiceAMinute(t *testing.T) {
	t.Parallel()
	stranger := podOf("shop-1", "apps/v1", "ReplicaSet", "shop")
	lists, fail := 0, false
	c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(&stranger).Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			if fail {
				return errors.New("no cache")
			}
			return c.List(ctx, list, opts...)
		},
	})
	var l lookout
	set := web(1).Obj()
	look := func(at time.Time) strangers {
		t.Helper()
		got, err := l.look(t.Context(), c, set, at)
		require.NoError(t, err)
		return got
	}
	require.Equal(t, 1, look(now).count)
	require.NoError(t, c.Delete(t.Context(), &stranger))
	require.Equal(t, 1, look(now.Add(29*time.Second)).count)
	require.Equal(t, 1, lists)
	require.Zero(t, look(now.Add(30*time.Second)))
	require.Equal(t, 2, lists)
	set.Generation++
	look(now.Add(31 * time.Second))
	require.Equal(t, 3, lists, "a new spec makes it look at once")
	set.UID = "another"
	look(now.Add(31 * time.Second))
	require.Equal(t, 4, lists, "and so does another set of the same name")
	l.forget(client.ObjectKeyFromObject(set))
	fail = true
	_, err := l.look(t.Context(), c, set, now.Add(32*time.Second))
	require.ErrorContains(t, err, "list pods of the selector: no cache")
}

func TestPodsOfOthersAreToldOnceAndLeftAlone(t *testing.T) {
	t.Parallel()
	o, names := world(t, web(2))
	o.with(names[0], "a", "b")
	o.strangers = strangers{3, "shop-1 of ReplicaSet shop"}
	w := plan(o, now)
	require.False(t, w.moves(), "nobody's pods are fought over")
	require.Equal(t, lookEvery, w.recheck)
	got, events := status(o, w, done{}, now)
	require.Empty(t, cmp.Diff([]appsv1beta1.CloneSetCondition{{
		Type: "SelectorOverlap", Status: "True", Reason: "PodsOfOthers",
		Message:        "the selector selects pods of others, which are left alone: make a new CloneSet with a narrower one: 3 pods, such as shop-1 of ReplicaSet shop",
		LastUpdateTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}}, got.Conditions))
	require.Equal(t, []string{"SelectorOverlap"}, reasons(events))

	o.set.Status, o.strangers.count = got, 4
	again, events := status(o, plan(o, now), done{}, now.Add(time.Minute))
	require.Empty(t, cmp.Diff(got, again))
	require.Empty(t, events)

	o.strangers = strangers{}
	again, _ = status(o, plan(o, now), done{}, now.Add(time.Minute))
	require.Empty(t, again.Conditions)
}
