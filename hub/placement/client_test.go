package placement

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/testkit"
)

// hub is a Client for objects in memory.
type hub struct {
	Client
	clock *clocktesting.FakePassiveClock
	testkit.Writes
}

func newHub(t *testing.T, objects ...client.Object) *hub {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	h := &hub{clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(h.Funcs())
	require.NoError(t, row.IndexBySource(t.Context(), testkit.Indexes{Builder: b}))
	c := b.Build()
	h.Client = Client{Client: c, Live: c, Rows: row.NewStore(c, []byte("key"), h.clock), Expect: expect.New("Kind", h.clock, 0)}
	return h
}

// fleet reads the source into object, and its fleet.
func (h *hub) fleet(t *testing.T, object client.Object) (Fleet, error) {
	t.Helper()
	return h.Fleet(t.Context(), client.ObjectKeyFromObject(source()), object)
}

// source returns an object of a kind that is placed.
func source() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web-uid"}}
}

func want(cluster string) row.Want {
	return row.Want{
		Cluster: cluster, Manifest: []byte(`{"kind":"Kind"}`), Patch: []byte(`{"spec":{"replicas":2}}`),
		Source: fleetv1alpha1.WorkSource{APIVersion: "v1", Kind: "Kind", Namespace: "shop", Name: "web", UID: "web-uid"},
	}
}

func TestApplySetsTheFinalizerBeforeItWritesARow(t *testing.T) {
	t.Parallel()
	h := newHub(t, source(), member("east"))
	object := source()
	f, err := h.fleet(t, object)
	require.NoError(t, err)
	require.Empty(t, f.Rows)
	result, err := h.Apply(t.Context(), object, f, Plan{AddFinalizer: true, Wants: []row.Want{want("east")}})
	require.NoError(t, err)
	require.Equal(t, []string{"patch", "create", "create"}, h.Verbs, "the finalizer, the content, the row")
	require.Equal(t, []string{"east"}, result.Written)
	require.Empty(t, result.Missed)

	f, err = h.fleet(t, object)
	require.NoError(t, err)
	manifest, err := h.Manifest(t.Context(), f.Rows["east"])
	require.NoError(t, err)
	require.JSONEq(t, `{"kind":"Kind","spec":{"replicas":2}}`, string(manifest))
}

func TestApplyWritesNoRowWithoutTheFinalizer(t *testing.T) {
	t.Parallel()
	h := newHub(t, source(), member("east"))
	object := source()
	require.NoError(t, h.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	h.Fail = func(string, client.Object) error {
		return apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("modified"))
	}
	result, err := h.Apply(t.Context(), object, fleet(), Plan{AddFinalizer: true, Wants: []row.Want{want("east")}})
	require.Error(t, err)
	require.Equal(t, []string{"patch"}, h.Verbs)
	require.True(t, result.Missed["east"])
}

func TestApplyWritesNoRowForAnObjectThatIsGone(t *testing.T) {
	t.Parallel()
	h := newHub(t, member("east"))
	result, err := h.Apply(t.Context(), source(), fleet(), Plan{AddFinalizer: true, Wants: []row.Want{want("east")}})
	require.NoError(t, err)
	require.Equal(t, []string{"patch"}, h.Verbs)
	require.True(t, result.Missed["east"])
}

func TestApplyKeepsTheFinalizerWhileTheApiserverHasARow(t *testing.T) {
	t.Parallel()
	h := newHub(t, source(), member("east"))
	object := source()
	f, err := h.fleet(t, object)
	require.NoError(t, err)
	written, err := h.Apply(t.Context(), object, f, Plan{AddFinalizer: true, Wants: []row.Want{want("east")}})
	require.NoError(t, err)
	_, err = h.fleet(t, object)
	require.NoError(t, err)

	_, err = h.Apply(t.Context(), object, f, Plan{RemoveFinalizer: true})
	require.NoError(t, err)
	require.NoError(t, h.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	require.True(t, Held(object), "the cache did not show the row, and the apiserver does")

	gone := written.Rows["east"].DeepCopy()
	gone.Finalizers = nil
	require.NoError(t, h.Update(t.Context(), gone))
	require.NoError(t, h.Delete(t.Context(), gone))
	_, err = h.Apply(t.Context(), object, f, Plan{RemoveFinalizer: true})
	require.NoError(t, err)
	require.NoError(t, h.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	require.False(t, Held(object))
}

func TestRowsOfSeveralObjects(t *testing.T) {
	t.Parallel()
	wantFor := func(cluster, name string) row.Want {
		w := want(cluster)
		w.Object = &fleetv1alpha1.WorkObject{APIVersion: "v1", Kind: "ConfigMap", Name: name}
		return w
	}
	h := newHub(t, source(), member("east"), member("west"))
	object := source()
	f, err := h.fleet(t, object)
	require.NoError(t, err)
	p := Plan{AddFinalizer: true, Wants: []row.Want{wantFor("east", "a"), wantFor("east", "b"), wantFor("west", "a")}}
	result, err := h.Apply(t.Context(), object, f, p)
	require.NoError(t, err)
	require.Empty(t, result.Missed)
	require.Equal(t, []string{"east", "east", "west"}, result.Written)

	f, err = h.fleet(t, object)
	require.NoError(t, err)
	require.Len(t, f.Rows, 3)
	for _, w := range p.Wants {
		require.Equal(t, w.Object, f.Rows[w.Place()].Spec.Object)
		require.Equal(t, w.Cluster, row.ClusterOf(w.Place()))
	}
	objects := f.Objects()
	require.Len(t, objects, 2)
	require.Len(t, objects[wantFor("", "a").Name()].Rows, 2)
	require.Equal(t, "b", objects[wantFor("", "b").Name()].Rows["east"].Spec.Object.Name)

	f.Clusters["west"].Status.Conditions = nil
	require.Equal(t, map[string]bool{"west": true}, clustersOf(f.Stale()))
	down, problems := Withdraw(object, f, fleetv1alpha1.LeaveOrphan, false)
	require.Len(t, problems, 1, "a cluster that does not answer is one problem, however many rows it has")
	require.Len(t, down.Withdrawals, 3)
	require.Equal(t, fleetv1alpha1.LeaveOrphan, down.Withdrawals[0].Policy)
	require.Equal(t, "2 clusters still hold it: west (ClusterUnreachable), east", result.Holders(problems))
	result, err = h.Apply(t.Context(), object, f, down)
	require.NoError(t, err)
	for place, applied := range Summarize(f, down, result).Applied {
		require.False(t, applied, place)
	}
	f, err = h.fleet(t, object)
	require.NoError(t, err)
	require.Len(t, Terminating(f), 3)
}

// clustersOf returns the clusters of places.
func clustersOf(places map[string]bool) map[string]bool {
	out := map[string]bool{}
	for place := range places {
		out[row.ClusterOf(place)] = true
	}
	return out
}

func TestApplyContinuesAfterAFailureInOneCluster(t *testing.T) {
	t.Parallel()
	h := newHub(t, source())
	h.Fail = func(verb string, o client.Object) error {
		switch {
		case verb == "create" && o.GetNamespace() == fleetv1alpha1.Namespace("east"):
			return apierrors.NewInternalError(errors.New("disk full"))
		case verb == "create" && o.GetNamespace() == fleetv1alpha1.Namespace("north"):
			return apierrors.NewAlreadyExists(schema.GroupResource{}, o.GetName())
		default:
			return nil
		}
	}
	result, err := h.Apply(t.Context(), source(), fleet(), Plan{Wants: []row.Want{want("east"), want("north"), want("west")}})
	require.ErrorContains(t, err, "disk full")
	require.NotContains(t, err.Error(), "exists", "a conflict means that the cache is stale, so it is not a failure")
	require.Equal(t, []string{"west"}, result.Written)
	require.Equal(t, map[string]bool{"east": true, "north": true}, result.Missed)
}

func TestAttack23ANamespaceWithoutBytesLeftIsReportedOnce(t *testing.T) {
	t.Parallel()
	h := newHub(t, source(), member("east"), member("west"))
	for i := range 64 {
		content := &fleetv1alpha1.WorkContent{ObjectMeta: metav1.ObjectMeta{
			Namespace: fleetv1alpha1.SystemNamespace, Name: fmt.Sprint("c-", i), Labels: map[string]string{keys.FleetSourceNamespace: "shop"},
			Annotations: map[string]string{keys.FleetContentBytes: "1048576"},
		}}
		require.NoError(t, h.Create(t.Context(), content))
	}
	result, err := h.Apply(t.Context(), source(), fleet(), Plan{Wants: []row.Want{want("east"), want("west")}})
	require.NoError(t, err, "a conflict is not retried at once")
	require.Len(t, result.Problems, 1)
	require.Equal(t, reasonBytes, result.Problems[0].Reason)
	require.Equal(t, map[string]bool{"east": true, "west": true}, result.Missed)
	require.NotZero(t, result.Recheck)
}

func TestAttack29ARowOfAnotherObjectIsReportedWhereItIsInTheWay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(r *fleetv1alpha1.MemberWork)
		reason string
	}{
		"The row belongs to another source.": {func(r *fleetv1alpha1.MemberWork) { r.Labels[keys.FleetSourceUID] = "other-uid" }, reasonRowTaken},
		"The row belongs to another object.": {func(r *fleetv1alpha1.MemberWork) {
			r.Spec.Object = &fleetv1alpha1.WorkObject{APIVersion: "v1", Kind: "ConfigMap", Name: "other"}
		}, reasonRowTaken},
		"The row is the object's own, but not in the cache yet.": {func(*fleetv1alpha1.MemberWork) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := want("east")
			w.Object = &fleetv1alpha1.WorkObject{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}
			there := held("east")
			there.Name, there.Spec.Object, there.Spec.Source = w.Name(), w.Object, w.Source
			tt.change(there)
			h := newHub(t, source(), member("east"), there)
			result, err := h.Apply(t.Context(), source(), fleet(), Plan{Wants: []row.Want{w}})
			require.NoError(t, err)
			require.True(t, result.Missed[w.Place()])
			if tt.reason == "" {
				require.Empty(t, result.Problems)
				require.Zero(t, result.Recheck)
				return
			}
			require.Len(t, result.Problems, 1)
			require.Equal(t, tt.reason, result.Problems[0].Reason)
			require.Equal(t, "east", result.Problems[0].Cluster)
			require.Contains(t, result.Problems[0].Message, "kubectl get memberwork -n fleet-east "+w.Name())
			require.NotZero(t, result.Recheck, "no event reports when the other row is gone")
		})
	}
}

func TestAttack29TwoRowsOfOneObjectAreReported(t *testing.T) {
	t.Parallel()
	older, newer := held("east"), held("east")
	older.CreationTimestamp, newer.CreationTimestamp = metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	older.Name, newer.Name = "kind-b", "kind-a"
	h := newHub(t, source(), member("east"), older, newer)
	f, err := h.fleet(t, source())
	require.NoError(t, err)
	require.Equal(t, "kind-b", f.Rows["east"].Name, "the older row, which the member has applied")
	result, err := h.Apply(t.Context(), source(), f, Plan{})
	require.NoError(t, err)
	require.Len(t, result.Problems, 1)
	require.Equal(t, reasonRowDoubled, result.Problems[0].Reason)
	require.Contains(t, result.Problems[0].Message, "kubectl delete memberwork -n fleet-east kind-a")
}

// TestAttack29RowsOfOlderHubsStay: row names used to have 48 bits. An upgrade withdraws and recreates nothing.
func TestAttack29RowsOfOlderHubsStay(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]*fleetv1alpha1.WorkObject{
		"a source with one object": nil,
		"one object of several":    {APIVersion: "v1", Kind: "ConfigMap", Name: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := want("east")
			w.Object, w.DeletionPolicy = object, fleetv1alpha1.LeaveDelete
			require.Regexp(t, "^[a-z]+-[0-9a-f]{32}$", w.Name())
			old := held("east")
			old.Name = w.Name()[:len(w.Name())-20]
			old.Spec.Object, old.Spec.Source = object, w.Source
			h := newHub(t, source(), member("east"), old)
			seen := source()
			f, err := h.fleet(t, seen)
			require.NoError(t, err)
			require.Equal(t, old.Name, f.Rows[w.Place()].Name)
			result, err := h.Apply(t.Context(), seen, f, Plan{Wants: []row.Want{w}})
			require.NoError(t, err)
			require.Equal(t, []string{"create", "update"}, h.Verbs, "the content, and the row as it is")
			require.Empty(t, result.Problems)
			f, err = h.fleet(t, seen)
			require.NoError(t, err)
			require.Len(t, f.Rows, 1)
			require.Equal(t, old.Name, f.Rows[w.Place()].Name)
			_, err = h.Apply(t.Context(), seen, f, Plan{Wants: []row.Want{w}})
			require.NoError(t, err)
			require.Len(t, h.Verbs, 2)
		})
	}
}

func TestFleetWaitsForOurOwnWritesAndThenAsksTheApiserver(t *testing.T) {
	t.Parallel()
	h := newHub(t, source(), member("east"))
	h.Expect.Created("web-uid", held("west"))
	_, err := h.fleet(t, source())
	require.ErrorAs(t, err, &expect.NotYetError{})
	h.clock.SetTime(h.clock.Now().Add(time.Hour))
	f, err := h.fleet(t, source())
	require.NoError(t, err)
	require.Empty(t, f.Rows)
}

func TestFleetWaitsForARowThatItsCacheDoesNotShow(t *testing.T) {
	t.Parallel()
	behind := newHub(t, source(), member("east"))
	behind.Live = newHub(t, source(), held("west")).Client.Client
	behind.Expect.Created("web-uid", held("west"))
	for range 3 {
		behind.clock.SetTime(behind.clock.Now().Add(time.Minute))
		_, err := behind.fleet(t, source())
		require.ErrorAs(t, err, &expect.NotYetError{}, "the row exists, although its source is not its controller")
	}
	behind.clock.SetTime(behind.clock.Now().Add(time.Hour))
	f, err := behind.fleet(t, source())
	require.NoError(t, err)
	require.Contains(t, f.Rows, "west")
}

func TestFleetForgetsASourceThatIsGone(t *testing.T) {
	t.Parallel()
	h := newHub(t, source())
	_, err := h.fleet(t, source())
	require.NoError(t, err)
	h.Expect.Created("web-uid", held("west"))
	require.NoError(t, h.Delete(t.Context(), source()))
	_, err = h.fleet(t, source())
	require.ErrorIs(t, err, expect.ErrGone)
	require.Zero(t, h.Expect.Check("web-uid", objects(source(), &fleetv1alpha1.MemberWorkList{}, nil)).Count)
}

func TestFleetIgnoresARowInTheNamespaceOfAnotherCluster(t *testing.T) {
	t.Parallel()
	forged := held("west")
	forged.Name, forged.Namespace = "kind-forged", fleetv1alpha1.Namespace("east")
	h := newHub(t, source(), held("east"), forged, member("east"))
	f, err := h.fleet(t, source())
	require.NoError(t, err)
	require.Len(t, f.Rows, 1)
	require.Contains(t, f.Rows, "east")
}

func TestWithdraw(t *testing.T) {
	t.Parallel()
	object := source()
	object.Finalizers = []string{keys.FleetRow}
	f := fleet(member("west"), member("east"))
	f.Clusters["west"].Status.Conditions = nil
	p, problems := Withdraw(object, f, fleetv1alpha1.LeaveDelete, false)
	require.False(t, p.RemoveFinalizer)
	require.Equal(t, []Withdrawal{{Row: f.Rows["east"], Policy: fleetv1alpha1.LeaveDelete}, {Row: f.Rows["west"], Policy: fleetv1alpha1.LeaveDelete}}, p.Withdrawals)
	require.Len(t, problems, 1)
	require.Equal(t, ReasonUnreachable, problems[0].Reason)
	require.Equal(t, "2 clusters still hold it: west (ClusterUnreachable), east", Result{Rows: f.Rows}.Holders(problems))
	require.Equal(t, map[string]bool{"east": false, "west": false}, Summarize(f, p, Result{Rows: f.Rows}).Applied)

	t.Run("I14: deleting a namespace on the hub does not delete objects in the members", func(t *testing.T) {
		t.Parallel()
		p, _ := Withdraw(object, f, fleetv1alpha1.LeaveDelete, true)
		require.Equal(t, fleetv1alpha1.LeaveOrphan, p.Withdrawals[0].Policy)
		require.Contains(t, p.Deleting, "kept")
	})
	t.Run("the finalizer is removed with the last row", func(t *testing.T) {
		t.Parallel()
		p, _ := Withdraw(object, fleet(), fleetv1alpha1.LeaveDelete, false)
		require.True(t, p.RemoveFinalizer)
		require.Equal(t, "no cluster holds it anymore", Result{}.Holders(nil))
	})
	t.Run("I20: a row that is being deleted keeps its policy, and is withdrawn again, as the epoch may have been raised", func(t *testing.T) {
		t.Parallel()
		f := fleet(member("west"), member("east"))
		f.Rows["west"].DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0)))
		require.Equal(t, []Withdrawal{{Row: f.Rows["west"], Policy: fleetv1alpha1.LeaveOrphan}}, Terminating(f))
	})
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	f := fleet(member("acknowledged"), member("behind"), member("emptied"), member("left-alone"), member("missed"))
	f.Rows["behind"].Generation++
	f.Rows["behind"].Status.Phase, f.Rows["behind"].Status.Message = fleetv1alpha1.WorkBlocked, "no such namespace"
	p := Plan{
		Wants:       []row.Want{want("acknowledged"), want("behind"), want("missed"), want("new")},
		Withdrawals: []Withdrawal{{Row: f.Rows["emptied"], Policy: fleetv1alpha1.LeaveDelete}},
	}
	r := Result{Rows: f.Rows, Missed: map[string]bool{"missed": true}}
	s := Summarize(f, p, r)
	require.Equal(t, map[string]bool{
		"acknowledged": true, "behind": false, "emptied": true, "left-alone": false, "missed": false, "new": false,
	}, s.Applied)
	require.Equal(t, []Problem{{Cluster: "behind", Message: "no such namespace"}}, s.Blocked)
	require.Equal(t, []string{"behind", "left-alone", "missed", "new"}, s.Lagging)
	require.Empty(t, s.Stale)
	require.False(t, s.Observed)

	f.Clusters["behind"].Status.Conditions = nil
	delete(f.Rows, "left-alone")
	p.Wants, p.Frozen = p.Wants[:2], []string{"without-a-row"}
	s = Summarize(f, p, r)
	require.Equal(t, map[string]bool{"behind": true, "without-a-row": true}, s.Stale)
	require.Equal(t, []string{"missed"}, s.Lagging, "the row of missed is neither written nor withdrawn")
	delete(f.Rows, "missed")
	require.True(t, Summarize(f, p, r).Observed)
	r.Err = errors.New("disk full")
	require.False(t, Summarize(f, p, r).Observed)
	require.False(t, Summarize(f, Plan{}, Result{}).Observed, "no row is wanted, and the report of a cluster is missing")
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	problems := []Problem{
		{Subset: "a", Cluster: "east", Message: "one"}, {Subset: "b", Message: "two"}, {Cluster: "west", Message: "three"}, {Message: "four"},
	}
	require.Equal(t, "subset a in east: one; subset b: two; west: three; and 1 more", Describe(problems))
	require.Equal(t, "four", Describe(problems[3:]))
}
