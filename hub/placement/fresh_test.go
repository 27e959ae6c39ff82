package placement

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// reader lists rows: resource versions by UID, and the resource version of the list.
type reader struct {
	client.Reader
	at  string
	err error

	mu    sync.Mutex
	rows  map[types.UID]string
	lists int
	kinds map[string]int // lists by kind
}

// setRows changes the existing rows.
func (r *reader) setRows(rows map[types.UID]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = rows
}

func (r *reader) listed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lists
}

func (r *reader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists++
	if r.kinds != nil {
		r.kinds[list.GetObjectKind().GroupVersionKind().Kind]++
	}
	for uid, version := range r.rows {
		meta := metav1.ObjectMeta{Name: string(uid), UID: uid, ResourceVersion: version}
		switch l := list.(type) {
		case *metav1.PartialObjectMetadataList:
			if l.Kind == "MemberWorkList" {
				l.Items = append(l.Items, metav1.PartialObjectMetadata{ObjectMeta: meta})
			}
		case *fleetv1alpha1.MemberWorkList:
			l.Items = append(l.Items, fleetv1alpha1.MemberWork{ObjectMeta: meta})
		}
	}
	list.SetResourceVersion(r.at)
	return r.err
}

func TestAttack12NewLeaderWaitsForItsCache(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	type rows = map[types.UID]string
	for _, tt := range []struct {
		name        string
		live, cache rows
		now         rows // on the apiserver after the first list; nil means live
		waits       bool
	}{
		{"a cache that is up to date", rows{"a": "7", "b": "10"}, rows{"a": "7", "b": "10"}, nil, false},
		{"a cache that is ahead", rows{"a": "7"}, rows{"a": "12", "new": "11"}, nil, false},
		{"a cache with an old version of a row", rows{"a": "9"}, rows{"a": "7"}, nil, true},
		{"a cache that lacks a row", rows{"a": "7", "b": "8"}, rows{"a": "7"}, nil, true},
		{"a cache that lacks a row that was deleted since", rows{"a": "7", "b": "8"}, rows{"a": "7"}, rows{"a": "7"}, false},
		{"a cache with a row that was deleted before", rows{"a": "7"}, rows{"a": "7", "gone": "8"}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				live, cache := &reader{rows: tt.live, at: "10"}, &reader{rows: tt.cache}
				f := (&Fresh{Cache: cache, Live: live, Scheme: scheme}).Source(nil, &fleetv1alpha1.MemberWorkList{})
				require.NoError(t, f.Start(t.Context(), nil))
				ended := make(chan error, 1)
				go func() { ended <- f.WaitForSync(t.Context()) }()
				if tt.now != nil {
					synctest.Wait()
					live.setRows(tt.now)
				}
				clock.RealClock{}.Sleep(5 * time.Second)
				synctest.Wait()
				if tt.waits {
					require.Empty(t, ended)
					cache.setRows(tt.live)
				}
				clock.RealClock{}.Sleep(freshRetry)
				require.NoError(t, <-ended)
				lists := live.listed()
				require.NoError(t, f.WaitForSync(t.Context()))
				require.Equal(t, lists, live.listed(), "the source waits only once")
			})
		})
	}
}

func TestFreshEndsWithItsContextAndOnErrors(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	from := func(cache, live *reader) ctrlsource.SyncingSource {
		return (&Fresh{Cache: cache, Live: live, Scheme: scheme}).Source(nil, &fleetv1alpha1.MemberWorkList{})
	}
	behind := from(&reader{}, &reader{rows: map[types.UID]string{"a": "1"}, at: "1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, behind.WaitForSync(ctx), context.Canceled)
	down := errors.New("down")
	require.ErrorIs(t, from(&reader{}, &reader{err: down}).WaitForSync(t.Context()), down)
	require.ErrorIs(t, from(&reader{err: down}, &reader{at: "1"}).WaitForSync(t.Context()), down)
}

func TestControllersShareOneListOfEachKind(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	synctest.Test(t, func(t *testing.T) {
		live := &reader{rows: map[types.UID]string{"a": "7"}, at: "10", kinds: map[string]int{}}
		cache := &reader{rows: map[types.UID]string{"a": "5"}}
		f := &Fresh{Cache: cache, Live: live, Scheme: scheme}
		own := []client.ObjectList{&fleetv1alpha1.PropagationList{}, &fleetv1alpha1.ClusterPropagationList{}}
		ended := make(chan error, len(own))
		for _, list := range own {
			source := f.Source(nil, &fleetv1alpha1.MemberWorkList{}, list)
			go func() { ended <- source.WaitForSync(t.Context()) }()
		}
		synctest.Wait()
		require.Empty(t, ended, "no controller starts before the cache shows the latest row")
		cache.setRows(live.rows)
		for range own {
			require.NoError(t, <-ended)
		}
		require.Equal(t, map[string]int{"MemberWorkList": 1, "PropagationList": 1, "ClusterPropagationList": 1}, live.kinds)
		require.NoError(t, f.Source(nil, &fleetv1alpha1.MemberWorkList{}).WaitForSync(t.Context()))
		require.Equal(t, 1, live.kinds["MemberWorkList"], "a controller that starts later does not list again")
	})
}
