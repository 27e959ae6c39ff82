package row

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	return scheme
}

func want(cluster string, replicas int32) Want {
	return Want{
		Cluster:  cluster,
		Source:   fleetv1alpha1.WorkSource{APIVersion: "apps.kruise.io/v1beta1", Kind: "UnitedDeployment", Namespace: "shop", Name: "web", UID: "u"},
		Manifest: []byte(`{"kind":"UnitedDeployment","spec":{"template":{"a":1}}}`),
		Patch:    fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas),
		Grant: fleetv1alpha1.WorkGrant{Replicas: replicas, Subsets: []fleetv1alpha1.SubsetGrant{
			{Name: "a", Replicas: replicas, Lower: replicas, Upper: replicas},
		}},
	}
}

// recorded returns a client for objects in memory, and its writes.
func recorded(t *testing.T, objects ...client.Object) (client.Client, *testkit.Writes) {
	t.Helper()
	writes := &testkit.Writes{}
	c := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(objects...).WithInterceptorFuncs(writes.Funcs()).Build()
	return c, writes
}

func TestTheNameOfAContentDoesNotDependOnTheLastOne(t *testing.T) {
	t.Parallel()
	s := NewStore(nil, []byte("key"), nil)
	manifest := []byte("a")
	for _, text := range []string{"a", "a", "b", "a", "c"} {
		manifest[0] = text[0] // The same memory.
		require.Equal(t, fleetv1alpha1.ContentName(s.key, []byte(text)), s.contentName(Want{Manifest: manifest}))
	}
}

func TestPut(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))

	t.Run("two clusters of one object share one content", func(t *testing.T) {
		t.Parallel()
		c, writes := recorded(t)
		s := NewStore(c, []byte("key"), clk)
		for _, cluster := range []string{"east", "west"} {
			_, wrote, err := s.Put(t.Context(), want(cluster, 3), nil)
			require.NoError(t, err)
			require.True(t, wrote)
		}
		require.Len(t, writes.Verbs, 3, "one content and two rows")
	})
	t.Run("an equal want writes nothing, even if the bounds were different before", func(t *testing.T) {
		t.Parallel()
		c, writes := recorded(t)
		s := NewStore(c, []byte("key"), clk)
		w := want("east", 3)
		w.Grant.Subsets[0].Lower = 1
		live, _, err := s.Put(t.Context(), w, nil)
		require.NoError(t, err)
		writes.Verbs = nil
		_, wrote, err := s.Put(t.Context(), want("east", 3), live)
		require.NoError(t, err)
		require.False(t, wrote)
		require.Empty(t, writes.Verbs)
	})
	t.Run("a changed number is one small write", func(t *testing.T) {
		t.Parallel()
		c, writes := recorded(t)
		s := NewStore(c, []byte("key"), clk)
		live, _, err := s.Put(t.Context(), want("east", 3), nil)
		require.NoError(t, err)
		writes.Verbs = nil
		now, wrote, err := s.Put(t.Context(), want("east", 5), live)
		require.NoError(t, err)
		require.True(t, wrote)
		require.Len(t, writes.Verbs, 1)
		require.Equal(t, int32(5), now.Spec.Grant.Replicas)
	})
	t.Run("a row that another client has written in the meantime is not overwritten", func(t *testing.T) {
		t.Parallel()
		c, _ := recorded(t)
		s := NewStore(c, []byte("key"), clk)
		live, _, err := s.Put(t.Context(), want("east", 3), nil)
		require.NoError(t, err)
		_, _, err = s.Put(t.Context(), want("east", 5), live.DeepCopy())
		require.NoError(t, err)
		_, _, err = s.Put(t.Context(), want("east", 7), live.DeepCopy())
		require.Error(t, err)
	})
	t.Run("a patch of more than 2 KiB is merged into a separate content", func(t *testing.T) {
		t.Parallel()
		c, _ := recorded(t)
		s := NewStore(c, []byte("key"), clk)
		w := want("east", 3)
		w.Patch = []byte(`{"spec":{"long":"` + strings.Repeat("x", PatchLimit) + `"}}`)
		row, _, err := s.Put(t.Context(), w, nil)
		require.NoError(t, err)
		require.Empty(t, row.Spec.Patch.Raw)
		content := &fleetv1alpha1.WorkContent{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: row.Spec.Content.Ref}, content))
		require.Contains(t, content.Manifest, "xxx")
		require.Contains(t, content.Manifest, `"template"`)
	})
	t.Run("a manifest that only its member may read is only in the row", func(t *testing.T) {
		t.Parallel()
		c, writes := recorded(t)
		s := NewStore(c, []byte("key"), clk)
		secret := func(password string) Want {
			w := want("east", 0)
			w.Manifest, w.Patch, w.Inline = []byte(`{"kind":"Secret","data":{"password":"`+password+`"}}`), nil, true
			return w
		}
		live, wrote, err := s.Put(t.Context(), secret("a"), nil)
		require.NoError(t, err)
		require.True(t, wrote)
		require.Equal(t, fleetv1alpha1.WorkContentSource{Ref: fleetv1alpha1.InlineContent, Inline: string(secret("a").Manifest)}, live.Spec.Content)
		live.Status.Reason = fleetv1alpha1.ReasonContentNotFound // As reported by an agent that doesn't know inline manifests.
		_, wrote, err = s.Put(t.Context(), secret("a"), live)
		require.NoError(t, err)
		require.False(t, wrote)
		next, wrote, err := s.Put(t.Context(), secret("b"), live)
		require.NoError(t, err)
		require.True(t, wrote)
		require.Equal(t, string(secret("b").Manifest), next.Spec.Content.Inline)
		require.Equal(t, []string{"create", "update"}, writes.Verbs)
		contents := &fleetv1alpha1.WorkContentList{}
		require.NoError(t, c.List(t.Context(), contents))
		require.Empty(t, contents.Items)
	})
	t.Run("I39: a row with apply options is not applied by an older agent", func(t *testing.T) {
		t.Parallel()
		c, writes := recorded(t)
		s := NewStore(c, []byte("key"), clk)
		w := want("east", 3)
		live, _, err := s.Put(t.Context(), w, nil)
		require.NoError(t, err)
		plain := live.Spec.Content.Ref
		for _, tc := range []struct {
			name   string
			change func(*Want)
			ref    string
		}{
			{"with apply", func(w *Want) { w.Apply = &fleetv1alpha1.WorkApply{Ignore: []string{"spec.replicas"}} }, "apply." + plain},
			{"suspended", func(w *Want) { w.Apply, w.Suspend = nil, true }, "apply." + plain},
			{"suspended, inline", func(w *Want) { w.Inline, w.Patch = true, nil }, "apply.inline"},
			{"inline", func(w *Want) { w.Suspend = false }, "inline"},
		} {
			tc.change(&w)
			before := len(writes.Verbs)
			next, wrote, err := s.Put(t.Context(), w, live)
			require.NoError(t, err, tc.name)
			require.True(t, wrote, tc.name)
			require.Equal(t, tc.ref, next.Spec.Content.Ref, tc.name)
			require.Equal(t, w.Suspend, next.Spec.Suspend, tc.name)
			require.Equal(t, w.Apply != nil, next.Spec.Apply != nil, tc.name)
			_, wrote, err = s.Put(t.Context(), w, next)
			require.NoError(t, err, tc.name)
			require.False(t, wrote, tc.name)
			require.Len(t, writes.Verbs, before+1, "%s: the content is the same", tc.name)
			live = next
		}
	})
	t.Run("a content that was deleted is written again", func(t *testing.T) {
		t.Parallel()
		c, _ := recorded(t)
		s := NewStore(c, []byte("key"), clk)
		row, _, err := s.Put(t.Context(), want("east", 3), nil)
		require.NoError(t, err)
		content := &fleetv1alpha1.WorkContent{ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.SystemNamespace, Name: row.Spec.Content.Ref}}
		require.NoError(t, c.Delete(t.Context(), content))
		row.Status.Reason = fleetv1alpha1.ReasonContentNotFound
		_, wrote, err := s.Put(t.Context(), want("east", 3), row)
		require.NoError(t, err)
		require.False(t, wrote)
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(content), content))
	})
}

func TestI20AWithdrawalCarriesTheHubsEpoch(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (client.Client, *testkit.Writes, *Store, *fleetv1alpha1.MemberWork) {
		t.Helper()
		promoted := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
		promoted.Status.Hub = &fleetv1alpha1.HubIdentity{UID: "hub", Epoch: 8}
		row := want("east", 1).create("c")
		row.Spec.Grant.Epoch = 7
		c, writes := recorded(t, promoted, row)
		live := &fleetv1alpha1.MemberWork{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(row), live))
		return c, writes, NewStore(c, []byte("key"), clocktesting.NewFakePassiveClock(time.Unix(0, 0))), live
	}
	t.Run("a row that was granted at an earlier epoch", func(t *testing.T) {
		t.Parallel()
		c, writes, s, live := start(t)
		require.NoError(t, s.Withdraw(t.Context(), live, fleetv1alpha1.LeaveOrphan, false))
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(live), live))
		require.False(t, live.DeletionTimestamp.IsZero())
		require.Equal(t, int64(8), live.Spec.Grant.Epoch)
		require.Equal(t, fleetv1alpha1.LeaveOrphan, live.Spec.DeletionPolicy)
		require.Equal(t, []string{"update", "delete"}, writes.Verbs, "epoch and policy are updated in one write")
	})
	t.Run("a row that was withdrawn at an earlier epoch is updated once and keeps its policy", func(t *testing.T) {
		t.Parallel()
		c, writes, s, live := start(t)
		require.NoError(t, c.Delete(t.Context(), live))
		for range 2 {
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(live), live))
			require.NoError(t, s.Withdraw(t.Context(), live, fleetv1alpha1.LeaveOrphan, false))
		}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(live), live))
		require.Equal(t, int64(8), live.Spec.Grant.Epoch)
		require.Equal(t, fleetv1alpha1.LeaveDelete, live.Spec.DeletionPolicy)
		require.Equal(t, []string{"delete", "update"}, writes.Verbs)
	})
	t.Run("a row without its cluster is already withdrawn", func(t *testing.T) {
		t.Parallel()
		c, _, s, live := start(t)
		require.NoError(t, c.Delete(t.Context(), live))
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(live), live))
		require.NoError(t, c.Delete(t.Context(), &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}))
		require.NoError(t, s.Withdraw(t.Context(), live, fleetv1alpha1.LeaveDelete, false))
	})
}

func TestI13MassWithdrawalsPauseAndAsk(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	objects := []client.Object{mc}
	var rows []*fleetv1alpha1.MemberWork
	for i := range 30 {
		row := want("east", 1).create("c")
		row.Name = fmt.Sprintf("row-%d", i)
		rows = append(rows, row)
		objects = append(objects, row)
	}
	c, _ := recorded(t, objects...)
	s := NewStore(c, []byte("key"), clk)
	withdraw := func() (gone int, last error) {
		for _, row := range rows {
			live := &fleetv1alpha1.MemberWork{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(row), live))
			if err := s.Withdraw(t.Context(), live, fleetv1alpha1.LeaveDelete, false); err != nil {
				last = err
			}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(row), live))
			if !live.DeletionTimestamp.IsZero() {
				gone++
			}
		}
		return gone, last
	}
	gone, err := withdraw()
	require.Equal(t, 10, gone)
	require.ErrorIs(t, err, ErrPaused)
	require.ErrorContains(t, err, "kubectl annotate membercluster east "+keys.FleetWithdrawalsPaused+"-")

	clk.SetTime(clk.Now().Add(time.Hour))
	gone, _ = withdraw()
	require.Equal(t, 10, gone, "withdrawals do not continue by themselves")

	live := &fleetv1alpha1.MemberCluster{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(mc), live))
	delete(live.Annotations, keys.FleetWithdrawalsPaused)
	require.NoError(t, c.Update(t.Context(), live))
	gone, err = withdraw()
	require.NoError(t, err)
	require.Equal(t, 30, gone, "an administrator lets it continue")
}

func TestI13APauseDoesNotOpenTheBreakerOfALaterClusterOfThatName(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for i := range 12 {
		row := want("east", 1).create("c")
		row.Name = fmt.Sprintf("row-%d", i)
		objects = append(objects, row)
	}
	c, _ := recorded(t, objects...)
	s := NewStore(c, []byte("key"), clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	for _, uid := range []types.UID{"earlier", "later"} {
		mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", UID: uid}}
		require.NoError(t, c.Create(t.Context(), mc))
		counted := 0
		for _, o := range objects {
			ok, err := s.allow(t.Context(), mc, o.(*fleetv1alpha1.MemberWork), false)
			if counted++; counted <= breakerFloor {
				require.NoError(t, err, uid)
				require.True(t, ok)
				continue
			}
			require.ErrorIs(t, err, ErrPaused, uid)
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(mc), mc))
		}
		require.NoError(t, c.Delete(t.Context(), mc))
	}
}

func TestBreakerLetsSmallNumbersPass(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	b := newBreaker(clk)
	for range 50 {
		says, _ := b.take(tenancy{"east", "shop"}, cause{}, 100, false, "1")
		require.Equal(t, pass, says)
		clk.SetTime(clk.Now().Add(7 * time.Second))
	}
	for i := range 51 {
		says, _ := b.take(tenancy{"west", "shop"}, cause{}, 1000, false, "1")
		require.Equal(t, map[bool]verdict{true: pass, false: trip}[i < 50], says, "5 %% of 1,000 rows may be withdrawn")
	}
}

func TestBreakerKnowsItsAnnotationBeforeTheCacheDoes(t *testing.T) {
	t.Parallel()
	b, key := newBreaker(clocktesting.NewFakePassiveClock(time.Unix(0, 0))), tenancy{"east", "shop"}
	take := func(version string) verdict {
		says, _ := b.take(key, cause{}, 20, false, version)
		return says
	}
	for range breakerFloor {
		require.Equal(t, pass, take("5"))
	}
	require.Equal(t, trip, take("5"))
	b.annotated(key, "7")
	require.Equal(t, held, take("6"), "the cluster is annotated once")
	require.Equal(t, pass, take("8"), "the annotation was removed before the cache showed it")
}

func TestI13ADeletionOfOneSourceIsPaced(t *testing.T) {
	t.Parallel()
	// A letter is the source of a withdrawal, in lower case if the source was not deleted. The breaker's verdict is p for pass, w for wait, and
	// t for trip.
	const ten = "AAAAAAAAAA"
	for _, tt := range []struct{ name, withdrawals, want string }{
		{"One source that is deleted waits.", ten + "AAA", "ppppppppppwww"},
		{"Other withdrawals trip the breaker.", strings.ToLower(ten) + "a", "ppppppppppt"},
		{"Several sources that are deleted trip the breaker.", "AABBCCDDEEF", "ppppppppppt"},
		{"A deletion after other withdrawals trips the breaker.", "aAAAAAAAAAA", "ppppppppppt"},
		{"Paced withdrawals do not count for another source.", ten + "ABbA", "ppppppppppwppw"},
		{"A second source is not paced at the same time.", ten + "A" + "BBBBBBBBBB" + "B", "ppppppppppw" + "pppppppppp" + "t"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, got := newBreaker(clocktesting.NewFakePassiveClock(time.Unix(0, 0))), []byte(nil)
			for _, source := range tt.withdrawals {
				why := cause{source: strings.ToUpper(string(source)), deleted: unicode.IsUpper(source)}
				says, after := b.take(tenancy{"east", "shop"}, why, 20, false, "1")
				require.Equal(t, says == wait, after > 0)
				got = append(got, strings.ToLower(string(says[0]))...)
			}
			require.Equal(t, tt.want, string(got))
		})
	}
}

func TestADeletionThatIsPacedGoesOnByItself(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	objects := []client.Object{mc}
	for i := range 25 {
		r := want("east", 1).create("c")
		r.Name = fmt.Sprintf("row-%d", i)
		objects = append(objects, r)
	}
	c, _ := recorded(t, objects...)
	s := NewStore(c, []byte("key"), clk)
	for _, gone := range []int{10, 20, 25} {
		left, paced := 0, PacedError{}
		for _, o := range objects[1:] {
			live := &fleetv1alpha1.MemberWork{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(o), live))
			if err := s.Withdraw(t.Context(), live, fleetv1alpha1.LeaveDelete, true); err != nil {
				require.ErrorAs(t, err, &paced)
				left++
			}
		}
		require.Equal(t, 25-gone, left)
		clk.SetTime(clk.Now().Add(paced.Wait))
	}
	live := &fleetv1alpha1.MemberCluster{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(mc), live))
	require.Empty(t, live.Annotations)
}

func TestARowWithoutReplicasIsNoLoss(t *testing.T) {
	t.Parallel()
	r := want("east", 0).create("c")
	r.Generation, r.Status.ObservedGeneration = 2, 2
	r.Spec.Grant.Subsets = []fleetv1alpha1.SubsetGrant{{Name: "a"}, {Name: "b"}}
	require.True(t, emptied(r))
	for _, change := range []func(*fleetv1alpha1.MemberWork){
		func(r *fleetv1alpha1.MemberWork) { r.Spec.Grant.Subsets[1].Replicas = 1 },
		func(r *fleetv1alpha1.MemberWork) { r.Spec.Grant.Subsets = nil },
		func(r *fleetv1alpha1.MemberWork) { r.Status.Counts.Replicas = 1 },
		func(r *fleetv1alpha1.MemberWork) { r.Status.ObservedGeneration = 1 },
	} {
		other := r.DeepCopy()
		change(other)
		require.False(t, emptied(other))
	}
}

func TestAConflictIsNoWithdrawal(t *testing.T) {
	t.Parallel()
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	c, _ := recorded(t, mc, want("east", 1).create("c"))
	s := NewStore(c, []byte("key"), clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	live := &fleetv1alpha1.MemberWork{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(want("east", 1).create("c")), live))
	stale := live.DeepCopy()
	live.Labels["touched"] = "yes"
	require.NoError(t, c.Update(t.Context(), live))
	for range 3 * breakerFloor {
		require.True(t, apierrors.IsConflict(s.Withdraw(t.Context(), stale, fleetv1alpha1.LeaveDelete, false)))
	}
	require.NoError(t, s.Withdraw(t.Context(), live, fleetv1alpha1.LeaveDelete, false))
}

func TestARowHasTheDeletionPolicyOfItsSource(t *testing.T) {
	t.Parallel()
	w := want("east", 1)
	require.Equal(t, fleetv1alpha1.LeaveDelete, w.create("c").Spec.DeletionPolicy)
	w.DeletionPolicy = fleetv1alpha1.LeaveOrphan
	require.Equal(t, fleetv1alpha1.LeaveOrphan, w.create("c").Spec.DeletionPolicy)
}

func TestFinished(t *testing.T) {
	t.Parallel()
	deleted := metav1.NewTime(time.Unix(1, 0))
	row := func(change func(*fleetv1alpha1.MemberWork)) *fleetv1alpha1.MemberWork {
		r := &fleetv1alpha1.MemberWork{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deleted, Generation: 4}}
		r.Status = fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkWithdrawn, ObservedGeneration: 4}
		change(r)
		return r
	}
	require.True(t, finished(row(func(*fleetv1alpha1.MemberWork) {})))
	require.False(t, finished(row(func(r *fleetv1alpha1.MemberWork) { r.DeletionTimestamp = nil })), "a row that is not being deleted stays")
	require.False(t, finished(row(func(r *fleetv1alpha1.MemberWork) { r.Status.ObservedGeneration = 3 })), "a report from before the deletion does not count")
	require.False(t, finished(row(func(r *fleetv1alpha1.MemberWork) { r.Status.Phase = fleetv1alpha1.WorkDeleting })))
}

func TestAttack09OneTenantDoesNotUseUpTheBreakerOfAnother(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	objects := []client.Object{mc}
	rows := map[string][]*fleetv1alpha1.MemberWork{}
	for _, namespace := range []string{"noisy", "quiet"} {
		for i := range 20 {
			row := want("east", 1).create("c")
			row.Name, row.Spec.Source.Namespace = fmt.Sprintf("%s-%d", namespace, i), namespace
			rows[namespace] = append(rows[namespace], row)
			objects = append(objects, row)
		}
	}
	c, _ := recorded(t, objects...)
	s := NewStore(c, []byte("key"), clk)
	withdraw := func(namespace string, n int) (gone int) {
		for _, row := range rows[namespace][:n] {
			live := &fleetv1alpha1.MemberWork{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(row), live))
			if err := s.Withdraw(t.Context(), live, fleetv1alpha1.LeaveDelete, false); err != nil {
				require.ErrorIs(t, err, ErrPaused)
				require.ErrorContains(t, err, "namespace "+namespace)
				continue
			}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(row), live))
			require.True(t, live.Spec.Withdrawn, "the member can tell this from a deletion by another client")
			gone++
		}
		return gone
	}
	require.Equal(t, 10, withdraw("noisy", 20))
	require.Equal(t, 10, withdraw("quiet", 10), "another namespace has its own limit")
	live := &fleetv1alpha1.MemberCluster{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(mc), live))
	require.Equal(t, []string{"noisy"}, Paused(live))
	require.Equal(t, 10, withdraw("quiet", 20), "rows that are already withdrawn do not count again")
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(mc), live))
	require.Equal(t, []string{"noisy", "quiet"}, Paused(live))
}

func TestI13ObjectsWithoutANamespaceHaveALimitOfTheirOwn(t *testing.T) {
	t.Parallel()
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	objects := []client.Object{mc}
	var rows []*fleetv1alpha1.MemberWork
	for i := range 12 {
		row := want("east", 1).create("c")
		row.Name, row.Spec.Source.Namespace = fmt.Sprintf("row-%d", i), ""
		rows, objects = append(rows, row), append(objects, row)
	}
	c, _ := recorded(t, objects...)
	s := NewStore(c, []byte("key"), clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	var paused int
	withdraw := func() {
		paused = 0
		for _, row := range rows {
			live := &fleetv1alpha1.MemberWork{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(row), live))
			if err := s.Withdraw(t.Context(), live, fleetv1alpha1.LeaveDelete, false); err != nil {
				require.ErrorIs(t, err, ErrPaused)
				require.ErrorContains(t, err, "many objects without a namespace would be withdrawn from cluster east")
				paused++
			}
		}
	}
	withdraw()
	require.Equal(t, 2, paused, "ten withdrawals are allowed within a minute")
	live := &fleetv1alpha1.MemberCluster{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(mc), live))
	require.Equal(t, []string{noNamespace}, Paused(live))
	withdraw()
	require.Equal(t, 2, paused, "the rest waits for an administrator")
	live.Annotations = nil
	require.NoError(t, c.Update(t.Context(), live))
	withdraw()
	require.Zero(t, paused)
}
