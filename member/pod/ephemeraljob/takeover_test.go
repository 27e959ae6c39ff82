package ephemeraljob

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// takeoverState returns a job of OpenKruise that has added its container to a pod. The kubelet has not reported the container yet.
func takeoverState(t *testing.T) observed {
	t.Helper()
	text, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	first, second, found := bytes.Cut(text, []byte("\n---\n"))
	require.True(t, found)
	o := observed{job: &appsv1alpha1.EphemeralJob{}, pods: []*corev1.Pod{{}}}
	require.NoError(t, yaml.UnmarshalStrict(first, o.job))
	require.NoError(t, yaml.UnmarshalStrict(second, o.pods[0]))
	Registration().Fields.Strip(o.pods[0])
	return o
}

func TestAJobOfOpenKruiseGoesOn(t *testing.T) {
	t.Parallel()
	o := takeoverState(t)
	another := o.pods[0].DeepCopy()
	another.Name, another.UID, another.Spec.EphemeralContainers = "another", "another", nil
	o.pods = append(o.pods, another)
	now := o.job.Status.StartTime.Add(time.Minute)
	p := plan(o, now)
	require.Empty(t, p.add, "replicas is 1, and a pod has the container")
	s, events := status(o, p, applied{}, now)
	require.Empty(t, events)
	want := o.job.Status.DeepCopy()
	want.Phase, want.Waiting = appsv1alpha1.EphemeralJobWaiting, 1
	want.ObservedGeneration = o.job.Generation
	s.Conditions = report.ButReadiness(s.Conditions, conditionForm())
	require.Equal(t, *want, s, "the start time and the conditions stay")

	// The container finishes, and with it the job, which is then deleted with its finalizer.
	o.job.Status = s
	o.pods[0].Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "dbg", State: exit(0)}}
	p = plan(o, now)
	require.Equal(t, reasonJobSucceeded, p.ending.reason)
	o.job.Status, _ = status(o, p, applied{}, now)
	require.True(t, plan(o, now.Add(30*time.Minute)).remove)
	o.job.DeletionTimestamp = &metav1.Time{Time: now}
	require.True(t, plan(o, now).release)

	_, err := webhook().ValidateUpdate(t.Context(), takeoverState(t).job, o.job)
	require.NoError(t, err)
}
