package control

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestNoSharedRateLimitBoundsARollout is about B 30: a limit of ten reconciles a second across all objects bounded the rollout of 1,000 pods.
func TestNoSharedRateLimitBoundsARollout(t *testing.T) {
	t.Parallel()
	limiter := Queue(0).RateLimiter
	request := func(i int) ctrl.Request {
		return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: strconv.Itoa(i)}}
	}
	for i := range 1000 {
		require.Equal(t, firstRetry, limiter.When(request(i)), "the first failure of set %d", i)
	}
	for range 100 {
		require.LessOrEqual(t, limiter.When(request(0)), lastRetry)
	}
	require.Equal(t, lastRetry, limiter.When(request(0)))
	limiter.Forget(request(0))
	require.Equal(t, firstRetry, limiter.When(request(0)), "earlier failures don't slow down an object that works again")
}
