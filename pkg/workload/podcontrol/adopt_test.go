package podcontrol

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestAdopt(t *testing.T) {
	t.Parallel()
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	set := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		out := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: owner}}
		if change != nil {
			change(out)
		}
		return out
	}
	for _, tc := range []struct {
		name  string
		live  []client.Object // the owner in the API server
		stale bool            // the orphan has changed since it was observed
		want  Result
		owned types.UID
	}{
		{"an orphan is adopted", []client.Object{set(nil)}, false, Result{Done: []string{"p"}}, owner},
		{"not by an owner that is gone", nil, false, Result{Skipped: 1}, ""},
		{"nor by another owner of the same name", []client.Object{set(func(s *corev1.ConfigMap) { s.UID = "other" })}, false, Result{Skipped: 1}, ""},
		{
			"nor by a terminating owner",
			[]client.Object{set(func(s *corev1.ConfigMap) {
				s.Finalizers, s.DeletionTimestamp = []string{"example.com/x"}, new(metav1.Unix(1000, 0))
			})},
			false,
			Result{Skipped: 1},
			"",
		},
		{"an orphan that has changed is left to the next reconcile", []client.Object{set(nil)}, true, Result{Skipped: 1}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			orphan := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "shop", UID: "uid-p"}}
			w, c := writer(interceptor.Funcs{}, append([]client.Object{orphan}, tc.live...)...)
			var seen corev1.Pod
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(orphan), &seen))
			if tc.stale {
				next := seen.DeepCopy()
				next.Labels = map[string]string{"app": "other"}
				require.NoError(t, c.Update(t.Context(), next))
			}
			require.Equal(t, tc.want, w.Adopt(t.Context(), set(nil), kind, []client.Object{&seen}))
			var adopted corev1.Pod
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(orphan), &adopted))
			if tc.owned == "" {
				require.Empty(t, adopted.OwnerReferences)
				require.Zero(t, waits(w))
				return
			}
			require.Equal(t, tc.owned, metav1.GetControllerOf(&adopted).UID)
			require.Equal(t, 1, waits(w), "the next reconcile waits for the cache to show its controller")
			require.Zero(t, waits(w, &adopted))
		})
	}
}

func TestAdoptWithoutOrphansSendsNoRequest(t *testing.T) {
	t.Parallel()
	w, _ := writer(interceptor.Funcs{})
	w.Live = nil
	require.Equal(t, Result{}, w.Adopt(t.Context(), &corev1.ConfigMap{}, corev1.SchemeGroupVersion.WithKind("ConfigMap"), nil))
}

func TestAdoptReturnsTheErrorOfTheLookup(t *testing.T) {
	t.Parallel()
	w, c := writer(interceptor.Funcs{})
	w.Live = interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{Get: failing})
	got := w.Adopt(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}},
		corev1.SchemeGroupVersion.WithKind("ConfigMap"), []client.Object{pod("p")})
	require.ErrorContains(t, got.Err, "check whether web may adopt: no")
	require.ErrorIs(t, got.Err, errRefused)
}

var errRefused = errors.New("no")

func failing(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errRefused
}
