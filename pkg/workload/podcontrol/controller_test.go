package podcontrol

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
)

func TestControllersAreNamedAsInOpenKruise(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"CloneSet": "cloneset-controller", "StatefulSet": "statefulset-controller", "DaemonSet": "daemonset-controller",
		"UnitedDeployment": "uniteddeployment-controller",
	} {
		require.Equal(t, want, control.Name(kind))
	}
}

// TestAFailureInOtherWordsIsNotWrittenAtOnce: a kind that owns pods reports a failed write in a condition. The text may differ each time.
func TestAFailureInOtherWordsIsNotWrittenAtOnce(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	writes := 0
	set := testkit.StatefulSet("web").Obj()
	api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(set).WithStatusSubresource(set).Build(), interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c := &Controller{Controller: controltest.New(api, api, clock, &testkit.Events{})}
	report := func(reason, message string, replicas int32, failed error) {
		live := &appsv1beta1.StatefulSet{}
		require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(set), live))
		status := *live.Status.DeepCopy()
		status.Replicas = replicas
		status.Conditions = []appsv1beta1.WorkloadCondition{{
			Type: appsv1beta1.WorkloadFailedCreatePod, Status: corev1.ConditionTrue, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(time.Unix(1000, 0)),
		}}
		_, err := c.Report(t.Context(), metric.NewPlanning("test", "Test"), &Results{}, control.Outcome{Object: live, Was: live.Status, Is: status, Err: failed})
		require.ErrorIs(t, err, failed)
	}
	refused := errors.New("refused")
	for i := range 10 {
		report("WriteFailed", fmt.Sprintf("refused by request %d", i), 1, refused)
	}
	require.Equal(t, 1, writes)
	report("Other", "refused by request 11", 1, refused)
	require.Equal(t, 2, writes, "another reason is written at once")
	report("Other", "refused by request 12", 2, refused)
	require.Equal(t, 3, writes, "and so are changed numbers")
	report("Other", "1 of 2 pods wait", 2, nil)
	require.Equal(t, 4, writes, "and another message without a failure")
}
