package resourcedistribution

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

// A webhook may refuse a copy with a different text each time. If each text were written, the write would immediately trigger the next
// attempt.
func TestARefusalWithAnotherTextEachTimeIsWrittenOnceInAWhile(t *testing.T) {
	t.Parallel()
	attempts, statuses := 0, 0
	clk := clocktesting.NewFakePassiveClock(noon)
	rd := distribution()
	api := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(rd, namespace("one")).WithStatusSubresource(rd).
		WithIndex(&corev1.ConfigMap{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).Build()
	r := reconciler(interceptor.NewClient(api, interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			attempts++
			return fmt.Errorf("refused by request %d", attempts)
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			statuses++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}), api, clk, &testkit.Events{})
	message := func() string {
		live := &appsv1beta1.ResourceDistribution{}
		require.NoError(t, api.Get(t.Context(), key, live))
		return find(live.Status.Conditions, appsv1beta1.ResourceDistributionCreateResourceFailed).Message
	}
	attempt := func() {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		require.ErrorContains(t, err, "refused by request")
	}
	for range 5 {
		attempt()
	}
	require.Equal(t, 5, attempts)
	require.Equal(t, 1, statuses, "the failure is written once, not each new message")
	require.Contains(t, message(), "refused by request 1")
	clk.SetTime(noon.Add(time.Minute))
	attempt()
	require.Contains(t, message(), "refused by request 6", "the message is updated after a while")
}
