package row

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestAttack10UnusedContentsAreBounded(t *testing.T) {
	t.Parallel()
	type one struct {
		name, source string
		bytes        int
		row          bool
	}
	many := func(n int, source string, bytes int) []one {
		var out []one
		for i := range n {
			out = append(out, one{name: fmt.Sprintf("%s-%02d", source, i), source: source, bytes: bytes})
		}
		return out
	}
	for _, tt := range []struct {
		name     string
		contents []one
		after    time.Duration
		left     int
	}{
		{"unused ones are kept for a rollback", many(10, "web", 10), 299 * time.Second, 10},
		{"for five minutes", many(10, "web", 10), 5 * time.Minute, 0},
		{"ten of each source, not more", many(25, "web", 10), time.Minute, 10},
		{"so that one source does not count for another", append(many(10, "web", 10), many(10, "db", 10)...), time.Minute, 20},
		{"and 64 MiB of all, the newest", append(many(10, "web", 8<<20), many(10, "db", 8<<20)...), time.Minute, 9},
		{"all for a minute, in which a row is written", many(25, "web", 10), 59 * time.Second, 25},
		{"those with a row for as long as it needs them", append(many(12, "db", 10), one{"web-00", "web", 10, true}), time.Hour, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
			build := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&fleetv1alpha1.MemberWork{}, contentIndex, func(o client.Object) []string {
				return []string{o.(*fleetv1alpha1.MemberWork).Spec.Content.Name()}
			})
			for i, o := range tt.contents {
				build = build.WithObjects(&fleetv1alpha1.WorkContent{
					ObjectMeta: metav1.ObjectMeta{
						Namespace: fleetv1alpha1.SystemNamespace, Name: o.name, Labels: map[string]string{keys.FleetSourceUID: o.source},
						CreationTimestamp: metav1.Unix(int64(i), 0),
					},
					Manifest: strings.Repeat("x", o.bytes),
				})
				if o.row {
					row := want("east", 1).create(o.name)
					build = build.WithObjects(row)
				}
			}
			api := build.Build()
			clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			c := &collector{Client: api, reader: api, clock: clk, unused: map[string]unused{}}
			reconcile := func() (next time.Duration) {
				for _, o := range tt.contents {
					r, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: o.name}})
					require.NoError(t, err)
					next = r.RequeueAfter
				}
				return next
			}
			require.LessOrEqual(t, reconcile(), contentGrace)
			clk.SetTime(clk.Now().Add(tt.after))
			reconcile()
			left := 0
			for _, o := range tt.contents {
				err := api.Get(t.Context(), client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: o.name}, &fleetv1alpha1.WorkContent{})
				if err == nil {
					left++
				} else {
					require.True(t, apierrors.IsNotFound(err))
				}
			}
			require.Equal(t, tt.left, left)
			require.LessOrEqual(t, len(c.unused), left, "what is gone is forgotten")
		})
	}
}
