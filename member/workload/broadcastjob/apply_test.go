package broadcastjob

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// immutable returns the apiserver's error for a patch that would change a field.
func immutable(at string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, "scan", field.ErrorList{field.Invalid(field.NewPath(at), "x", "field is immutable")})
}

// For the apiserver, a delete with the UID of a pod that was replaced since it was read is a conflict.
func TestADeleteOfAPodThatWasReplacedHasNotFailed(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "late", errors.New("the UID in the precondition differs"))
	for name, tc := range map[string]struct {
		answer  error
		reasons []string
	}{
		"the pod was replaced":  {answer: conflict},
		"the delete is refused": {answer: immutable("metadata.labels"), reasons: []string{podcontrol.ReasonFailedDelete}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := reconciler(interceptor.NewClient(nil, interceptor.Funcs{
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return tc.answer },
			}), nil, clocktesting.NewFakePassiveClock(noon), &testkit.Events{})
			o := observed{
				job: scan().Status(appsv1beta1.BroadcastJobStatus{
					Phase: appsv1beta1.BroadcastJobFailed, CompletionTime: &metav1.Time{Time: noon},
				}).Obj(),
				pods: []*corev1.Pod{on("a", corev1.PodRunning, named("late"))},
			}
			p := plan(o, noon)
			require.Equal(t, "-late, failed 0/1/0/0", summary(p))
			a := r.apply(t.Context(), o, p)
			require.Equal(t, tc.reasons != nil, a.Err() != nil, "%v", a.Err())
			_, events := status(o, p, a, false, noon)
			require.Equal(t, tc.reasons, testkit.Reasons(events))
		})
	}
}

// For the apiserver, a patch with the UID of a job that was replaced since it was read is Invalid. The new job has no failures to pause for.
func TestAJobThatWasReplacedIsNotPaused(t *testing.T) {
	t.Parallel()
	for at, replaced := range map[string]bool{"metadata.uid": true, "spec.paused": false} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			r := reconciler(interceptor.NewClient(nil, interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return immutable(at)
				},
			}), nil, clocktesting.NewFakePassiveClock(noon), &testkit.Events{})
			o := observed{
				job: scan().OnFailure(appsv1beta1.BroadcastJobPause).Obj(), nodes: []*corev1.Node{sim.Node("a")},
				pods: []*corev1.Pod{on("a", corev1.PodFailed)},
			}
			p := plan(o, noon)
			require.True(t, p.pause)
			a := r.apply(t.Context(), o, p)
			require.True(t, a.changed, "no status is written")
			require.Equal(t, replaced, a.Err() == nil, "%v", a.Err())
		})
	}
}
