package row

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// selecting is an apiserver with these rows, which counts the rows that it returns. If old is true, it can't select by fields.
type selecting struct {
	client.Reader
	rows  []fleetv1alpha1.MemberWork
	old   bool
	lists []int
}

func (s *selecting) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o, out := client.ListOptions{}, list.(*fleetv1alpha1.MemberWorkList)
	o.ApplyOptions(opts)
	if o.FieldSelector != nil && s.old {
		return apierrors.NewBadRequest("field label not supported: " + contentIndex)
	}
	from, _ := strconv.Atoi(o.Continue)
	for i := from; i < len(s.rows); i++ {
		if o.Limit > 0 && len(out.Items) == int(o.Limit) {
			out.Continue = strconv.Itoa(i)
			break
		}
		if o.FieldSelector == nil || o.FieldSelector.Matches(fields.Set{contentIndex: s.rows[i].Spec.Content.Ref}) {
			out.Items = append(out.Items, s.rows[i])
		}
	}
	s.lists = append(s.lists, len(out.Items))
	return nil
}

// rowsOf returns n rows, each with its own content.
func rowsOf(n int) []fleetv1alpha1.MemberWork {
	rows := make([]fleetv1alpha1.MemberWork, n)
	for i := range rows {
		rows[i] = *want("east", 1).create(fmt.Sprintf("c-%d", i))
	}
	return rows
}

func TestWhetherAContentIsUsedIsAskedWithoutAListOfAllRows(t *testing.T) {
	t.Parallel()
	rows := rowsOf(1234)
	rows[1].Spec.Content.Ref = fleetv1alpha1.ApplyContent + "c-1"
	for _, old := range []bool{false, true} {
		api := &selecting{rows: rows, old: old}
		used, err := (&collector{reader: api}).used(t.Context(), []string{"c-0", "c-1", "c-x"})
		require.NoError(t, err)
		require.True(t, used["c-0"])
		require.True(t, used["c-1"], "by a row with apply options")
		require.False(t, used["c-x"])
		if old {
			require.Equal(t, []int{500, 500, 234}, api.lists, "an older apiserver is listed page by page")
		} else {
			require.Equal(t, []int{1, 0, 0, 1, 0, 0}, api.lists)
		}
	}
}

// BenchmarkCollect checks whether one content is used, among the contents of all rows.
func BenchmarkCollect(b *testing.B) {
	for _, rows := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			api := &selecting{rows: rowsOf(rows)}
			for b.Loop() {
				_, err := (&collector{reader: api}).used(b.Context(), []string{"c-0"})
				require.NoError(b, err)
			}
			read := 0
			for _, n := range api.lists {
				read += n
			}
			b.ReportMetric(float64(len(api.lists))/float64(b.N), "lists/op")
			b.ReportMetric(float64(read)/float64(b.N), "rows/op")
		})
	}
}

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
		{"unused contents are kept for a rollback", many(10, "web", 10), 299 * time.Second, 10},
		{"unused contents are deleted after five minutes", many(10, "web", 10), 5 * time.Minute, 0},
		{"at most ten of each source", many(25, "web", 10), time.Minute, 10},
		{"each source has its own limit", append(many(10, "web", 10), many(10, "db", 10)...), time.Minute, 20},
		{"at most 64 MiB in total, the newest ones", append(many(10, "web", 8<<20), many(10, "db", 8<<20)...), time.Minute, 9},
		{"all are kept for a minute, during which a row may be written", many(25, "web", 10), 59 * time.Second, 25},
		{"contents with a row are kept as long as it needs them", append(many(12, "db", 10), one{"web-00", "web", 10, true}), time.Hour, 1},
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
						Annotations:       map[string]string{keys.FleetContentBytes: strconv.Itoa(o.bytes)},
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
			require.LessOrEqual(t, len(c.unused), left, "deleted contents are forgotten")
		})
	}
}
