package expect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func podOf(name string, by types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Set", Name: "web", UID: by, Controller: new(true)}},
	}}
}

// bench has a store whose cache shows nothing, and an API server that counts requests.
type bench struct {
	*Store
	clock    *clocktesting.FakePassiveClock
	live     client.Client
	lookedUp []string
	reads    int // of all children
}

func newBench(t *testing.T, kind string, alive ...client.Object) *bench {
	t.Helper()
	b := &bench{clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
	b.Store = New(kind, b.clock, time.Minute)
	b.live = interceptor.NewClient(fake.NewClientBuilder().WithObjects(alive...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			b.lookedUp = append(b.lookedUp, key.Name)
			return c.Get(ctx, key, o, opts...)
		},
	})
	return b
}

func (b *bench) freshAfter(t *testing.T, d time.Duration) error {
	t.Helper()
	b.clock.SetTime(time.Unix(1000, 0).Add(d))
	b.lookedUp = nil
	none := func() iter.Seq[metav1.Object] { return slices.Values([]metav1.Object(nil)) }
	return b.Fresh(t.Context(), &metav1.ObjectMeta{Name: "web", UID: owner}, none, b.live, func() error {
		b.reads++
		return nil
	})
}

// requireLeft requires that exactly one child is waited for, and checks for how long.
func requireLeft(t *testing.T, err error, want time.Duration) {
	t.Helper()
	var notYet NotYetError
	require.ErrorAs(t, err, &notYet)
	require.Equal(t, want, notYet.Left)
}

func TestAChildThatIsDeletedBeforeTheCacheShowsItIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	b := newBench(t, "Lost")
	before := testutil.ToFloat64(losses.WithLabelValues("Lost")) // The test may run more than once in a process.
	b.Created(owner, podOf("a", owner))
	requireLeft(t, b.freshAfter(t, time.Second), time.Second)
	require.Empty(t, b.lookedUp, "the cache may just be a little late")
	require.NoError(t, b.freshAfter(t, 2*time.Second))
	require.Equal(t, []string{"a"}, b.lookedUp)
	require.InDelta(t, before+1, testutil.ToFloat64(losses.WithLabelValues("Lost")), 0)
	require.Empty(t, b.owners)
	require.Zero(t, b.reads)
}

func TestAnExistingChildIsLookedUpAgainAfterTwiceTheTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, "Lives", podOf("a", owner), podOf("b", owner))
	b.Created(owner, podOf("a", owner))
	b.Created(owner, podOf("b", owner))
	requireLeft(t, b.freshAfter(t, 2*time.Second), 2*time.Second)
	require.Equal(t, []string{"a"}, b.lookedUp, "the cache is behind, so the other child isn't looked up")
	requireLeft(t, b.freshAfter(t, 3*time.Second), time.Second)
	require.Empty(t, b.lookedUp)
	requireLeft(t, b.freshAfter(t, 4*time.Second), 4*time.Second)
	requireLeft(t, b.freshAfter(t, 8*time.Second), 8*time.Second)
	require.NoError(t, b.live.Delete(t.Context(), podOf("a", owner)))
	require.NoError(t, b.live.Delete(t.Context(), podOf("b", owner)))
	require.NoError(t, b.freshAfter(t, 16*time.Second))
	require.Equal(t, []string{"a", "b"}, b.lookedUp)
}

func TestLookup(t *testing.T) {
	t.Parallel()
	other := podOf("a", owner)
	other.UID = "another"
	free := podOf("a", owner)
	free.OwnerReferences = nil
	generic := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	generic.SetNamespace("shop")
	generic.SetName("a")
	generic.SetUID("uid-a")
	for _, tc := range []struct {
		name    string
		alive   []client.Object
		made    metav1.Object
		waits   bool
		lookups int
	}{
		{name: "a child that is gone is lost", made: podOf("a", owner), lookups: 1},
		{name: "an existing child is waited for", alive: []client.Object{podOf("a", owner)}, made: podOf("a", owner), waits: true, lookups: 1},
		{name: "a child whose name another object has is lost", alive: []client.Object{other}, made: podOf("a", owner), lookups: 1},
		{name: "a child with another controller is lost", alive: []client.Object{podOf("a", "other")}, made: podOf("a", owner), lookups: 1},
		{name: "an unstructured child is found", alive: []client.Object{podOf("a", owner)}, made: generic, waits: true, lookups: 1},
		{name: "a child that the owner never controlled is waited for", alive: []client.Object{free}, made: free.DeepCopy(), waits: true, lookups: 1},
		{name: "a child without a registered type can't be looked up", made: child("a", "1"), waits: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "Test", tc.alive...)
			b.Created(owner, tc.made)
			err := b.freshAfter(t, 2*time.Second)
			require.Equal(t, tc.waits, err != nil)
			require.Len(t, b.lookedUp, tc.lookups)
		})
	}
}

func TestChildWithAnAmbiguousWriteIsLookedUpBeforeThePlan(t *testing.T) {
	t.Parallel()
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := podOf("a", owner)
		p.ResourceVersion = "5"
		if change != nil {
			change(p)
		}
		return p
	}
	toCreate := pod(func(p *corev1.Pod) { p.UID, p.ResourceVersion = "", "" })
	changed := pod(func(p *corev1.Pod) { p.ResourceVersion = "9" })
	terminating := pod(func(p *corev1.Pod) {
		p.Finalizers, p.DeletionTimestamp = []string{"example.com/x"}, new(metav1.Unix(1000, 0))
	})
	other := pod(func(p *corev1.Pod) { p.UID = "another" })
	foreign := pod(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" })
	for _, tc := range []struct {
		name    string
		written client.Object
		live    []client.Object
		behind  []metav1.Object // what the cache shows while the store waits
		shown   []metav1.Object // and once it no longer waits
	}{
		{name: "a write that wasn't executed", written: pod(nil), live: []client.Object{pod(nil)}, shown: []metav1.Object{pod(nil)}},
		{
			name: "a patch that was executed", written: pod(nil), live: []client.Object{changed},
			behind: []metav1.Object{pod(nil)}, shown: []metav1.Object{changed},
		},
		{
			name: "a deletion that has begun", written: pod(nil), live: []client.Object{terminating},
			behind: []metav1.Object{pod(nil)}, shown: []metav1.Object{terminating},
		},
		{name: "a deletion that was executed", written: pod(nil), behind: []metav1.Object{pod(nil)}},
		{
			name: "a deletion after which another object has the name", written: pod(nil), live: []client.Object{other},
			behind: []metav1.Object{pod(nil)}, shown: []metav1.Object{other},
		},
		{
			name: "a creation that was executed", written: toCreate, live: []client.Object{pod(nil)},
			behind: []metav1.Object{}, shown: []metav1.Object{pod(nil)},
		},
		{name: "a creation that wasn't executed", written: toCreate},
		{name: "a creation by another owner", written: toCreate, live: []client.Object{foreign}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := New("test", clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), time.Minute)
			fails := errors.New("no route to host")
			live := interceptor.NewClient(fake.NewClientBuilder().WithObjects(tc.live...).Build(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if fails != nil {
						return fails
					}
					return c.Get(ctx, key, o, opts...)
				},
			})
			fresh := func(shown []metav1.Object) error {
				return s.Fresh(t.Context(), &metav1.ObjectMeta{UID: owner}, func() iter.Seq[metav1.Object] { return slices.Values(shown) }, live,
					func() error { return errors.New("must not be read again") })
			}
			s.Ambiguous(owner, tc.written)
			require.ErrorIs(t, fresh(tc.behind), fails, "no plan before the lookup")
			fails = nil
			if tc.behind != nil {
				require.ErrorAs(t, fresh(tc.behind), &NotYetError{})
			}
			require.NoError(t, fresh(tc.shown))
			require.Empty(t, s.owners)
		})
	}
}

func TestOfManyLostChildrenTheLastAreNotLookedUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, "Many")
	for i := range 100 {
		b.Created(owner, podOf(fmt.Sprintf("pod-%d", i), owner))
	}
	require.NoError(t, b.freshAfter(t, 2*time.Second))
	require.Len(t, b.lookedUp, 16)
	require.Equal(t, 1, b.reads, "all are read in parallel")
	require.Empty(t, b.owners)
}

func TestALookupThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	b := newBench(t, "Refused")
	b.Created(owner, podOf("a", owner))
	boom := errors.New("boom")
	b.live = interceptor.NewClient(b.live.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return boom
		},
	})
	err := b.freshAfter(t, 2*time.Second)
	require.ErrorIs(t, err, boom)
	require.EqualError(t, err, "look up shop/a, which the cache does not show: boom")
	require.Len(t, b.owners[owner], 1)
}
