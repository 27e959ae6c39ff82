package cloneset

import (
	"testing"

	"github.com/stretchr/testify/require"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

func TestANewPodGoesIntoServiceAtOnce(t *testing.T) {
	t.Parallel()
	hook := func() *pods.LifecycleHook {
		return &pods.LifecycleHook{LabelsHandler: map[string]string{"ready": "yes"}}
	}
	for _, tc := range []struct {
		name  string
		hooks *pods.Lifecycle
		want  string // the status; empty if nothing is sent
	}{
		{
			name: "#892: one patch opens its gate",
			want: `{"conditions":[{"type":"InPlaceUpdateReady","status":"True","lastTransitionTime":"2026-11-21T10:00:00Z","reason":null,"message":null}]}`,
		},
		{
			name: "one patch opens all of its gates", hooks: &pods.Lifecycle{PreDelete: &pods.LifecycleHook{MarkPodNotReady: true}},
			want: `{"conditions":[
				{"type":"KruisePodReady","status":"True","lastTransitionTime":"2026-11-21T10:00:00Z","reason":null,"message":null},
				{"type":"InPlaceUpdateReady","status":"True","lastTransitionTime":"2026-11-21T10:00:00Z","reason":null,"message":null}]}`,
		},
		{name: "the gate stays closed before a hook has answered", hooks: &pods.Lifecycle{PreNormal: hook()}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			set := web(1).Spec(func(s *appsv1beta1.CloneSetSpec) { s.Lifecycle = tc.hooks }).Obj()
			pod := newPod(set, gates{}, "web-1", &set.Spec.Template, "a", now)
			pod.UID = "made"
			patchOf := (&Reconciler{Controller: &podcontrol.Controller{Controller: &control.Controller{}}}).applier(set).IntoService(pod, now)
			if tc.want == "" {
				require.Nil(t, patchOf)
				return
			}
			p, err := patchOf(pod)
			require.NoError(t, err)
			require.Equal(t, "status", p.Subresource)
			require.JSONEq(t, `{"metadata":{"uid":"made","labels":{"lifecycle.apps.kruise.io/state":"Normal"},
				"annotations":{"lifecycle.apps.kruise.io/timestamp":"2026-11-21T10:00:00Z"}},"status":`+tc.want+`}`, string(p.Data))
		})
	}
}
