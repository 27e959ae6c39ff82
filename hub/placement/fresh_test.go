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
}

// become changes the existing rows.
func (r *reader) become(rows map[types.UID]string) {
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
	for uid, version := range r.rows {
		meta := metav1.ObjectMeta{Name: string(uid), UID: uid, ResourceVersion: version}
		switch l := list.(type) {
		case *metav1.PartialObjectMetadataList:
			l.Items = append(l.Items, metav1.PartialObjectMetadata{ObjectMeta: meta})
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
		{"a cache that shows all", rows{"a": "7", "b": "10"}, rows{"a": "7", "b": "10"}, nil, false},
		{"one that is ahead", rows{"a": "7"}, rows{"a": "12", "new": "11"}, nil, false},
		{"one that shows a row as it was before the last write", rows{"a": "9"}, rows{"a": "7"}, nil, true},
		{"one that lacks a row", rows{"a": "7", "b": "8"}, rows{"a": "7"}, nil, true},
		{"one that lacks a row that has gone since", rows{"a": "7", "b": "8"}, rows{"a": "7"}, rows{"a": "7"}, false},
		{"one that shows a row that was gone before", rows{"a": "7"}, rows{"a": "7", "gone": "8"}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				live, cache := &reader{rows: tt.live, at: "10"}, &reader{rows: tt.cache}
				f := &Fresh{Cache: cache, Live: live, Scheme: scheme, Lists: []client.ObjectList{&fleetv1alpha1.MemberWorkList{}}}
				require.NoError(t, f.Start(t.Context(), nil))
				ended := make(chan error, 1)
				go func() { ended <- f.WaitForSync(t.Context()) }()
				if tt.now != nil {
					synctest.Wait()
					live.become(tt.now)
				}
				clock.RealClock{}.Sleep(5 * time.Second)
				synctest.Wait()
				if tt.waits {
					require.Empty(t, ended)
					cache.become(tt.live)
				}
				clock.RealClock{}.Sleep(freshRetry)
				require.NoError(t, <-ended)
				lists := live.listed()
				require.NoError(t, f.WaitForSync(t.Context()))
				require.Equal(t, lists, live.listed(), "it waits once")
			})
		})
	}
}

func TestFreshEndsWithItsContextAndOnErrors(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	lists := []client.ObjectList{&fleetv1alpha1.MemberWorkList{}}
	behind := &Fresh{
		Cache: &reader{}, Live: &reader{rows: map[types.UID]string{"a": "1"}, at: "1"}, Scheme: scheme, Lists: lists,
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, behind.WaitForSync(ctx), context.Canceled)
	down := errors.New("down")
	require.ErrorIs(t, (&Fresh{Cache: &reader{}, Live: &reader{err: down}, Scheme: scheme, Lists: lists}).WaitForSync(t.Context()), down)
	require.ErrorIs(t, (&Fresh{Cache: &reader{err: down}, Live: &reader{at: "1"}, Scheme: scheme, Lists: lists}).WaitForSync(t.Context()), down)
}
