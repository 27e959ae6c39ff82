package daemonset

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// A refused pod is retried with the same name. A different name would change the condition, and that write would trigger the next attempt.
func TestRefusedPodIsTriedAgainUnderItsName(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	o := observed{set: web().Obj(), memory: &podset.Memory{}}
	var err error
	o.wanted, err = wantedRevision(o.set)
	require.NoError(t, err)
	p := plan(o, now)
	p.Steps = []podset.Step{{Step: rollout.Step{Kind: rollout.StepCreate, Slot: "n1"}}, {Step: rollout.Step{Kind: rollout.StepCreate, Slot: "n2"}}}
	var tried []string
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, pod client.Object, opts ...client.CreateOption) error {
			if _, ok := pod.(*corev1.Pod); !ok {
				return c.Create(ctx, pod, opts...)
			}
			tried = append(tried, pod.GetName())
			return apierrors.NewForbidden(corev1.Resource("pods"), pod.GetName(), errors.New("exceeded quota"))
		},
	})
	r := reconciler(c, clocktesting.NewFakePassiveClock(now))
	for range 3 {
		a := r.apply(t.Context(), o, p, now)
		require.ErrorContains(t, a.Err(), "exceeded quota")
	}
	require.Len(t, tried, 3)
	require.Equal(t, []string{tried[0], tried[0], tried[0]}, tried)
	require.Len(t, o.memory.Names(), 2, "one pod was tried, the other was not")
}
