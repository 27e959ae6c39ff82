package containerrecreaterequest

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit"
)

// A late write by a previous leader may make a pod unready for a request that is gone. Nothing else would make the pod ready again.
func TestAPodIsNotKeptByARequestThatIsGone(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	for name, exists := range map[string]bool{"it is gone": false, "the cache lacks it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := target()
			pod.Status.Conditions[1].Status = corev1.ConditionFalse
			pod.Status.Conditions[1].Message = `[{"userAgent":"ContainerRecreateRequest","key":"shop/a"}]`
			require.Equal(t, []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "a"}}}, holders(pod))
			c := clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(pod).Build()
			live := clientfake.NewClientBuilder().WithScheme(scheme)
			if exists {
				live = live.WithObjects(again("a"))
			}
			var sent testkit.Events
			r := &Reconciler{Client: c, Live: live.Build(), Clock: clocktesting.NewFakePassiveClock(noon), Events: &sent}
			_, err := r.Reconcile(t.Context(), holders(pod)[0])
			require.NoError(t, err)
			stored := &corev1.Pod{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), stored))
			gate := podpatch.Find(stored, keys.KruisePodReady)
			require.Equal(t, exists, gate.Status == corev1.ConditionFalse)
			require.Len(t, sent.Reasons(), map[bool]int{false: 1, true: 0}[exists])
		})
	}
}
