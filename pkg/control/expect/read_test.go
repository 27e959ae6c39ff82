package expect

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestRead(t *testing.T) {
	t.Parallel()
	set := func(change func(*corev1.ConfigMap)) client.Reader {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: owner}}
		if change == nil {
			return fake.NewClientBuilder().Build()
		}
		change(o)
		return fake.NewClientBuilder().WithObjects(o).Build()
	}
	plain := func(*corev1.ConfigMap) {}
	going := func(o *corev1.ConfigMap) {
		o.Finalizers, o.DeletionTimestamp = []string{"example.com/x"}, new(metav1.Unix(1000, 0))
	}
	no := errors.New("no")
	for _, tc := range []struct {
		name        string
		cache, live client.Reader
		behind      bool          // the cache doesn't show a write
		since       time.Duration // for how long
		fails       error
		want        error
		notYet      bool
		reads       []bool // of children; live or not
	}{
		{name: "an existing owner is read from the cache", cache: set(plain), reads: []bool{false}},
		{name: "no plan for an owner that is gone", cache: set(nil), want: ErrGone},
		{name: "nor for a terminating one", cache: set(going), behind: true, want: ErrGone},
		{name: "an error when children can't be read", cache: set(plain), fails: no, want: no, reads: []bool{false}},
		{name: "waits for a cache that is behind", cache: set(plain), behind: true, notYet: true, reads: []bool{false}},
		{
			name: "but not forever", behind: true, since: time.Hour, reads: []bool{false, true},
			cache: set(func(o *corev1.ConfigMap) { o.Data = map[string]string{"a": "b"} }), live: set(plain),
		},
		{name: "no plan for an owner that has disappeared meanwhile", cache: set(plain), live: set(nil), behind: true, since: time.Hour, want: ErrGone, reads: []bool{false}},
		{name: "no plan for an owner that is terminating meanwhile", cache: set(plain), live: set(going), behind: true, since: time.Hour, want: ErrGone, reads: []bool{false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			s := New("test", clk, time.Minute)
			if tc.behind {
				s.Written(owner, child("a", "9"))
				clk.SetTime(clk.Now().Add(tc.since))
			}
			var reads []bool
			got := &corev1.ConfigMap{}
			err := s.Read(t.Context(), tc.cache, tc.live, client.ObjectKey{Namespace: "shop", Name: "web"}, got,
				func(_ client.Reader, live bool) error {
					reads = append(reads, live)
					return tc.fails
				},
				func() iter.Seq[metav1.Object] { return slices.Values([]metav1.Object{child("a", "5")}) })
			require.Equal(t, tc.reads, reads)
			var notYet NotYetError
			require.Equal(t, tc.notYet, errors.As(err, &notYet))
			if !tc.notYet {
				require.ErrorIs(t, err, tc.want)
			}
			if tc.live != nil {
				require.Empty(t, got.Data, "an owner that the API server lacks is gone")
			}
		})
	}
}

// anOwner returns a ConfigMap to use as an owner.
func anOwner(uid types.UID) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: uid}}
}

// read reads an owner without children from an API server and an identical cache.
func read(t *testing.T, s *Store, objects ...client.Object) error {
	t.Helper()
	c := fake.NewClientBuilder().WithObjects(objects...).Build()
	return s.Read(t.Context(), c, c, client.ObjectKey{Namespace: "shop", Name: "web"}, &corev1.ConfigMap{},
		func(client.Reader, bool) error { return nil }, func() iter.Seq[metav1.Object] { return slices.Values([]metav1.Object(nil)) })
}

func TestAnOwnerThatVanishedUnseenIsForgotten(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		then []client.Object
		want error
	}{
		{name: "its name is free", want: ErrGone},
		{name: "another object has its name", then: []client.Object{anOwner("other")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := New("test", clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), time.Minute)
			require.NoError(t, read(t, s, anOwner(owner)))
			s.Written(owner, child("a", "9"))
			require.True(t, s.Refused(owner, refusal()))
			require.ErrorIs(t, read(t, s, tc.then...), tc.want)
			require.Empty(t, s.owners)
			require.Empty(t, s.refused)
			require.Len(t, s.names, len(tc.then))
		})
	}
}

func TestAnOwnerIsNotForgottenWhileTheCacheShowsIt(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	s := New("test", clk, time.Minute)
	s.Written(owner, child("a", "9"))
	clk.SetTime(clk.Now().Add(time.Hour))
	cache := fake.NewClientBuilder().WithObjects(anOwner(owner)).Build()
	for range 2 {
		err := s.Read(t.Context(), cache, fake.NewClientBuilder().Build(), client.ObjectKey{Namespace: "shop", Name: "web"}, &corev1.ConfigMap{},
			func(client.Reader, bool) error { return nil },
			func() iter.Seq[metav1.Object] { return slices.Values([]metav1.Object{child("a", "5")}) })
		require.ErrorIs(t, err, ErrGone, "the API server has no such owner, so no plan may be made from the cache")
	}
}

func TestAFinalizerKeepsAnOwnerToBeReconciled(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	s := New("test", clk, time.Minute)
	terminating := anOwner(owner)
	terminating.Finalizers, terminating.DeletionTimestamp = []string{"example.com/x"}, new(metav1.Unix(1000, 0))
	read := func(objects ...client.Object) error {
		c := fake.NewClientBuilder().WithObjects(objects...).Build()
		return s.ReadFinalized(t.Context(), c, c, client.ObjectKey{Namespace: "shop", Name: "web"}, &corev1.ConfigMap{},
			func(client.Reader, bool) error { return nil },
			func() iter.Seq[metav1.Object] { return slices.Values([]metav1.Object{child("a", "5")}) })
	}
	require.NoError(t, read(terminating))
	s.Written(owner, child("a", "9"))
	require.ErrorAs(t, read(terminating), &NotYetError{})
	clk.SetTime(clk.Now().Add(time.Hour))
	require.NoError(t, read(terminating))
	require.ErrorIs(t, read(), ErrGone)
	require.Empty(t, s.owners)
	require.Empty(t, s.names)
}

// refusal is the API server's refusal of a create.
func refusal() error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("namespace shop is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return fmt.Errorf("create pod a: %w", err)
}

func TestOwnersInATerminatingNamespaceAreSkipped(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	s := New("test", clk, time.Minute)
	require.False(t, s.Refused(owner, errors.New("quota")))
	require.NoError(t, read(t, s, anOwner(owner)))
	require.True(t, s.Refused(owner, refusal()))
	clk.SetTime(clk.Now().Add(10 * time.Second))
	require.Equal(t, TerminatingError{20 * time.Second}, read(t, s, anOwner(owner)))
	clk.SetTime(clk.Now().Add(20 * time.Second))
	require.NoError(t, read(t, s, anOwner(owner)), "an API server may mistake a new namespace for the old one for a moment")
	require.Empty(t, s.refused)
}
