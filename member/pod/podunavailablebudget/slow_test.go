package podunavailablebudget

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit"
)

// A sidecar takes 30 seconds to stop, and its next image can't be pulled. A client repeatedly asks to update each pod.
func TestAPodIsUnavailableUntilItsKubeletHasActed(t *testing.T) {
	t.Parallel()
	const stops = 30 * time.Second
	for _, tc := range []struct {
		name string
		// reports means that the kubelet reports what it has seen. records means that the client leaves a record, as a SidecarSet does.
		reports, records bool
		// restarts means that the next image can be pulled.
		restarts bool
		// updated is how many pods are updated after five minutes.
		updated int
	}{
		{name: "a client patches images", reports: true, updated: 1},
		{name: "a client patches images of an older kubelet", updated: 1},
		{name: "a SidecarSet patches images", reports: true, records: true, updated: 1},
		{name: "the image can be pulled", reports: true, restarts: true, updated: 5},
		{name: "the image can be pulled by an older kubelet", records: true, restarts: true, updated: 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := budget(0)
			objects := []client.Object{b}
			for i := range 5 {
				objects = append(objects, pod(fmt.Sprintf("web-%d", i), func(p *corev1.Pod) {
					p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "log", Image: "log:1"})
					p.Spec.Containers[0].Image = "alias:1" // The runtime reports another name for it.
					st := p.Status.ContainerStatuses[0]
					st.Name, st.Image, st.ImageID = "log", "log:1", "id-of-log:1"
					p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, st)
					p.Generation = 1
					if tc.reports {
						p.Status.ObservedGeneration = 1
					}
				}))
			}
			c := indexed(t, nil, objects...)
			clk := clocktesting.NewFakeClock(noon)
			r := reconciler(c, c, nil)
			r.Clock = clk
			guard := newGuard(c, c, clk, &testkit.Events{})
			patched := map[string]time.Time{}
			kubelet := func(p *corev1.Pod) {
				at, isPatched := patched[p.Name]
				st := &p.Status.ContainerStatuses[1]
				switch {
				case !isPatched || st.Image == "log:2":
					return
				case clk.Now().Before(at.Add(stops)):
					if tc.reports && !clk.Now().Before(at.Add(time.Second)) {
						p.Status.ObservedGeneration = p.Generation
					}
				case st.State.Running != nil:
					st.State, st.Ready = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}, false
					notReady(p)
				case tc.restarts:
					st.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(clk.Now())}}
					st.Image, st.ImageID, st.Ready = "log:2", "id-of-log:2", true
					for i := range p.Status.Conditions {
						p.Status.Conditions[i].Status = corev1.ConditionTrue
					}
				}
				require.NoError(t, c.Status().Update(t.Context(), p))
			}
			for range 60 {
				var list corev1.PodList
				require.NoError(t, c.List(t.Context(), &list))
				ready := 0
				for i := range list.Items {
					p := &list.Items[i]
					kubelet(p)
					_, isPatched := patched[p.Name]
					if podpatch.Ready(p) {
						ready++
					}
					if isPatched {
						continue
					}
					refusal, err := guard.Check(t.Context(), podwebhook.Request{Operation: podwebhook.Update, Old: p.DeepCopy()})
					require.NoError(t, err)
					if refusal != nil {
						continue
					}
					patched[p.Name] = clk.Now()
					p.Spec.Containers[1].Image = "log:2"
					p.Generation++
					if tc.records {
						annotated(keys.SidecarSetInPlaceState, fmt.Sprintf(`{"log":{"revision":"x","updateTimestamp":%q,"lastContainerStatuses":{"log":{"imageID":"id-of-log:1"}}}}`,
							clk.Now().Format(time.RFC3339)))(p)
					}
					require.NoError(t, c.Update(t.Context(), p))
				}
				require.GreaterOrEqual(t, ready, 4, "at %s", clk.Since(noon))
				_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: b.Namespace, Name: b.Name}})
				require.NoError(t, err)
				clk.Step(5 * time.Second)
			}
			require.Len(t, patched, tc.updated)
			if tc.updated == 5 {
				clk.Step(time.Minute)
				_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
				require.NoError(t, err)
				require.Empty(t, getBudget(t, c).Status.UnavailablePods)
				require.Equal(t, int32(5), getBudget(t, c).Status.CurrentAvailable)
			}
		})
	}
}
