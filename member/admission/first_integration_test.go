//go:build integration

package admission_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/member/admission"
	"github.com/flotilla-io/flotilla/member/pod/sidecarset"
	"github.com/flotilla-io/flotilla/member/workload/cloneset"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// warnings are the warnings from the apiserver.
type warnings []string

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// TestThePodsOfAReleaseGetTheirSidecars creates a SidecarSet, a CloneSet and a pod one after the other, twenty times, each time in a
// namespace whose pods were not sent to the webhook before.
func TestThePodsOfAReleaseGetTheirSidecars(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
	own := s.Namespace(t)
	site, _, _ := strings.Cut(own, "-")
	kind := appsv1beta1.GroupVersion.WithKind("SidecarSet")
	s.Run(t, "sidecars-under-test", kind, func(mgr ctrl.Manager) {
		injector := &sidecarset.Injector{Namespace: own, Clock: clock.RealClock{}}
		steps := []podwebhook.Step{injector.Step()}
		entries := &admission.Entries{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Configuration: "mutate-sidecarset-" + site, Steps: steps,
			Exempt: []string{own}, Namespace: own, Patience: 9 * time.Second, // The webhook's timeout is 10 s.
		}
		require.NoError(t, entries.Setup(t.Context(), mgr))
		require.NoError(t, steps[0].Setup(t.Context(), mgr))
		require.NoError(t, admit.Handle(mgr, admission.Path, &admission.Webhook{
			Cache: mgr.GetClient(), Steps: steps, Decoder: webhook.NewDecoder(mgr.GetScheme()), Clock: clock.RealClock{}, CatchUp: entries.CatchUp,
		}))
		w := &sidecarset.Webhook{Client: mgr.GetClient(), Namespace: own, Exempt: []string{own}}
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.SidecarSet]{
			Object: &appsv1beta1.SidecarSet{}, Defaulter: w, Validator: w, Admitted: entries.Ask,
		}))
		require.NoError(t, sidecarset.Setup(mgr, sidecarset.Options{Options: control.Options{Clock: clock.RealClock{}}, Namespace: own, Opening: entries}))
		require.NoError(t, cloneset.Setup(t.Context(), mgr, cloneset.Options{Options: podcontrol.Options{Options: control.Options{Clock: clock.RealClock{}}, Awaiting: entries}}))
	})
	var namespaces []string
	for range 20 {
		namespaces = append(namespaces, s.Namespace(t))
	}
	for _, namespace := range namespaces {
		require.Eventually(t, func() bool { // No pod is admitted before that.
			return s.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{}) == nil
		}, testenv.Long, testenv.Poll)
	}
	var warned warnings
	cfg := s.REST()
	cfg.WarningHandler = &warned
	user, err := client.New(cfg, client.Options{Scheme: s.Scheme()})
	require.NoError(t, err)
	injected := func(pod *corev1.Pod) bool { return len(pod.Spec.Containers) == 2 }
	for _, namespace := range namespaces {
		sidecars := &appsv1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		sidecars.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		sidecars.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
		sidecars.Spec.Containers = []appsv1beta1.SidecarContainer{{Container: corev1.Container{Name: "log", Image: "log:1"}}}
		set := testkit.CloneSet("web").Replicas(2).Obj()
		set.Namespace, set.UID, set.ResourceVersion, set.Generation = namespace, "", "", 0
		pod := testkit.Pod("bare").Obj()
		pod.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "bare", Labels: map[string]string{"app": "web"}}
		pod.Status = corev1.PodStatus{}

		require.NoError(t, user.Create(t.Context(), sidecars))
		require.Empty(t, warned)
		require.NoError(t, user.Create(t.Context(), pod))
		require.NoError(t, user.Create(t.Context(), set))
		require.True(t, injected(pod), "the pod that was created together with the SidecarSet")
	}
	for _, namespace := range namespaces {
		var list corev1.PodList
		require.Eventually(t, func() bool {
			require.NoError(t, s.List(t.Context(), &list, client.InNamespace(namespace)))
			return len(list.Items) == 3
		}, testenv.Long, testenv.Poll)
		for i := range list.Items {
			require.True(t, injected(&list.Items[i]), list.Items[i].Name)
		}
		sidecars := &appsv1beta1.SidecarSet{}
		require.Eventually(t, func() bool {
			require.NoError(t, s.Get(t.Context(), client.ObjectKey{Name: namespace}, sidecars))
			for _, c := range sidecars.Status.Conditions {
				if c.Type == appsv1beta1.SidecarSetActive && c.Status == metav1.ConditionTrue {
					return true
				}
			}
			return false
		}, testenv.Long, testenv.Poll)
		require.NoError(t, s.Delete(t.Context(), sidecars))
	}
}
