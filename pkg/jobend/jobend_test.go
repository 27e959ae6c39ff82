package jobend

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-io/flotilla/pkg/seconds"
)

func TestDue(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name  string
		since *metav1.Time
		n     *int64
		after time.Duration
		due   bool
		in    time.Duration
	}{
		{name: "without a time", n: new(int64(1)), after: time.Hour},
		{name: "without a number", since: &metav1.Time{Time: since}, after: time.Hour},
		{name: "before", since: &metav1.Time{Time: since}, n: new(int64(60)), after: 59 * time.Second, in: time.Second},
		{name: "at the time", since: &metav1.Time{Time: since}, n: new(int64(60)), after: time.Minute, due: true},
		{name: "at once", since: &metav1.Time{Time: since}, n: new(int64(0)), due: true},
		{name: "never, practically", since: &metav1.Time{Time: since}, n: new(int64(math.MaxInt64)), in: seconds.Duration(math.MaxInt64)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			due, in := Due(tt.since, tt.n, since.Add(tt.after))
			require.Equal(t, tt.due, due)
			require.Equal(t, tt.in, in)
		})
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "jobs"}
	broken := errors.New("no answer")
	for name, tt := range map[string]struct{ answer, want error }{
		"it is deleted":    {},
		"it is gone":       {answer: apierrors.NewNotFound(resource, "a")},
		"it has changed":   {answer: apierrors.NewConflict(resource, "a", nil)},
		"nothing is known": {answer: broken, want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent client.DeleteOptions
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
					sent.ApplyOptions(options)
					return tt.answer
				},
			}).Build()
			job := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7"}}
			require.ErrorIs(t, Remove(t.Context(), c, job), tt.want)
			require.EqualValues(t, "u", *sent.Preconditions.UID)
			require.Equal(t, "7", *sent.Preconditions.ResourceVersion)
			require.Equal(t, metav1.DeletePropagationBackground, *sent.PropagationPolicy)
		})
	}
}
